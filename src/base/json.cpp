#include "base/json.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/utf8.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// What the library says without its prefix ("[json.exception...] parse error at line 1, column 2: "), printable and
/// short: it quotes the input, which may be long or binary.
std::string plain_reason(const std::string& what) {
  std::size_t begin = what.find("] ");
  begin = begin == std::string::npos ? 0 : begin + 2;
  if (what.compare(begin, 11, "parse error") == 0) {
    const std::size_t colon = what.find(": ", begin);
    if (colon != std::string::npos) begin = colon + 2;
  }
  constexpr std::size_t kLimit = 160;
  std::string reason = what.substr(begin, kLimit);
  if (what.size() - begin > kLimit) reason += "...";
  for (char& c : reason) {
    if (c < ' ' || c > '~') c = '?';
  }
  return reason;
}

struct Place {
  std::size_t line = 1;
  std::size_t column = 1;
};

/// Where the byte at `offset` stands.
Place place_of(std::string_view text, std::size_t offset) {
  const std::string_view before = text.substr(0, std::min(offset, text.size()));
  const std::size_t newline = before.rfind('\n');
  return {.line = 1 + static_cast<std::size_t>(std::ranges::count(before, '\n')),
          .column = newline == std::string_view::npos ? before.size() + 1 : before.size() - newline};
}

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

/// The value in JSON, cut where it is long.
std::string quote(const json& value) {
  if (value.is_structured()) return std::string(type_of(value));
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 60) + "...";
  return text;
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

/// The member, or nothing where it is missing or null.
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

/// JSON text whose strings hold no control character as such: the library escapes those of ASCII below a blank only,
/// and a document may go to a terminal.
std::string escape_controls(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  for (std::string_view rest = text; !rest.empty();) {
    const Utf8Character first = first_character(rest);
    if (is_control(first.code) && first.code != '\n')  // which parts the lines of the document
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(first.code));
    else
      out += rest.substr(0, first.bytes);
    rest.remove_prefix(first.bytes);
  }
  return out;
}

}  // namespace

json parse_json(std::string_view text, std::string_view context) {
  // The library takes a NUL byte for the end of the text and would ignore whatever follows it.
  if (const std::size_t nul = text.find('\0'); nul != std::string_view::npos) {
    const Place place = place_of(text, nul);
    fail("{} is not valid JSON at line {}, column {}: it holds a NUL byte", context, place.line, place.column);
  }
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int depth, json::parse_event_t event, json& parsed) {
    switch (event) {
      case json::parse_event_t::object_start:
      case json::parse_event_t::array_start:
        if (depth >= kMaxJsonDepth) fail("{} is nested deeper than {} levels", context, kMaxJsonDepth);
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        break;
      case json::parse_event_t::object_end:
        keys.pop_back();
        break;
      case json::parse_event_t::key:
        if (!keys.back().insert(parsed.get<std::string>()).second) {
          fail("{} repeats the key {} in one object", context, quote(parsed));
        }
        break;
      default:
        break;
    }
    return true;
  };
  try {
    return json::parse(text.begin(), text.end(), check);
  } catch (const json::parse_error& error) {
    const Place place = place_of(text, error.byte > 0 ? error.byte - 1 : 0);
    fail("{} is not valid JSON at line {}, column {}: {}", context, place.line, place.column,
         plain_reason(error.what()));
  } catch (const json::exception& error) {  // a number out of range
    fail("{} is not valid JSON: {}", context, plain_reason(error.what()));
  }
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
    fail("JSON cannot hold a string that is not UTF-8: {}", plain_reason(error.what()));
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
