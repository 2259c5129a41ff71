#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// Readers for a component's config.json as written by diffusers; a missing or null key means the class's default.
/// Errors name the key, the value and what was expected.
namespace headroom::config {

inline constexpr std::int64_t kMaxExtent = 1 << 20;  ///< far above any model; keeps element counts within 64 bits
inline constexpr std::int64_t kMaxLayers = 4096;
inline constexpr double kMaxRopeTheta = 1e12;

/// Returns the result of `read` for a file in `folder`. Errors of `read` name the file only; the folder is added
/// here.
template <class Read>
auto read_in(const std::string& folder, const Read& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", folder, error.what()), error.code());
  }
}

/// The class of a configuration: its `_class_name` in diffusers' files, or the first of its `architectures` in
/// transformers' files. Empty if it names none. Throws Error if the JSON is not an object.
[[nodiscard]] std::string class_name(const nlohmann::json& config);
/// Throws Error that names the class found and the class expected.
[[noreturn]] void refuse_class(const nlohmann::json& config, std::string_view expected);
/// Throws Error unless the configuration is of this class.
void require_class(const nlohmann::json& config, std::string_view class_name);

[[nodiscard]] std::int64_t read_int(const nlohmann::json& config, const char* key, std::int64_t fallback,
                                    std::int64_t low, std::int64_t high);
/// A list of at least one number in [low, high].
[[nodiscard]] std::vector<std::int64_t> read_ints(const nlohmann::json& config, const char* key,
                                                  std::vector<std::int64_t> fallback, std::int64_t low,
                                                  std::int64_t high);
/// Channels of a head by the axis of its positions: even sizes that add up to `head_dim`.
[[nodiscard]] std::vector<std::int64_t> read_rope_axes(const nlohmann::json& config, std::vector<std::int64_t> fallback,
                                                       std::int64_t head_dim, const char* key = "axes_dims_rope");
/// A list of `count` numbers, which must be there.
[[nodiscard]] std::vector<double> read_doubles(const nlohmann::json& config, const char* key, std::int64_t count);
[[nodiscard]] double read_double(const nlohmann::json& config, const char* key, double fallback);
/// A number above 0, up to `most`.
[[nodiscard]] double read_positive(const nlohmann::json& config, const char* key, double fallback, double most);
[[nodiscard]] bool read_bool(const nlohmann::json& config, const char* key, bool fallback);
[[nodiscard]] std::string read_text(const nlohmann::json& config, const char* key, const std::string& fallback);
/// Throws Error if config[key] exists and is not `value`, the only supported one.
void require_text(const nlohmann::json& config, const char* key, std::string_view value);
/// The same for any JSON value; null if none is supported.
void require_value(const nlohmann::json& config, const char* key, const nlohmann::json& value);
/// The same for a list whose entries must all equal that text.
void require_texts(const nlohmann::json& config, const char* key, std::string_view value);

}  // namespace headroom::config
