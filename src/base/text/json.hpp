#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

/// Checked access to JSON. Include <nlohmann/json.hpp> where values are built or walked.
/// `context` names the document in messages, usually its path. All errors are headroom::Error in one sentence.
namespace headroom {

/// Documents nested deeper than this are refused, because many functions on JSON recurse.
inline constexpr int kMaxJsonDepth = 100;

/// Parses a whole document. Throws Error with line and column if it is not JSON in UTF-8, repeats a key in an
/// object, or is nested too deeply.
[[nodiscard]] nlohmann::json parse_json(std::string_view text, std::string_view context);
/// Reads and parses a file; its path is the context.
[[nodiscard]] nlohmann::json read_json(const std::filesystem::path& path);

/// Serializes; `indent` < 0 gives one line. Throws Error with the place (a JSON pointer) of a NaN or infinity,
/// which JSON cannot represent, or if a string is not UTF-8. Numbers read back to the same double. Control
/// characters, including those for text direction, are escaped, so that the document is safe on a terminal.
[[nodiscard]] std::string dump_json(const nlohmann::json& value, int indent = -1);
/// dump_json with indentation and a final newline, written atomically.
void write_json(const std::filesystem::path& path, const nlohmann::json& value);

/// The value of `key` in `object`. Throws Error if it is missing or of another type. An integer is accepted as a
/// double; a double is never accepted as an integer.
[[nodiscard]] const nlohmann::json& get(const nlohmann::json& object, std::string_view key, std::string_view context);
[[nodiscard]] std::int64_t get_int(const nlohmann::json& object, std::string_view key, std::string_view context);
[[nodiscard]] double get_double(const nlohmann::json& object, std::string_view key, std::string_view context);
[[nodiscard]] bool get_bool(const nlohmann::json& object, std::string_view key, std::string_view context);
[[nodiscard]] std::string get_string(const nlohmann::json& object, std::string_view key, std::string_view context);
[[nodiscard]] std::vector<std::int64_t> get_int_array(const nlohmann::json& object, std::string_view key,
                                                      std::string_view context);

/// The same, with `fallback` if the key is missing or null. A wrong type is still an Error.
[[nodiscard]] std::int64_t get_int_or(const nlohmann::json& object, std::string_view key, std::int64_t fallback,
                                      std::string_view context);
[[nodiscard]] double get_double_or(const nlohmann::json& object, std::string_view key, double fallback,
                                   std::string_view context);
[[nodiscard]] bool get_bool_or(const nlohmann::json& object, std::string_view key, bool fallback,
                               std::string_view context);
[[nodiscard]] std::string get_string_or(const nlohmann::json& object, std::string_view key, std::string_view fallback,
                                        std::string_view context);

}  // namespace headroom
