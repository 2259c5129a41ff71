#include "measure/gates/budget_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cmath>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/quantity.hpp"
#include "measure/results/json_members.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// A number and the unit that follows it.
std::pair<double, std::string_view> split_number(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || !std::isfinite(value) || value < 0) return {-1, {}};
  return {value, std::string_view(end, static_cast<std::size_t>(text.data() + text.size() - end))};
}

double bytes_from_text(std::string_view text, const std::string& place) {
  static const std::map<std::string_view, double> kUnits = {
      {"B", 1},     {"kB", 1e3},     {"KB", 1e3},     {"MB", 1e6},     {"GB", 1e9},
      {"TB", 1e12}, {"KiB", 0x1p10}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TiB", 0x1p40}};
  const auto [value, unit] = split_number(text);
  const auto known = kUnits.find(unit);
  if (value < 0 || known == kUnits.end()) fail("{} is '{}', expected a size such as 2GiB or 500MB", place, text);
  return value * known->second;
}

double decibel_from_text(std::string_view text, const std::string& place) {
  const auto [value, unit] = split_number(text);
  if (value < 0 || unit != "dB") fail("{} is '{}', expected a number of dB such as 35dB", place, text);
  return value;
}

double percent_from_text(std::string_view text, const std::string& place) {
  const auto [value, unit] = split_number(text);
  if (value < 0 || value > 100 || unit != "%") fail("{} is '{}', expected a share such as 95%", place, text);
  return value / 100;
}

double duration_from_text(std::string_view text, const std::string& place, bool is_rate) {
  const bool ends_as_rate = text.ends_with("fps") || text.ends_with("/s");
  try {
    if (is_rate == ends_as_rate) return parse_budget_ms(text, place);
  } catch (const Error&) {  // a mistake in the file, not in an option
  }
  fail("{} is '{}', expected {}", place, text, is_rate ? "a rate such as 25/s" : "a time such as 40ms");
}

/// Parses a limit: a text with its unit, or a number in that unit; plain numbers have no unit.
double limit_from_json(Quantity quantity, const json& value, const std::string& place) {
  if (value.is_number()) {
    const double number = value.get<double>();
    const bool is_share = quantity == Quantity::kAccuracy;
    if (!std::isfinite(number) || number < 0 || (is_share && number > 1))
      fail("{} is {}, expected a number {}", place, value.dump(), is_share ? "from 0 to 1" : "of zero or more");
    return number;
  }
  if (!value.is_string()) fail("{} is {}, expected a text or a number", place, dump_json(value));
  const std::string text = value.get<std::string>();
  switch (quantity) {
    case Quantity::kTime:
    case Quantity::kP99:
      return duration_from_text(text, place, false);
    case Quantity::kMemory:
    case Quantity::kSize:
      return bytes_from_text(text, place);
    case Quantity::kPsnr:
      return decibel_from_text(text, place);
    case Quantity::kAccuracy:
      return percent_from_text(text, place);
    default:
      fail("{} is '{}', expected a number", place, text);
  }
}

constexpr std::string_view kThroughput = "throughput";

BudgetLimits limits_from_json(const json& object, const std::string& place) {
  if (object.empty()) fail("{} is empty, expected at least one limit", place);
  BudgetLimits limits;
  for (const auto& [key, value] : object.items()) {
    const std::string at = fmt::format("{}.{}", place, key);
    if (key == kThroughput) {
      limits.throughput = value.is_string() ? 1000 / duration_from_text(value.get<std::string>(), at, true)
                                            : limit_from_json(Quantity::kTime, value, at);
      if (*limits.throughput <= 0) fail("{} is {}, expected a rate over zero", at, value.dump());
      continue;
    }
    const QuantityInfo* info = find_quantity(key);
    if (info == nullptr) {
      std::vector<std::string_view> names;
      for (const QuantityInfo& one : all_quantities()) names.push_back(one.name);
      fail("{} is no quantity; there are {}, {}", at, fmt::join(names, ", "), kThroughput);
    }
    limits.of[info->quantity] = limit_from_json(info->quantity, value, at);
  }
  return limits;
}

std::optional<BudgetPattern> find_pattern(const json& object, const char* key, const std::string& place) {
  const std::optional<std::string> text = find_text(object, key, place);
  if (!text) return std::nullopt;
  try {
    return BudgetPattern{.text = *text, .filter = std::make_shared<const NameFilter>(*text)};
  } catch (const Error& error) {
    fail("{}.{}: {}", place, key, error.what());
  }
}

void read_size(const json& object, BudgetSelector& selector, const std::string& place) {
  const std::optional<std::string> text = find_text(object, "size", place);
  if (!text) return;
  static const NameFilter kSize("[1-9][0-9]{0,5}x[1-9][0-9]{0,5}");
  if (!kSize.takes_whole(*text)) fail("{}.size is '{}', expected pixels such as 1280x720", place, *text);
  selector.width = std::stoll(*text);  // the digits before the x
  selector.height = std::stoll(text->substr(text->find('x') + 1));
}

BudgetRow row_from_json(const json& object, const std::string& place) {
  check_members(
      object,
      {"name", "model", "opt", "device", "gpu", "source", "size", "batch", "request", "series", "required", "limits"},
      place);
  BudgetRow row;
  row.selector.model = find_pattern(object, "model", place);
  row.selector.opt = find_pattern(object, "opt", place);
  row.selector.device = find_pattern(object, "device", place);
  row.selector.gpu = find_pattern(object, "gpu", place);
  row.selector.source = find_pattern(object, "source", place);
  read_size(object, row.selector, place);
  row.selector.batch = find_whole(object, "batch", place, 1);
  if (object.contains("request")) row.selector.request = get_object(object, "request", place);
  row.series = find_text(object, "series", place).value_or("");
  row.required = get_bool_or(object, "required", true, place);
  row.limits = limits_from_json(get_object(object, "limits", place), place + ".limits");
  row.name = find_text(object, "name", place).value_or("");
  if (!row.name.empty()) return row;
  std::vector<std::string> parts;
  for (const char* key : {"model", "opt", "size", "device", "gpu", "source"})
    if (object.contains(key)) parts.push_back(object.at(key).get<std::string>());
  if (row.selector.batch) parts.push_back(fmt::format("batch {}", *row.selector.batch));
  if (!row.selector.request.empty()) parts.push_back(dump_json(row.selector.request));
  row.name = parts.empty() ? "every result" : fmt::format("{}", fmt::join(parts, ", "));
  return row;
}

}  // namespace

std::vector<BudgetRow> budget_from_json(const json& document, std::string_view context) {
  const std::string place(context);
  if (!document.is_object()) fail("{} is no JSON object, expected a budget of schema {}", place, kBudgetSchema);
  const std::string schema = get_string(document, "schema", place);
  if (schema != kBudgetSchema) fail("{} has schema '{}'; this program reads '{}'", place, schema, kBudgetSchema);
  check_members(document, {"schema", "rows"}, place);
  check_printable(document, place);
  std::vector<BudgetRow> rows;
  for (const json& row : get_array(document, "rows", place)) {
    const std::string at = fmt::format("{}: row {}", place, rows.size() + 1);
    if (!row.is_object()) fail("{} is {}, expected an object", at, dump_json(row));
    rows.push_back(row_from_json(row, at));
  }
  if (rows.empty()) fail("{} has no rows, expected at least one", place);
  return rows;
}

std::vector<BudgetRow> read_budget_file(const std::filesystem::path& path) {
  return budget_from_json(read_json(path), path.string());
}

}  // namespace headroom
