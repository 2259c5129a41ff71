#include "models/config.hpp"

#include <fmt/ranges.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "base/error.hpp"

namespace headroom::config {
namespace {

/// config[key], or null if it is missing or null.
const nlohmann::json* find(const nlohmann::json& config, const char* key) {
  const auto found = config.find(key);
  return found == config.end() || found->is_null() ? nullptr : &*found;
}

bool is_within(const nlohmann::json& number, std::int64_t low, std::int64_t high) {
  if (!number.is_number_integer()) return false;
  const auto value = number.get<std::int64_t>();
  const bool wraps = number.is_number_unsigned() && value < 0;
  return !wraps && value >= low && value <= high;
}

}  // namespace

std::string class_name(const nlohmann::json& config) {
  if (!config.is_object()) fail("config.json: expected an object, got {}", config.type_name());
  if (const auto name = config.find("_class_name"); name != config.end())
    return name->is_string() ? name->get<std::string>() : "";
  const nlohmann::json* names = find(config, "architectures");
  const bool is_list = names != nullptr && names->is_array() && !names->empty() && names->front().is_string();
  return is_list ? names->front().get<std::string>() : "";
}

void refuse_class(const nlohmann::json& config, std::string_view expected) {
  const char* const key =
      config.contains("architectures") && !config.contains("_class_name") ? "architectures" : "_class_name";
  fail("config.json: {} is {}, expected {}", key, config.contains(key) ? config[key].dump() : "missing", expected);
}

void require_class(const nlohmann::json& config, std::string_view name) {
  if (class_name(config) != name) refuse_class(config, fmt::format("\"{}\"", name));
}

std::int64_t read_int(const nlohmann::json& config, const char* key, std::int64_t fallback, std::int64_t low,
                      std::int64_t high) {
  const nlohmann::json* found = find(config, key);
  if (found == nullptr) return fallback;
  if (!found->is_number_integer()) fail("config.json: {} is {}, expected a whole number", key, found->dump());
  if (!is_within(*found, low, high)) fail("config.json: {} is {}, expected {} to {}", key, found->dump(), low, high);
  return found->get<std::int64_t>();
}

std::vector<std::int64_t> read_ints(const nlohmann::json& config, const char* key, std::vector<std::int64_t> fallback,
                                    std::int64_t low, std::int64_t high) {
  const nlohmann::json* found = find(config, key);
  if (found == nullptr) return fallback;
  std::vector<std::int64_t> values;
  if (found->is_array())
    for (const auto& entry : *found)
      if (is_within(entry, low, high)) values.push_back(entry.get<std::int64_t>());
  if (values.empty() || values.size() != found->size())
    fail("config.json: {} is {}, expected a list of whole numbers from {} to {}", key, found->dump(), low, high);
  return values;
}

std::vector<std::int64_t> read_rope_axes(const nlohmann::json& config, std::vector<std::int64_t> fallback,
                                         std::int64_t head_dim, const char* key) {
  std::vector<std::int64_t> axes = read_ints(config, key, std::move(fallback), 2, kMaxExtent);
  for (const std::int64_t axis : axes)
    if (axis % 2 != 0) fail("config.json: {} is [{}], expected even sizes", key, fmt::join(axes, ","));
  if (const std::int64_t rotated = std::reduce(axes.begin(), axes.end()); rotated != head_dim)
    fail("config.json: {} add up to {}, expected {}, the channels of a head", key, rotated, head_dim);
  return axes;
}

std::vector<double> read_doubles(const nlohmann::json& config, const char* key, std::int64_t count) {
  const nlohmann::json* found = find(config, key);
  std::vector<double> values;
  if (found != nullptr && found->is_array())
    for (const auto& entry : *found)
      if (entry.is_number() && std::isfinite(entry.get<double>())) values.push_back(entry.get<double>());
  if (std::ssize(values) != count || values.size() != found->size())
    fail("config.json: {} is {}, expected a list of {} numbers", key, found == nullptr ? "missing" : found->dump(),
         count);
  return values;
}

double read_double(const nlohmann::json& config, const char* key, double fallback) {
  const nlohmann::json* found = find(config, key);
  if (found == nullptr) return fallback;
  if (!found->is_number()) fail("config.json: {} is {}, expected a number", key, found->dump());
  return found->get<double>();
}

double read_positive(const nlohmann::json& config, const char* key, double fallback, double most) {
  const double value = read_double(config, key, fallback);
  if (!(value > 0 && value <= most)) fail("config.json: {} is {}, expected more than 0 up to {}", key, value, most);
  return value;
}

bool read_bool(const nlohmann::json& config, const char* key, bool fallback) {
  const nlohmann::json* found = find(config, key);
  if (found == nullptr) return fallback;
  if (!found->is_boolean()) fail("config.json: {} is {}, expected true or false", key, found->dump());
  return found->get<bool>();
}

std::string read_text(const nlohmann::json& config, const char* key, const std::string& fallback) {
  const nlohmann::json* found = find(config, key);
  if (found == nullptr) return fallback;
  if (!found->is_string()) fail("config.json: {} is {}, expected a text", key, found->dump());
  return found->get<std::string>();
}

void require_value(const nlohmann::json& config, const char* key, const nlohmann::json& value) {
  const nlohmann::json* found = find(config, key);
  if (found != nullptr && *found != value) fail("config.json: {} is {}, expected {}", key, found->dump(), value.dump());
}

void require_text(const nlohmann::json& config, const char* key, std::string_view value) {
  require_value(config, key, value);
}

void require_texts(const nlohmann::json& config, const char* key, std::string_view value) {
  const nlohmann::json* found = find(config, key);
  if (found == nullptr) return;
  bool holds = found->is_array();
  for (const auto& entry : *found) holds = holds && entry == value;
  if (!holds) fail("config.json: {} is {}, expected \"{}\" in every place", key, found->dump(), value);
}

}  // namespace headroom::config
