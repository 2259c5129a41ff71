#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>
#include <variant>

#include "pipelines/schedules/diffusion_schedule.hpp"
#include "pipelines/schedules/flow_schedule.hpp"
#include "pipelines/schedules/sampler.hpp"
#include "pipelines/schedules/sampler_formulas.hpp"

namespace headroom {

/// The content of a scheduler_config.json: a sampler and its noise levels.
struct Scheduler {
  Sampler sampler = Sampler::kEuler;
  std::variant<FlowSchedule, DiffusionSchedule> levels = FlowSchedule{};
  SolverOptions options = {};

  /// Sets a fixed shift of flow-matching levels, independent of the image size and without a terminal. Throws a usage
  /// Error for diffusion levels, which have no shift.
  void set_shift(double shift);
  /// Sets the share of a step's noise that is fresh, for tcd. Throws a usage Error for flow-matching levels.
  void set_eta(double eta);
  /// A schedule of `steps` steps, without the first `skipped`.
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped = 0) const;
  [[nodiscard]] SamplerTables tables(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped = 0) const;
  /// Steps from the level of an image of which `strength` is noise (DiffusionSchedule::schedule_from). Throws a usage
  /// Error for flow-matching levels.
  [[nodiscard]] NoiseSchedule schedule_from(double strength, std::int64_t steps) const;
};

/// The JSON object of a scheduler_config.json. diffusers writes infinities, which JSON does not have; they become
/// null.
[[nodiscard]] nlohmann::json parse_scheduler_config(std::string_view text, std::string_view context);
[[nodiscard]] nlohmann::json read_scheduler_config(const std::filesystem::path& path);

/// Whether a config asks for flow-matching levels. Nothing for an unknown class without diffusion betas.
[[nodiscard]] std::optional<bool> is_flow_matching(const nlohmann::json& config);

/// Reads a scheduler_config.json as diffusers writes it; a missing key means the class's default. The sampler is that
/// of the class, or `named`. With `named`, the config is read as by `from_config` of that sampler's class.
/// Flow-matching levels remain those of the config's class. `spacing` defines the ends of the levels in the pipeline
/// of a FlowMatchEulerDiscreteScheduler. Throws Error that names an unknown class, key or value, and the samplers
/// that could be named.
[[nodiscard]] Scheduler parse_scheduler(const nlohmann::json& config, std::optional<Sampler> named = std::nullopt,
                                        FlowSpacing spacing = FlowSpacing::kEven);

}  // namespace headroom
