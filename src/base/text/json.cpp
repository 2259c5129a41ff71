#include "base/text/json.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json_events.hpp"
#include "base/text/printable.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

using nlohmann::json;

std::string_view type_of(const json& value) {
  switch (value.type()) {
    case json::value_t::null:
      return "null";
    case json::value_t::object:
      return "an object";
    case json::value_t::array:
      return "an array";
    case json::value_t::string:
      return "a string";
    case json::value_t::boolean:
      return "a boolean";
    case json::value_t::number_integer:
    case json::value_t::number_unsigned:
      return "an integer";
    case json::value_t::number_float:
      return "a number with a fraction";
    default:
      return "something else";
  }
}

/// The value in JSON, shortened if it is long.
std::string quote(const json& value) {
  if (value.is_structured()) return std::string(type_of(value));
  return shortened(value.dump(-1, ' ', false, json::error_handler_t::replace), 60);
}

[[noreturn]] void fail_type(std::string_view key, std::string_view context, const json& value,
                            std::string_view expected) {
  fail("\"{}\" in {} is {}, but {} was expected", key, context, quote(value), expected);
}

bool fits_int64(const json& value) {
  if (value.is_number_unsigned()) {
    return value.get<std::uint64_t>() <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  }
  return value.is_number_integer();
}

std::int64_t as_int(const json& value, std::string_view key, std::string_view context) {
  if (!fits_int64(value)) fail_type(key, context, value, "a 64-bit integer");
  return value.get<std::int64_t>();
}

/// The member, or null if it is missing or null.
const json* find(const json& object, std::string_view key, std::string_view context) {
  if (!object.is_object()) fail("{} is {}, but an object was expected", context, type_of(object));
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

/// The JSON pointer (RFC 6901) of the first NaN or infinity below `value`.
std::optional<std::string> find_non_finite(const json& value) {
  if (value.is_number_float() && !std::isfinite(value.get<double>())) return "";
  if (!value.is_structured()) return std::nullopt;
  for (const auto& [key, member] : value.items()) {
    if (const auto below = find_non_finite(member)) {
      return (json::json_pointer() / key).to_string() + *below;
    }
  }
  return std::nullopt;
}

/// Escapes control characters in the strings of JSON text. The library escapes only those of ASCII, and a document
/// may be printed on a terminal.
std::string escape_controls(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Character first = first_character(rest);
    // a line feed, which separates the lines of the document, is kept
    if (is_control(first.code) && first.code != '\n')
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(first.code));
    else
      out += rest.substr(0, first.bytes);
    rest.remove_prefix(first.bytes);
  }
  return out;
}

}  // namespace

json parse_json(std::string_view text, std::string_view context) {
  JsonBuilder builder(context);
  read_json_events(text, context, builder);
  return builder.take();
}

json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.native()); }

std::string dump_json(const json& value, int indent) {
  // The library would write null instead.
  if (const auto place = find_non_finite(value)) {
    fail("JSON cannot hold the value at \"{}\", {}; a finite number was expected", *place,
         value.at(json::json_pointer(*place)).get<double>());
  }
  try {
    return escape_controls(value.dump(indent));
  } catch (const json::exception& error) {
    fail("JSON cannot hold a string that is not UTF-8: {}", plain_json_reason(error.what()));
  }
}

void write_json(const std::filesystem::path& path, const json& value) {
  std::string text;
  try {
    text = dump_json(value, 2);
  } catch (const Error& error) {
    fail("cannot write {}: {}", path.native(), error.what());
  }
  write_file_atomically(path, text + "\n");
}

const json& get(const json& object, std::string_view key, std::string_view context) {
  if (!object.is_object()) fail("{} is {}, but an object was expected", context, type_of(object));
  const auto found = object.find(key);
  if (found == object.end()) fail("{} has no \"{}\"", context, key);
  return *found;
}

std::int64_t get_int(const json& object, std::string_view key, std::string_view context) {
  return as_int(get(object, key, context), key, context);
}

double get_double(const json& object, std::string_view key, std::string_view context) {
  const json& value = get(object, key, context);
  if (!value.is_number()) fail_type(key, context, value, "a number");
  return value.get<double>();
}

bool get_bool(const json& object, std::string_view key, std::string_view context) {
  const json& value = get(object, key, context);
  if (!value.is_boolean()) fail_type(key, context, value, "true or false");
  return value.get<bool>();
}

std::string get_string(const json& object, std::string_view key, std::string_view context) {
  const json& value = get(object, key, context);
  if (!value.is_string()) fail_type(key, context, value, "a string");
  return value.get<std::string>();
}

std::vector<std::int64_t> get_int_array(const json& object, std::string_view key, std::string_view context) {
  const json& value = get(object, key, context);
  if (!value.is_array()) fail_type(key, context, value, "an array of integers");
  std::vector<std::int64_t> result;
  result.reserve(value.size());
  for (const json& element : value) {
    result.push_back(as_int(element, fmt::format("{}[{}]", key, result.size()), context));
  }
  return result;
}

std::int64_t get_int_or(const json& object, std::string_view key, std::int64_t fallback, std::string_view context) {
  return find(object, key, context) != nullptr ? get_int(object, key, context) : fallback;
}

double get_double_or(const json& object, std::string_view key, double fallback, std::string_view context) {
  return find(object, key, context) != nullptr ? get_double(object, key, context) : fallback;
}

bool get_bool_or(const json& object, std::string_view key, bool fallback, std::string_view context) {
  return find(object, key, context) != nullptr ? get_bool(object, key, context) : fallback;
}

std::string get_string_or(const json& object, std::string_view key, std::string_view fallback,
                          std::string_view context) {
  return find(object, key, context) != nullptr ? get_string(object, key, context) : std::string(fallback);
}

}  // namespace headroom
