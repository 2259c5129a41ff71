#include "measure/json_members.hpp"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/json.hpp"

namespace headroom {

void check_members(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                   std::string_view context) {
  if (!object.is_object()) fail("{} is {}, but an object was expected", context, object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, std::string_view(key)) == known.end()) {
      fail("{} has the unknown member \"{}\" (known are {})", context, key, fmt::join(known, ", "));
    }
  }
}

const nlohmann::json& get_array(const nlohmann::json& json, std::string_view key, std::string_view context) {
  const nlohmann::json& value = get(json, key, context);
  if (!value.is_array()) fail("\"{}\" in {} is {}, but an array was expected", key, context, value.type_name());
  return value;
}

const nlohmann::json& get_object(const nlohmann::json& json, std::string_view key, std::string_view context) {
  const nlohmann::json& value = get(json, key, context);
  if (!value.is_object()) fail("\"{}\" in {} is {}, but an object was expected", key, context, value.type_name());
  return value;
}

std::vector<std::string> get_string_array(const nlohmann::json& json, std::string_view key, std::string_view context) {
  std::vector<std::string> strings;
  for (const nlohmann::json& value : get_array(json, key, context)) {
    if (!value.is_string())
      fail("\"{}\"[{}] in {} is {}, but a string was expected", key, strings.size(), context, value.type_name());
    strings.push_back(value.get<std::string>());
  }
  return strings;
}

std::vector<double> get_double_array(const nlohmann::json& json, std::string_view key, std::string_view context) {
  std::vector<double> numbers;
  for (const nlohmann::json& value : get_array(json, key, context)) {
    if (!value.is_number())
      fail("\"{}\"[{}] in {} is {}, but a number was expected", key, numbers.size(), context, value.type_name());
    numbers.push_back(value.get<double>());
  }
  return numbers;
}

std::optional<std::int64_t> find_int(const nlohmann::json& json, std::string_view key, std::string_view context) {
  return json.contains(key) ? std::optional(get_int(json, key, context)) : std::nullopt;
}

std::optional<double> find_double(const nlohmann::json& json, std::string_view key, std::string_view context) {
  return json.contains(key) ? std::optional(get_double(json, key, context)) : std::nullopt;
}

std::optional<std::string> find_string(const nlohmann::json& json, std::string_view key, std::string_view context) {
  return json.contains(key) ? std::optional(get_string(json, key, context)) : std::nullopt;
}

}  // namespace headroom
