#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// What reading results needs beyond base/json.hpp. `context` names the document and the place in it.
namespace headroom {

/// Refuses an object with a member that is not among `known`: a misspelt "quality" must not be lost in silence.
void check_members(const nlohmann::json& object, std::initializer_list<std::string_view> known,
                   std::string_view context);

/// The array or object under `key`; throws Error where it is missing or something else.
[[nodiscard]] const nlohmann::json& get_array(const nlohmann::json& json, std::string_view key,
                                              std::string_view context);
[[nodiscard]] const nlohmann::json& get_object(const nlohmann::json& json, std::string_view key,
                                               std::string_view context);
[[nodiscard]] std::vector<std::string> get_string_array(const nlohmann::json& json, std::string_view key,
                                                        std::string_view context);
[[nodiscard]] std::vector<double> get_double_array(const nlohmann::json& json, std::string_view key,
                                                   std::string_view context);

/// Nothing where the key is missing. A null is an Error: results leave out what they do not know.
[[nodiscard]] std::optional<std::int64_t> find_int(const nlohmann::json& json, std::string_view key,
                                                   std::string_view context);
[[nodiscard]] std::optional<double> find_double(const nlohmann::json& json, std::string_view key,
                                                std::string_view context);
[[nodiscard]] std::optional<std::string> find_string(const nlohmann::json& json, std::string_view key,
                                                     std::string_view context);

}  // namespace headroom
