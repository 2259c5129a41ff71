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
#include "pipelines/schedules/sampler_tables.hpp"

namespace headroom {

/// What a scheduler_config.json says: a sampler, and the noise levels that it goes through.
struct Scheduler {
  Sampler sampler = Sampler::kEuler;
  std::variant<FlowSchedule, DiffusionSchedule> levels = FlowSchedule{};
  SolverOptions options = {};

  /// Shifts levels of flow matching by a factor of its own, whatever the size of an image. Throws a usage Error for levels of
  /// diffusion, which have no shift.
  void set_shift(double shift);
  /// How much of a step's noise is fresh, of tcd. Throws a usage Error for levels of flow matching.
  void set_eta(double eta);
  /// Of `steps` steps, the first `skipped` of which are left out.
  [[nodiscard]] NoiseSchedule schedule(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped = 0) const;
  [[nodiscard]] SamplerTables tables(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped = 0) const;
  /// Steps from the level of an image of which `strength` is noise (DiffusionSchedule::schedule_from). Throws a usage Error for
  /// levels of flow matching.
  [[nodiscard]] NoiseSchedule schedule_from(double strength, std::int64_t steps) const;
};

/// The object in a scheduler_config.json. Infinities, which diffusers writes and JSON does not have, are null in it.
[[nodiscard]] nlohmann::json parse_scheduler_config(std::string_view text, std::string_view context);
[[nodiscard]] nlohmann::json read_scheduler_config(const std::filesystem::path& path);

/// Whether the levels that a config asks for are those of flow matching; nothing for a class that is not known and says nothing of
/// diffusion's betas.
[[nodiscard]] std::optional<bool> is_flow_matching(const nlohmann::json& config);

/// Reads a scheduler_config.json as diffusers writes it, where a missing key means the class's default. The sampler is
/// that of the class, or the one that is named: then it is as if the config were given to the named sampler's class
/// (`from_config`), whatever its own class is of diffusion, but that levels of flow matching remain those of the class. `spacing` is
/// where those begin and end in the pipeline of a FlowMatchEulerDiscreteScheduler. Throws Error for a class, a key or a value that
/// is not known here, which it names, with the samplers that could be named.
[[nodiscard]] Scheduler parse_scheduler(const nlohmann::json& config, std::optional<Sampler> named = std::nullopt,
                                        FlowSpacing spacing = FlowSpacing::kEven);

}  // namespace headroom
