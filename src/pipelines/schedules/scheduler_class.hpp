#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "pipelines/schedules/sampler.hpp"

namespace headroom {

inline constexpr const char* kSchedulerConfig = "scheduler_config.json";

/// diffusers' scheduler classes, one bit each; scheduler_class.cpp lists the keys of the config that each reads.
enum SchedulerId : unsigned {
  kEulerClass = 1U << 0U,
  kHeunClass = 1U << 1U,
  kDpmClass = 1U << 2U,
  kUniPCClass = 1U << 3U,
  kDdimClass = 1U << 4U,
  kAncestralClass = 1U << 5U,
  kLcmClass = 1U << 6U,
  kPndmClass = 1U << 7U,
  kFlowEulerClass = 1U << 8U,
  kFlowHeunClass = 1U << 9U,
  kFlowLcmClass = 1U << 10U,
  kFlowAncestralClass = 1U << 11U,
  kDeisClass = 1U << 12U,
  kLmsClass = 1U << 13U,
  kSinglestepClass = 1U << 14U,
  kDpmSdeClass = 1U << 15U,
  kDdpmClass = 1U << 16U,
  kTcdClass = 1U << 17U,
};

inline constexpr unsigned kFlowClasses = kFlowEulerClass | kFlowHeunClass | kFlowLcmClass | kFlowAncestralClass;

struct SchedulerClass {
  std::string_view name;  ///< `_class_name`
  SchedulerId id;
  Sampler sampler;
};
/// The class that a config names; null if it is unknown.
[[nodiscard]] const SchedulerClass* find_scheduler_class(const nlohmann::json& config);
/// The same. Throws Error with the known classes if it is unknown.
[[nodiscard]] const SchedulerClass& scheduler_class(const nlohmann::json& config);
/// The diffusion class in diffusers that implements a sampler.
[[nodiscard]] SchedulerId diffusion_class(Sampler sampler);
/// The keys of a config that some class reads, and that of the class itself.
[[nodiscard]] std::vector<std::string> scheduler_keys();
/// Throws Error for a key that no class reads.
void require_known_keys(const nlohmann::json& config);

/// A config as one class reads it: keys of other classes are ignored, as in diffusers. Errors name the file, the key,
/// the value and the expected value.
class SchedulerReader {
 public:
  SchedulerReader(const nlohmann::json& config, SchedulerId reader) : config_(config), reader_(reader) {}

  /// Whether the key exists, is not null, and the class reads it.
  [[nodiscard]] bool has(std::string_view key) const;
  [[nodiscard]] bool flag(std::string_view key, bool fallback) const;
  [[nodiscard]] double number(std::string_view key, double fallback) const;
  [[nodiscard]] std::optional<double> number(std::string_view key) const;
  [[nodiscard]] double positive(std::string_view key, double fallback) const;
  [[nodiscard]] std::int64_t whole(std::string_view key, std::int64_t fallback, std::int64_t low,
                                   std::int64_t high) const;
  /// A required string.
  [[nodiscard]] std::string text(std::string_view key) const;
  [[nodiscard]] std::vector<std::int64_t> wholes(std::string_view key) const;
  /// The index of the string in `names`.
  [[nodiscard]] std::size_t choice(std::string_view key, std::initializer_list<std::string_view> names,
                                   std::string_view fallback) const;
  /// Throws Error if the class reads the key and its value, given or default, differs from `value`.
  void require_flag(std::string_view key, bool value, bool fallback) const;
  void require_text(std::string_view key, std::string_view value) const;
  void require_none(std::string_view key) const;

 private:
  [[nodiscard]] bool reads(std::string_view key) const;

  const nlohmann::json& config_;
  SchedulerId reader_;
};

}  // namespace headroom
