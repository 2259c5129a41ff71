#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Checked access to members of result JSON, in addition to base/text/json.hpp. `context` names the document and the
/// place in it; errors name the member, the value and what was expected.
namespace headroom {

/// The range that a number must lie in; `words` describe it in an error.
struct NumberRange {
  double low;
  double high;
  std::string_view words;
};
inline constexpr NumberRange kAnyNumber = {-std::numeric_limits<double>::max(), std::numeric_limits<double>::max(),
                                           "a number"};
inline constexpr NumberRange kNotNegative = {0, 1e30, "a number from 0 to 1e30"};
inline constexpr NumberRange kShare = {0, 1, "a number from 0 to 1"};
/// From a femtosecond to thirty years: quotients and sums of such times are finite.
inline constexpr NumberRange kTimeMs = {1e-12, 1e12, "a finite time over zero (1e-12 to 1e12 ms)"};

/// A member of an object, or an element of an array member.
struct JsonMember {
  std::string_view key;
  std::optional<std::size_t> index = {};
};
/// The context of what lies in a member: "the machine of a.json", or for an element of the kind `name` "series 3 of
/// a.json".
[[nodiscard]] std::string place_of(const JsonMember& member, std::string_view name, std::string_view context);

/// The value of a member; throws Error, naming the member, for another type or range.
[[nodiscard]] std::string as_text(const nlohmann::json& value, const JsonMember& member, std::string_view context);
[[nodiscard]] std::string as_any_text(const nlohmann::json& value, const JsonMember& member, std::string_view context);
[[nodiscard]] std::int64_t as_whole(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                                    std::int64_t least);
[[nodiscard]] double as_number(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                               const NumberRange& range);
[[nodiscard]] bool as_flag(const nlohmann::json& value, const JsonMember& member, std::string_view context);
/// Throw Error for a member of another type, or an array of fewer entries.
void check_array(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                 std::size_t fewest = 0);
void check_object(const nlohmann::json& value, const JsonMember& member, std::string_view context);
/// Throws Error for a text that is none of several.
[[noreturn]] void refuse_choice(const nlohmann::json& value, const JsonMember& member, std::string_view context,
                                std::span<const std::string> choices);
/// "a, b, c"
[[nodiscard]] std::string joined(std::span<const std::string> texts);

/// Throws Error for an object with a member that is not in `known`, so that a misspelt "quality" is not ignored
/// silently.
void check_members(const nlohmann::json& object, std::span<const std::string_view> known, std::string_view context);
void check_members(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                   std::string_view context);
/// Throws Error, with its place as a JSON pointer, for the first text or key below `json` with a terminal control or
/// bidirectional formatting character. Such a name could pass itself off as another one.
void check_printable(const nlohmann::json& json, std::string_view context);

/// The array or object under `key`; throws Error if it is missing or has another type.
[[nodiscard]] const nlohmann::json& get_array(const nlohmann::json& json, std::string_view key,
                                              std::string_view context);
[[nodiscard]] const nlohmann::json& get_object(const nlohmann::json& json, std::string_view key,
                                               std::string_view context);

/// Members of the given types: non-empty texts, integers of at least `least`, numbers in `range`.
[[nodiscard]] std::string get_text(const nlohmann::json& json, std::string_view key, std::string_view context);
[[nodiscard]] std::int64_t get_whole(const nlohmann::json& json, std::string_view key, std::string_view context,
                                     std::int64_t least = 0);
[[nodiscard]] std::vector<std::int64_t> get_wholes(const nlohmann::json& json, std::string_view key,
                                                   std::string_view context, std::int64_t least = 0);
[[nodiscard]] double get_number(const nlohmann::json& json, std::string_view key, std::string_view context,
                                const NumberRange& range = kAnyNumber);
[[nodiscard]] std::vector<double> get_numbers(const nlohmann::json& json, std::string_view key,
                                              std::string_view context, const NumberRange& range);

/// Nothing if the key is missing. A null is an Error: results leave out unknown values.
[[nodiscard]] std::optional<std::string> find_text(const nlohmann::json& json, std::string_view key,
                                                   std::string_view context);
[[nodiscard]] std::optional<std::int64_t> find_whole(const nlohmann::json& json, std::string_view key,
                                                     std::string_view context, std::int64_t least = 0);
[[nodiscard]] std::optional<double> find_number(const nlohmann::json& json, std::string_view key,
                                                std::string_view context, const NumberRange& range = kAnyNumber);

}  // namespace headroom
