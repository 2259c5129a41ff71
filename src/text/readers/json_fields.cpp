#include "text/readers/json_fields.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/text/json.hpp"

namespace headroom {

std::string type_of_step(const nlohmann::json& object, const std::string& context) {
  return get_string(object, "type", context);
}

void check_keys(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                const std::string& context) {
  if (!object.is_object()) fail("{} is {}, but an object was expected", context, object.type_name());
  for (const auto& [key, value] : object.items()) {
    if (std::ranges::find(known, key) == known.end())
      fail("{} has the key \"{}\", which is not known; known are {}", context, key, fmt::join(known, ", "));
  }
}

const nlohmann::json& get_array(const nlohmann::json& object, std::string_view key, const std::string& context) {
  const nlohmann::json& value = get(object, key, context);
  if (!value.is_array()) fail("{} is {}, but an array was expected", place(context, key), value.type_name());
  return value;
}

Regex parse_pattern(const nlohmann::json& object, std::string_view key, const std::string& context) {
  const nlohmann::json& pattern = get(object, key, context);
  const std::string at = place(context, key);
  check_keys(pattern, {"String", "Regex"}, at);
  if (pattern.contains("Regex")) return {get_string(pattern, "Regex", at), at};
  return Regex::literal(get_string(pattern, "String", at), at);
}

std::string place(const std::string& context, std::string_view key) { return fmt::format("{}.{}", context, key); }
std::string place(const std::string& context, std::size_t index) { return fmt::format("{}[{}]", context, index); }

std::int32_t get_token_id(const nlohmann::json& value, const std::string& context) {
  // published ones end at 262,144; limited because a vocabulary allocates a place for each id
  constexpr std::int64_t kMost = 1 << 21;
  const std::int64_t id = value.is_number_integer() ? value.get<std::int64_t>() : -1;
  if (id < 0 || id >= kMost) fail("{} is {}, but an id was expected, below {}", context, shown(value), kMost);
  return static_cast<std::int32_t>(id);
}

std::string shown(const nlohmann::json& value) {
  constexpr std::size_t kMost = 80;
  std::string text = value.dump(-1, ' ', true);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string decode_base64(std::string_view text, const std::string& context) {
  constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3);
  while (text.ends_with('=')) text.remove_suffix(1);
  unsigned pending = 0;
  unsigned bits = 0;
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) fail("{} is not base64", context);
    pending = (pending << 6U | static_cast<unsigned>(digit)) & 0xFFFFU;
    bits += 6;
    if (bits < 8) continue;
    bits -= 8;
    bytes += static_cast<char>(pending >> bits & 0xFFU);
  }
  return bytes;
}

}  // namespace headroom
