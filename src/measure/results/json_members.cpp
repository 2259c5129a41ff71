#include "measure/results/json_members.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// The value as JSON; a long value is cut off, and objects and long lists are described by their type.
std::string quote(const json& value) {
  constexpr std::size_t kMost = 60, kMostElements = 4;
  if (value.is_object() || (value.is_array() && value.size() > kMostElements)) return value.type_name();
  const std::string text = value.dump(-1, ' ', true, json::error_handler_t::replace);
  return text.size() > kMost ? text.substr(0, kMost) + "..." : text;
}

[[noreturn]] void refuse(const json& value, const JsonMember& member, std::string_view context,
                         std::string_view expected) {
  fail("\"{}\"{} in {} is {}, but {} was expected", member.key,
       member.index ? fmt::format("[{}]", *member.index) : std::string(), context, quote(value), expected);
}

/// Applies `convert` to each element of the array under `key`.
template <typename T, typename Convert>
std::vector<T> get_each(const json& object, std::string_view key, std::string_view context, const Convert& convert) {
  std::vector<T> values;
  for (const json& value : get_array(object, key, context))
    values.push_back(convert(value, JsonMember{key, values.size()}));
  return values;
}

/// The first unprintable character, as "U+001B".
std::optional<std::string> find_unprintable(std::string_view text) {
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    if (is_control(first.code)) return fmt::format("U+{:04X}", static_cast<unsigned>(first.code));
    text.remove_prefix(first.bytes);
  }
  return std::nullopt;
}

/// An unprintable character, and where it is.
struct Unprintable {
  std::string place;  ///< a JSON pointer
  std::string character;
  bool is_in_key = false;
};

/// The first unprintable character in a value. The place is built only while returning from a hit: a long key before
/// each of many members would otherwise take quadratic time.
std::optional<Unprintable> find_unprintable_in(const json& value) {
  if (value.is_string())
    if (auto found = find_unprintable(value.get_ref<const std::string&>())) return Unprintable{"", std::move(*found)};
  if (!value.is_structured()) return std::nullopt;
  for (const auto& [key, member] : value.items()) {
    if (value.is_object())
      if (auto found = find_unprintable(key)) return Unprintable{"", std::move(*found), true};
    if (auto below = find_unprintable_in(member)) {
      below->place = fmt::format("/{}{}", shortened(key, 60), below->place);
      return below;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string place_of(const JsonMember& member, std::string_view name, std::string_view context) {
  return member.index ? fmt::format("{} {} of {}", name, *member.index, context)
                      : fmt::format("the {} of {}", member.key, context);
}

std::string as_text(const nlohmann::json& value, const JsonMember& member, std::string_view context) {
  if (!value.is_string() || value.get_ref<const std::string&>().empty())
    refuse(value, member, context, "a string that is not empty");
  return value.get<std::string>();
}

std::int64_t as_whole(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                      std::int64_t least) {
  constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = value.is_number_unsigned() ? value.get<std::uint64_t>() <= kMost : value.is_number_integer();
  if (!fits || value.get<std::int64_t>() < least)
    refuse(value, member, context, fmt::format("a 64-bit integer of at least {}", least));
  return value.get<std::int64_t>();
}

double as_number(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                 const NumberRange& range) {
  if (!value.is_number() || !(value.get<double>() >= range.low && value.get<double>() <= range.high))
    refuse(value, member, context, range.words);
  return value.get<double>();
}

std::string as_any_text(const nlohmann::json& value, const JsonMember& member, std::string_view context) {
  if (!value.is_string()) refuse(value, member, context, "a string");
  return value.get<std::string>();
}

bool as_flag(const nlohmann::json& value, const JsonMember& member, std::string_view context) {
  if (!value.is_boolean()) refuse(value, member, context, "true or false");
  return value.get<bool>();
}

void check_array(const nlohmann::json& value, const JsonMember& member, std::string_view context, std::size_t fewest) {
  if (!value.is_array()) fail("\"{}\" in {} is {}, but an array was expected", member.key, context, value.type_name());
  if (value.size() < fewest)
    fail("\"{}\" in {} has {} entries, but at least {} was expected", member.key, context, value.size(), fewest);
}

void check_object(const nlohmann::json& value, const JsonMember& member, std::string_view context) {
  if (!value.is_object())
    fail("\"{}\" in {} is {}, but an object was expected", member.key, context, value.type_name());
}

void refuse_choice(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                   std::span<const std::string> choices) {
  refuse(value, member, context, "one of " + joined(choices));
}

std::string joined(std::span<const std::string> texts) { return fmt::format("{}", fmt::join(texts, ", ")); }

void check_printable(const json& value, std::string_view context) {
  const std::optional<Unprintable> found = find_unprintable_in(value);
  if (!found) return;
  fail("{} at \"{}\" in {} holds the character {}, but no control character and none that turns text was expected",
       found->is_in_key ? "a key of the object" : "the text", found->place, context, found->character);
}

void check_members(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                   std::string_view context) {
  check_members(object, std::span(known.begin(), known.size()), context);
}

void check_members(const nlohmann::json& object, std::span<const std::string_view> known, std::string_view context) {
  if (!object.is_object()) fail("{} is {}, but an object was expected", context, object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, std::string_view(key)) == known.end()) {
      fail("{} has the unknown member \"{}\" (known are {})", context, key, fmt::join(known, ", "));
    }
  }
}

const nlohmann::json& get_array(const nlohmann::json& json, std::string_view key, std::string_view context) {
  const nlohmann::json& value = get(json, key, context);
  check_array(value, {key}, context);
  return value;
}

const nlohmann::json& get_object(const nlohmann::json& json, std::string_view key, std::string_view context) {
  const nlohmann::json& value = get(json, key, context);
  check_object(value, {key}, context);
  return value;
}

std::string get_text(const nlohmann::json& json, std::string_view key, std::string_view context) {
  return as_text(get(json, key, context), {key}, context);
}

std::int64_t get_whole(const nlohmann::json& json, std::string_view key, std::string_view context, std::int64_t least) {
  return as_whole(get(json, key, context), {key}, context, least);
}

std::vector<std::int64_t> get_wholes(const nlohmann::json& json, std::string_view key, std::string_view context,
                                     std::int64_t least) {
  return get_each<std::int64_t>(json, key, context, [&](const nlohmann::json& value, const JsonMember& member) {
    return as_whole(value, member, context, least);
  });
}

double get_number(const nlohmann::json& json, std::string_view key, std::string_view context,
                  const NumberRange& range) {
  return as_number(get(json, key, context), {key}, context, range);
}

std::vector<double> get_numbers(const nlohmann::json& json, std::string_view key, std::string_view context,
                                const NumberRange& range) {
  return get_each<double>(json, key, context, [&](const nlohmann::json& value, const JsonMember& member) {
    return as_number(value, member, context, range);
  });
}

std::optional<std::string> find_text(const nlohmann::json& json, std::string_view key, std::string_view context) {
  return json.contains(key) ? std::optional(get_text(json, key, context)) : std::nullopt;
}

std::optional<std::int64_t> find_whole(const nlohmann::json& json, std::string_view key, std::string_view context,
                                       std::int64_t least) {
  return json.contains(key) ? std::optional(get_whole(json, key, context, least)) : std::nullopt;
}

std::optional<double> find_number(const nlohmann::json& json, std::string_view key, std::string_view context,
                                  const NumberRange& range) {
  return json.contains(key) ? std::optional(get_number(json, key, context, range)) : std::nullopt;
}

}  // namespace headroom
