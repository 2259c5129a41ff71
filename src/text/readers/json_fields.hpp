#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "text/regex.hpp"

/// Shared by the parsers of tokenizer.json. `context` names the file and the position in it.
namespace headroom {

/// The "type" of an object.
[[nodiscard]] std::string type_of_step(const nlohmann::json& object, const std::string& context);
/// Throws Error if an object has an unknown key, since it might change the ids.
void check_keys(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                const std::string& context);

[[nodiscard]] const nlohmann::json& get_array(const nlohmann::json& object, std::string_view key,
                                              const std::string& context);

/// {"Regex": "..."} or {"String": "..."}.
[[nodiscard]] Regex parse_pattern(const nlohmann::json& object, std::string_view key, const std::string& context);

/// "context.key", "context[index]".
[[nodiscard]] std::string place(const std::string& context, std::string_view key);
[[nodiscard]] std::string place(const std::string& context, std::size_t index);

/// Throws Error if the number is no valid id: below 0 or beyond the limit of a vocabulary.
[[nodiscard]] std::int32_t get_token_id(const nlohmann::json& value, const std::string& context);

/// A value for an Error message, shortened.
[[nodiscard]] std::string shown(const nlohmann::json& value);

[[nodiscard]] std::string decode_base64(std::string_view text, const std::string& context);

}  // namespace headroom
