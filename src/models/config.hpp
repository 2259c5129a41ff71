#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// Reading a component's config.json as diffusers writes it, where a missing or null key means the class's default. Errors name
/// the key, the value and what was expected.
namespace headroom::config {

inline constexpr std::int64_t kMaxExtent = 1 << 20;  ///< far above any model; keeps products of extents inside 64 bits
inline constexpr std::int64_t kMaxLayers = 4096;

/// What `read` makes of a file in `folder`; its errors name the file alone and get the folder here.
template <class Read>
auto read_in(const std::string& folder, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", folder, error.what()), error.code());
  }
}

/// The class that a configuration is of: its `_class_name`, as diffusers has it, or the first of its `architectures`,
/// as transformers. Empty where it states none. Throws Error where it is no object.
[[nodiscard]] std::string class_name(const nlohmann::json& config);
/// Throws Error that says what class it states, and what was expected.
[[noreturn]] void refuse_class(const nlohmann::json& config, std::string_view expected);
/// Throws Error unless that is its class.
void require_class(const nlohmann::json& config, std::string_view class_name);

[[nodiscard]] std::int64_t read_int(const nlohmann::json& config, const char* key, std::int64_t fallback,
                                    std::int64_t low, std::int64_t high);
/// A list of at least one number in [low, high].
[[nodiscard]] std::vector<std::int64_t> read_ints(const nlohmann::json& config, const char* key,
                                                  std::vector<std::int64_t> fallback, std::int64_t low,
                                                  std::int64_t high);
[[nodiscard]] double read_double(const nlohmann::json& config, const char* key, double fallback);
[[nodiscard]] bool read_bool(const nlohmann::json& config, const char* key, bool fallback);
[[nodiscard]] std::string read_text(const nlohmann::json& config, const char* key, const std::string& fallback);
/// Throws Error where config[key] is there and not `value`, the only one that is supported.
void require_text(const nlohmann::json& config, const char* key, std::string_view value);
/// The same of any value; null where none is supported.
void require_value(const nlohmann::json& config, const char* key, const nlohmann::json& value);
/// The same of a list of which each entry must be that text.
void require_texts(const nlohmann::json& config, const char* key, std::string_view value);

}  // namespace headroom::config
