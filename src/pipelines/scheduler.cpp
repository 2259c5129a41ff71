#include "pipelines/scheduler.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/json.hpp"
#include "pipelines/scheduler_class.hpp"

namespace headroom {
namespace {

using nlohmann::json;

Respacing read_respacing(const SchedulerReader& reader) {
  reader.require_flag("use_beta_sigmas", false, false);
  reader.require_flag("use_lu_lambdas", false, false);
  const bool karras = reader.flag("use_karras_sigmas", false),
             exponential = reader.flag("use_exponential_sigmas", false);
  if (karras && exponential) fail("{}: use_karras_sigmas and use_exponential_sigmas are both true", kSchedulerConfig);
  Respacing respacing{.sigma_min = reader.number("sigma_min"), .sigma_max = reader.number("sigma_max")};
  for (const auto& limit : {respacing.sigma_min, respacing.sigma_max})
    if (limit && !(*limit > 0))
      fail("{}: sigma_min and sigma_max must be more than 0, but one is {}", kSchedulerConfig, *limit);
  if (karras) respacing.kind = Respacing::Kind::kKarras;
  if (exponential) respacing.kind = Respacing::Kind::kExponential;
  return respacing;
}

FlowSchedule read_flow(const SchedulerReader& reader, SchedulerId id, FlowSpacing spacing) {
  FlowSchedule flow;
  flow.spacing = id == kFlowHeunClass ? FlowSpacing::kOwn
                 : id == kDpmClass    ? FlowSpacing::kDpmSolver
                 : id == kUniPCClass  ? FlowSpacing::kUniPC
                                      : spacing;
  reader.require_flag("invert_sigmas", false, false);
  reader.require_none("scale_factors");
  flow.train_timesteps = static_cast<double>(reader.whole("num_train_timesteps", 1000, 1, 1'000'000));
  flow.use_dynamic_shifting = reader.flag("use_dynamic_shifting", false);
  const bool is_solver = id == kDpmClass || id == kUniPCClass;
  flow.shift = reader.positive(is_solver ? "flow_shift" : "shift", flow.shift);
  flow.base_shift = reader.number("base_shift", flow.base_shift);
  flow.max_shift = reader.number("max_shift", flow.max_shift);
  flow.base_tokens = reader.whole("base_image_seq_len", flow.base_tokens, 1, 1'000'000'000);
  flow.max_tokens = reader.whole("max_image_seq_len", flow.max_tokens, 1, 1'000'000'000);
  if (flow.max_tokens <= flow.base_tokens)
    fail("{}: base_image_seq_len {} and max_image_seq_len {} must be rising", kSchedulerConfig, flow.base_tokens,
         flow.max_tokens);
  flow.is_linear = reader.choice("time_shift_type", {"exponential", "linear"}, "exponential") == 1;
  if (const std::optional<double> terminal = reader.number("shift_terminal"); terminal && *terminal != 0) {
    if (!(*terminal > 0 && *terminal < 1))
      fail("{}: shift_terminal is {}, expected 0 to less than 1", kSchedulerConfig, *terminal);
    flow.shift_terminal = terminal;
  }
  flow.respacing = read_respacing(reader);
  flow.ends_at_last = reader.choice("final_sigmas_type", {"zero", "sigma_min"}, "zero") == 1;
  if (is_solver && flow.respacing.kind != Respacing::Kind::kNone)
    fail("{}: use_flow_sigmas is true beside use_karras_sigmas or use_exponential_sigmas, expected one of them",
         kSchedulerConfig);
  if (id == kDpmClass && flow.ends_at_last)
    fail("{}: final_sigmas_type is sigma_min beside use_flow_sigmas, expected zero", kSchedulerConfig);
  return flow;
}

DiffusionSchedule read_diffusion(const SchedulerReader& reader, SchedulerId id) {
  DiffusionSchedule levels;
  levels.rules = id == kDpmClass     ? DiffusionRules::kDpmSolver
                 : id == kUniPCClass ? DiffusionRules::kUniPC
                 : id == kDdimClass  ? DiffusionRules::kDdim
                 : id == kPndmClass  ? DiffusionRules::kDdim
                 : id == kLcmClass   ? DiffusionRules::kLcm
                                     : DiffusionRules::kEuler;
  reader.require_none("trained_betas");
  reader.require_text("interpolation_type", "linear");
  reader.require_text("timestep_type", "discrete");
  reader.require_none("variance_type");
  const bool is_v = reader.choice("prediction_type", {"epsilon", "v_prediction"}, "epsilon") == 1;
  levels.prediction = is_v ? Prediction::kV : Prediction::kEpsilon;
  levels.train_timesteps = reader.whole("num_train_timesteps", 1000, 2, 1'000'000);
  const bool is_scaled = id == kLcmClass || id == kHeunClass;
  levels.beta_start = reader.positive("beta_start", is_scaled ? 0.00085 : 0.0001);
  levels.beta_end = reader.positive("beta_end", is_scaled ? 0.012 : 0.02);
  if (levels.beta_start >= 1 || levels.beta_end >= 1)
    fail("{}: beta_start {} and beta_end {} must be less than 1", kSchedulerConfig, levels.beta_start, levels.beta_end);
  levels.beta_schedule = static_cast<BetaSchedule>(reader.choice(
      "beta_schedule", {"linear", "scaled_linear", "squaredcos_cap_v2"}, id == kLcmClass ? "scaled_linear" : "linear"));
  levels.rescale_betas_zero_snr = reader.flag("rescale_betas_zero_snr", false);
  if (levels.rescale_betas_zero_snr && !is_v)
    fail(
        "{}: rescale_betas_zero_snr is true beside a prediction of the noise, which says nothing of an image that is "
        "noise alone; expected v_prediction",
        kSchedulerConfig);
  levels.spacing = static_cast<TimestepSpacing>(
      reader.choice("timestep_spacing", {"linspace", "leading", "trailing"},
                    id == kDdimClass || id == kPndmClass || id == kLcmClass ? "leading" : "linspace"));
  levels.steps_offset = reader.whole("steps_offset", 0, 0, levels.train_timesteps - 1);
  levels.respacing = read_respacing(reader);
  levels.ends_at_least_noise = reader.choice("final_sigmas_type", {"zero", "sigma_min"}, "zero") == 1;
  levels.set_alpha_to_one = reader.flag("set_alpha_to_one", id != kPndmClass);
  levels.lambda_min_clipped = reader.number("lambda_min_clipped", levels.lambda_min_clipped);
  levels.original_steps = reader.whole("original_inference_steps", 50, 1, levels.train_timesteps);
  return levels;
}

SolverOptions read_options(const SchedulerReader& reader) {
  reader.require_flag("thresholding", false, false);
  reader.require_flag("predict_x0", true, true);
  reader.require_none("solver_p");
  if (reader.number("s_noise", 1) != 1)
    fail("{}: s_noise is {}, expected 1", kSchedulerConfig, reader.number("s_noise", 1));
  SolverOptions options;
  options.order = reader.whole("solver_order", 2, 1, 2);
  // Either solver takes the other's names for its own default.
  const std::size_t type = reader.choice("solver_type", {"midpoint", "heun", "bh1", "bh2", "logrho"}, "midpoint");
  options.uses_heun = type == 1;
  options.uses_bh1 = type == 2;
  options.lower_order_final = reader.flag("lower_order_final", true);
  options.euler_at_final = reader.flag("euler_at_final", false);
  options.disable_corrector = reader.wholes("disable_corrector");
  options.eta = reader.number("eta", 1);
  if (!(options.eta >= 0 && options.eta <= 1)) fail("{}: eta is {}, expected 0 to 1", kSchedulerConfig, options.eta);
  options.timestep_scaling = reader.number("timestep_scaling", 10);
  return options;
}

/// What the config itself asks for.
Sampler own_sampler(const SchedulerReader& reader, const SchedulerClass& of) {
  if (reader.flag("stochastic_sampling", false)) return Sampler::kLcm;
  const bool is_sde = reader.choice("algorithm_type", {"dpmsolver++", "sde-dpmsolver++"}, "dpmsolver++") == 1;
  return is_sde ? Sampler::kDpm2MSde : of.sampler;
}

}  // namespace

void Scheduler::set_shift(double shift) {
  auto* const flow = std::get_if<FlowSchedule>(&levels);
  if (flow == nullptr)
    fail_usage("switch sampler: shift={} is of flow matching, and this model's levels are of diffusion", shift);
  flow->use_dynamic_shifting = false;
  flow->shift = shift;
}

double Scheduler::noise_scale(std::int64_t steps) const {
  const auto* const diffusion = std::get_if<DiffusionSchedule>(&levels);
  return diffusion == nullptr ? NoiseSchedule{}.noise_scale : diffusion->schedule(steps).noise_scale;
}

NoiseSchedule Scheduler::schedule(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped) const {
  const auto* const flow = std::get_if<FlowSchedule>(&levels);
  NoiseSchedule schedule =
      flow != nullptr ? flow->schedule(steps, image_tokens) : std::get<DiffusionSchedule>(levels).schedule(steps);
  schedule.skip(skipped);
  return schedule;
}

SamplerTables Scheduler::tables(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped) const {
  return make_sampler_tables(sampler, schedule(steps, image_tokens, skipped), options);
}

json parse_scheduler_config(std::string_view text, std::string_view context) {
  constexpr std::string_view kInfinity = "-Infinity";
  std::string plain;
  for (std::string_view rest = text; !rest.empty();) {
    const std::size_t at = rest.find(kInfinity);
    plain += rest.substr(0, at);
    if (at == std::string_view::npos) break;
    plain += "null";
    rest.remove_prefix(at + kInfinity.size());
  }
  json config = parse_json(plain, context);
  if (!config.is_object()) fail("{}: expected an object, got {}", context, config.type_name());
  return config;
}

json read_scheduler_config(const std::filesystem::path& path) {
  return parse_scheduler_config(read_file(path), path.string());
}

bool is_flow_matching(const json& config) {
  const SchedulerId id = scheduler_class(config).id;
  return (id & kFlowClasses) != 0 || SchedulerReader(config, id).flag("use_flow_sigmas", false);
}

Scheduler parse_scheduler(const json& config, std::optional<Sampler> named, FlowSpacing spacing) {
  const SchedulerClass& own = scheduler_class(config);
  require_known_keys(config);
  const SchedulerReader reader(config, own.id);
  Scheduler scheduler{.sampler = named ? *named : own_sampler(reader, own)};
  if (is_flow_matching(config)) {
    if ((own.id & kFlowClasses) == 0)
      static_cast<void>(reader.choice("prediction_type", {"flow_prediction"}, "epsilon"));
    scheduler.levels = read_flow(reader, own.id, spacing);
    scheduler.options = read_options(reader);
    return scheduler;
  }
  const SchedulerId id = named ? diffusion_class(*named) : own.id;
  const SchedulerReader as(config, id);
  // A sample that is clipped is no linear function of the answer. DDIM's class does so unless it is told not to.
  as.require_flag("clip_sample", false, id == kDdimClass && !named);
  as.require_flag("skip_prk_steps", true, named.has_value());
  scheduler.levels = read_diffusion(as, id);
  scheduler.options = read_options(as);
  return scheduler;
}

}  // namespace headroom
