#include "pipelines/schedules/scheduler_class.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <ranges>
#include <string>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"

namespace headroom {
namespace {

constexpr SchedulerClass kSchedulerClasses[] = {
    {"EulerDiscreteScheduler", kEulerClass, Sampler::kEuler},
    {"HeunDiscreteScheduler", kHeunClass, Sampler::kHeun},
    {"DPMSolverMultistepScheduler", kDpmClass, Sampler::kDpm2M},
    {"UniPCMultistepScheduler", kUniPCClass, Sampler::kUniPC},
    {"DDIMScheduler", kDdimClass, Sampler::kDdim},
    {"EulerAncestralDiscreteScheduler", kAncestralClass, Sampler::kEulerAncestral},
    {"LCMScheduler", kLcmClass, Sampler::kLcm},
    {"PNDMScheduler", kPndmClass, Sampler::kPlms},
    {"DPMSolverSinglestepScheduler", kSinglestepClass, Sampler::kDpm2S},
    {"DPMSolverSDEScheduler", kDpmSdeClass, Sampler::kDpmSde},
    {"DEISMultistepScheduler", kDeisClass, Sampler::kDeis},
    {"LMSDiscreteScheduler", kLmsClass, Sampler::kLms},
    {"DDPMScheduler", kDdpmClass, Sampler::kDdpm},
    {"TCDScheduler", kTcdClass, Sampler::kTcd},
    {"FlowMatchEulerDiscreteScheduler", kFlowEulerClass, Sampler::kEuler},
    {"FlowMatchHeunDiscreteScheduler", kFlowHeunClass, Sampler::kHeun},
    {"FlowMatchLCMScheduler", kFlowLcmClass, Sampler::kLcm},
    {"LTXEulerAncestralRFScheduler", kFlowAncestralClass, Sampler::kEulerAncestral},
};

constexpr unsigned kDiffusionClasses = kEulerClass | kHeunClass | kDpmClass | kUniPCClass | kDdimClass |
                                       kAncestralClass | kLcmClass | kPndmClass | kDeisClass | kLmsClass |
                                       kSinglestepClass | kDpmSdeClass | kDdpmClass | kTcdClass;
constexpr unsigned kSpacedClasses = kDiffusionClasses & ~kSinglestepClass;
constexpr unsigned kZeroSnrClasses =
    kEulerClass | kDpmClass | kUniPCClass | kDdimClass | kAncestralClass | kLcmClass | kDdpmClass | kTcdClass;
constexpr unsigned kFlowShiftClasses = kFlowEulerClass | kFlowLcmClass;
constexpr unsigned kClipClasses = kHeunClass | kDdimClass | kLcmClass | kDdpmClass;
constexpr unsigned kSolverClasses = kDpmClass | kUniPCClass | kDeisClass | kSinglestepClass;
constexpr unsigned kThresholdClasses = kSolverClasses | kDdimClass | kLcmClass | kDdpmClass;
constexpr unsigned kRespacedClasses =
    kEulerClass | kHeunClass | kLmsClass | kDpmSdeClass | kSolverClasses | kFlowShiftClasses;
constexpr unsigned kDpmClasses = kDpmClass | kSinglestepClass;

/// Every key and the classes that read it; in other classes it has no effect, as in diffusers.
struct SchedulerKey {
  std::string_view name;
  unsigned readers;
};
constexpr SchedulerKey kSchedulerKeys[] = {
    {"num_train_timesteps", kDiffusionClasses | kFlowClasses},
    {"beta_start", kDiffusionClasses},
    {"beta_end", kDiffusionClasses},
    {"beta_schedule", kDiffusionClasses},
    {"trained_betas", kDiffusionClasses},
    {"prediction_type", kDiffusionClasses},
    {"timestep_spacing", kSpacedClasses},
    {"steps_offset", kSpacedClasses},
    {"rescale_betas_zero_snr", kZeroSnrClasses},
    {"final_sigmas_type", kEulerClass | kDpmClasses | kUniPCClass},
    {"use_karras_sigmas", kRespacedClasses},
    {"use_exponential_sigmas", kRespacedClasses},
    {"use_beta_sigmas", kRespacedClasses},
    {"sigma_min", kRespacedClasses},
    {"sigma_max", kRespacedClasses},
    {"interpolation_type", kEulerClass},
    {"timestep_type", kEulerClass},
    {"clip_sample", kClipClasses},
    {"clip_sample_range", kClipClasses},
    {"thresholding", kThresholdClasses},
    {"dynamic_thresholding_ratio", kThresholdClasses},
    {"sample_max_value", kThresholdClasses},
    {"set_alpha_to_one", kDdimClass | kPndmClass},
    {"skip_prk_steps", kPndmClass},
    {"original_inference_steps", kLcmClass | kTcdClass},
    {"timestep_scaling", kLcmClass},
    {"solver_order", kSolverClasses},
    {"solver_type", kSolverClasses},
    {"lower_order_final", kSolverClasses},
    {"use_flow_sigmas", kSolverClasses},
    {"flow_shift", kSolverClasses},
    {"algorithm_type", kDpmClasses | kDeisClass},
    {"euler_at_final", kDpmClass},
    {"use_lu_lambdas", kDpmClass},
    {"lambda_min_clipped", kDpmClasses},
    {"variance_type", kDpmClasses | kDdpmClass},
    {"noise_sampler_seed", kDpmSdeClass},
    {"predict_x0", kUniPCClass},
    {"disable_corrector", kUniPCClass},
    {"solver_p", kUniPCClass},
    {"shift", kFlowShiftClasses | kFlowHeunClass},
    {"use_dynamic_shifting", kFlowShiftClasses | kSolverClasses},
    {"time_shift_type", kFlowShiftClasses | kSolverClasses},
    {"base_shift", kFlowShiftClasses},
    {"max_shift", kFlowShiftClasses},
    {"base_image_seq_len", kFlowShiftClasses},
    {"max_image_seq_len", kFlowShiftClasses},
    {"shift_terminal", kFlowShiftClasses | kUniPCClass},
    {"invert_sigmas", kFlowShiftClasses},
    {"stochastic_sampling", kFlowEulerClass},
    {"scale_factors", kFlowLcmClass},
    {"upscale_mode", kFlowLcmClass},
    {"eta", kFlowAncestralClass},
    {"s_noise", kFlowAncestralClass},
};

}  // namespace

const SchedulerClass* find_scheduler_class(const nlohmann::json& config) {
  const std::string name = get_string_or(config, "_class_name", "FlowMatchEulerDiscreteScheduler", kSchedulerConfig);
  const auto* const found = std::ranges::find(kSchedulerClasses, name, &SchedulerClass::name);
  return found == std::end(kSchedulerClasses) ? nullptr : found;
}

const SchedulerClass& scheduler_class(const nlohmann::json& config) {
  const SchedulerClass* const found = find_scheduler_class(config);
  if (found == nullptr)
    fail("{}: _class_name is {}, which is not supported; expected one of {}", kSchedulerConfig,
         get_string(config, "_class_name", kSchedulerConfig),
         fmt::join(kSchedulerClasses | std::views::transform(&SchedulerClass::name), ", "));
  return *found;
}

SchedulerId diffusion_class(Sampler sampler) {
  switch (sampler) {
    case Sampler::kEuler:
      return kEulerClass;
    case Sampler::kHeun:
      return kHeunClass;
    case Sampler::kDpm2M:
    case Sampler::kDpm2MSde:
      return kDpmClass;
    case Sampler::kUniPC:
      return kUniPCClass;
    case Sampler::kDdim:
      return kDdimClass;
    case Sampler::kPlms:
      return kPndmClass;
    case Sampler::kEulerAncestral:
      return kAncestralClass;
    case Sampler::kLcm:
      return kLcmClass;
    case Sampler::kDpm2S:
    case Sampler::kDpm2SSde:
      return kSinglestepClass;
    case Sampler::kDpmSde:
      return kDpmSdeClass;
    case Sampler::kDeis:
      return kDeisClass;
    case Sampler::kLms:
      return kLmsClass;
    case Sampler::kDdpm:
      return kDdpmClass;
    case Sampler::kTcd:
      return kTcdClass;
  }
  fail("no such sampler");
}

std::vector<std::string> scheduler_keys() {
  std::vector<std::string> keys = {"_class_name"};
  for (const SchedulerKey& key : kSchedulerKeys) keys.emplace_back(key.name);
  return keys;
}

void require_known_keys(const nlohmann::json& config) {
  for (const auto& [key, value] : config.items())
    if (!key.starts_with('_') &&
        std::ranges::find(kSchedulerKeys, key, &SchedulerKey::name) == std::end(kSchedulerKeys))
      fail("{}: the key {} is not supported{}", kSchedulerConfig, key, did_you_mean(key, scheduler_keys()));
}

bool SchedulerReader::reads(std::string_view key) const {
  const auto* const known = std::ranges::find(kSchedulerKeys, key, &SchedulerKey::name);
  HR_CHECK(known != std::end(kSchedulerKeys));
  return (known->readers & reader_) != 0;
}

bool SchedulerReader::has(std::string_view key) const {
  const auto found = config_.find(key);
  return reads(key) && found != config_.end() && !found->is_null();
}

bool SchedulerReader::flag(std::string_view key, bool fallback) const {
  return has(key) ? get_bool(config_, key, kSchedulerConfig) : fallback;
}

double SchedulerReader::number(std::string_view key, double fallback) const { return number(key).value_or(fallback); }

std::optional<double> SchedulerReader::number(std::string_view key) const {
  return has(key) ? std::optional(get_double(config_, key, kSchedulerConfig)) : std::nullopt;
}

double SchedulerReader::positive(std::string_view key, double fallback) const {
  const double value = number(key, fallback);
  if (!(value > 0)) fail("{}: {} is {}, expected more than 0", kSchedulerConfig, key, value);
  return value;
}

std::int64_t SchedulerReader::whole(std::string_view key, std::int64_t fallback, std::int64_t low,
                                    std::int64_t high) const {
  const std::int64_t value = has(key) ? get_int(config_, key, kSchedulerConfig) : fallback;
  if (value < low || value > high) fail("{}: {} is {}, expected {} to {}", kSchedulerConfig, key, value, low, high);
  return value;
}

std::string SchedulerReader::text(std::string_view key) const { return get_string(config_, key, kSchedulerConfig); }

std::vector<std::int64_t> SchedulerReader::wholes(std::string_view key) const {
  return has(key) ? get_int_array(config_, key, kSchedulerConfig) : std::vector<std::int64_t>{};
}

std::size_t SchedulerReader::choice(std::string_view key, std::initializer_list<std::string_view> names,
                                    std::string_view fallback) const {
  const std::string value = has(key) ? get_string(config_, key, kSchedulerConfig) : std::string(fallback);
  const auto* const found = std::ranges::find(names, value);
  if (found == names.end())
    fail("{}: {} is {}, expected {}{}", kSchedulerConfig, key, value, names.size() == 1 ? "" : "one of ",
         fmt::join(names, ", "));
  return static_cast<std::size_t>(found - names.begin());
}

void SchedulerReader::require_flag(std::string_view key, bool value, bool fallback) const {
  if (reads(key) && flag(key, fallback) != value)
    fail("{}: {} is {}, expected {}", kSchedulerConfig, key, !value, value);
}

void SchedulerReader::require_text(std::string_view key, std::string_view value) const {
  if (reads(key)) static_cast<void>(choice(key, {value}, value));
}

void SchedulerReader::require_none(std::string_view key) const {
  if (has(key)) fail("{}: {} is given, expected null", kSchedulerConfig, key);
}

}  // namespace headroom
