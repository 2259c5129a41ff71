#include "pipelines/schedules/scheduler.hpp"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"
#include "pipelines/schedules/scheduler_class.hpp"

namespace headroom {
namespace {

using nlohmann::json;

Respacing read_respacing(const SchedulerReader& reader, SchedulerId id) {
  reader.require_flag("use_lu_lambdas", false, false);
  Respacing respacing;
  const char* before = nullptr;
  for (const auto& [key, kind] : {std::pair("use_karras_sigmas", Respacing::Kind::kKarras),
                                  {"use_exponential_sigmas", Respacing::Kind::kExponential},
                                  {"use_beta_sigmas", Respacing::Kind::kBeta}}) {
    if (!reader.flag(key, false)) continue;
    if (before != nullptr) fail("{}: {} and {} are both true", kSchedulerConfig, before, key);
    respacing.kind = kind;
    before = key;
  }
  // In diffusers 0.42.1 every class that respaces levels takes the limits from its config, its own keys or not, but
  // these two have Karras's spacing without them.
  const bool has_limits =
      respacing.kind == Respacing::Kind::kKarras ? id != kLmsClass && id != kDpmSdeClass : before != nullptr;
  if (!has_limits) return respacing;
  respacing.sigma_min = reader.number("sigma_min");
  respacing.sigma_max = reader.number("sigma_max");
  for (const auto& limit : {respacing.sigma_min, respacing.sigma_max})
    if (limit && !(*limit > 0))
      fail("{}: sigma_min and sigma_max must be more than 0, but one is {}", kSchedulerConfig, *limit);
  return respacing;
}

bool is_solver(SchedulerId id) {
  return id == kDpmClass || id == kSinglestepClass || id == kUniPCClass || id == kDeisClass;
}

FlowSchedule read_flow(const SchedulerReader& reader, SchedulerId id, FlowSpacing spacing) {
  FlowSchedule flow;
  flow.spacing = id == kFlowHeunClass                 ? FlowSpacing::kOwn
                 : is_solver(id) && id != kUniPCClass ? FlowSpacing::kDpmSolver
                 : id == kUniPCClass                  ? FlowSpacing::kUniPC
                                                      : spacing;
  reader.require_flag("invert_sigmas", false, false);
  reader.require_none("scale_factors");
  flow.train_timesteps = static_cast<double>(reader.whole("num_train_timesteps", 1000, 1, 1'000'000));
  flow.use_dynamic_shifting = reader.flag("use_dynamic_shifting", false);
  flow.shift = reader.positive(is_solver(id) ? "flow_shift" : "shift", flow.shift);
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
  flow.respacing = read_respacing(reader, id);
  flow.ends_at_last = reader.choice("final_sigmas_type", {"zero", "sigma_min"}, "zero") == 1;
  if (is_solver(id) && flow.respacing.kind != Respacing::Kind::kNone)
    fail(
        "{}: use_flow_sigmas is true together with use_karras_sigmas, use_exponential_sigmas or use_beta_sigmas, "
        "expected one of them",
        kSchedulerConfig);
  if ((id == kDpmClass || id == kSinglestepClass) && flow.ends_at_last)
    fail("{}: final_sigmas_type is sigma_min together with use_flow_sigmas, expected zero", kSchedulerConfig);
  if (id == kDeisClass) flow.ends_at_last = true;
  return flow;
}

DiffusionRules rules_of(SchedulerId id) {
  switch (id) {
    case kDpmClass:
      return DiffusionRules::kDpmSolver;
    case kSinglestepClass:
      return DiffusionRules::kSinglestep;
    case kUniPCClass:
      return DiffusionRules::kUniPC;
    case kDeisClass:
      return DiffusionRules::kDeis;
    case kDpmSdeClass:
      return DiffusionRules::kDpmSde;
    case kDdimClass:
      return DiffusionRules::kDdim;
    case kPndmClass:
      return DiffusionRules::kPndm;
    case kDdpmClass:
      return DiffusionRules::kDdpm;
    case kLcmClass:
      return DiffusionRules::kLcm;
    case kTcdClass:
      return DiffusionRules::kTcd;
    default:
      return DiffusionRules::kEuler;
  }
}

DiffusionSchedule read_diffusion(const SchedulerReader& reader, SchedulerId id) {
  DiffusionSchedule levels;
  levels.rules = rules_of(id);
  reader.require_none("trained_betas");
  reader.require_none("noise_sampler_seed");
  reader.require_text("interpolation_type", "linear");
  reader.require_text("timestep_type", "discrete");
  const bool is_v = reader.choice("prediction_type", {"epsilon", "v_prediction"}, "epsilon") == 1;
  levels.prediction = is_v ? Prediction::kV : Prediction::kEpsilon;
  levels.train_timesteps = reader.whole("num_train_timesteps", 1000, 2, 1'000'000);
  const bool is_distilled = id == kLcmClass || id == kTcdClass;
  const bool is_scaled = is_distilled || id == kHeunClass || id == kDpmSdeClass;
  levels.beta_start = reader.positive("beta_start", is_scaled ? 0.00085 : 0.0001);
  levels.beta_end = reader.positive("beta_end", is_scaled ? 0.012 : 0.02);
  if (levels.beta_start >= 1 || levels.beta_end >= 1)
    fail("{}: beta_start {} and beta_end {} must be less than 1", kSchedulerConfig, levels.beta_start, levels.beta_end);
  levels.beta_schedule = static_cast<BetaSchedule>(reader.choice(
      "beta_schedule", {"linear", "scaled_linear", "squaredcos_cap_v2"}, is_distilled ? "scaled_linear" : "linear"));
  levels.rescale_betas_zero_snr = reader.flag("rescale_betas_zero_snr", false);
  if (levels.rescale_betas_zero_snr && !is_v)
    fail(
        "{}: rescale_betas_zero_snr is true with a prediction of the noise, which says nothing of an image that is "
        "noise alone; expected v_prediction",
        kSchedulerConfig);
  levels.spacing = static_cast<TimestepSpacing>(
      reader.choice("timestep_spacing", {"linspace", "leading", "trailing"},
                    is_distilled || id == kDdimClass || id == kPndmClass || id == kDdpmClass ? "leading" : "linspace"));
  levels.steps_offset = reader.whole("steps_offset", 0, 0, levels.train_timesteps - 1);
  levels.respacing = read_respacing(reader, id);
  levels.ends_at_least_noise = reader.choice("final_sigmas_type", {"zero", "sigma_min"}, "zero") == 1;
  levels.set_alpha_to_one = reader.flag("set_alpha_to_one", id != kPndmClass);
  levels.lambda_min_clipped = reader.number("lambda_min_clipped", levels.lambda_min_clipped);
  levels.original_steps = reader.whole("original_inference_steps", 50, 1, levels.train_timesteps);
  return levels;
}

/// Whether a class clips samples by default.
bool clips_by_default(SchedulerId id) { return id == kDdimClass || id == kDdpmClass; }

/// The highest order that is supported for a solver; 0 for samplers without an order.
std::int64_t highest_order(Sampler sampler) {
  switch (sampler) {
    case Sampler::kDpm2M:
    case Sampler::kDpm2MSde:
    case Sampler::kUniPC:
      return 2;
    case Sampler::kDpm2S:
    case Sampler::kDpm2SSde:
    case Sampler::kDeis:
      return 3;
    default:
      return 0;
  }
}

/// The variance of a step's noise in DDPM. DPM-Solver's classes read the key for models that predict a variance; its
/// other values have no effect in them.
bool has_large_variance(const SchedulerReader& reader, Sampler sampler) {
  if (!reader.has("variance_type")) return false;
  if (sampler == Sampler::kDdpm)
    return reader.choice("variance_type", {"fixed_small", "fixed_small_log", "fixed_large"}, "fixed_small") == 2;
  const std::string type = reader.text("variance_type");
  if (type == "learned" || type == "learned_range")
    fail("{}: variance_type is {}, expected a model that answers with the mean alone", kSchedulerConfig, type);
  return false;
}

SolverOptions read_options(const SchedulerReader& reader, Sampler sampler) {
  reader.require_flag("thresholding", false, false);
  reader.require_flag("predict_x0", true, true);
  reader.require_none("solver_p");
  if (reader.number("s_noise", 1) != 1)
    fail("{}: s_noise is {}, expected 1", kSchedulerConfig, reader.number("s_noise", 1));
  SolverOptions options;
  if (const std::int64_t most = highest_order(sampler); most != 0)
    options.order = reader.whole("solver_order", 2, 1, most);
  // Each solver maps the others' names to its own default.
  const std::size_t type = reader.choice("solver_type", {"midpoint", "heun", "bh1", "bh2", "logrho"}, "midpoint");
  options.uses_heun = type == 1;
  options.uses_bh1 = type == 2;
  options.lower_order_final =
      reader.flag("lower_order_final", sampler != Sampler::kDpm2S && sampler != Sampler::kDpm2SSde);
  options.euler_at_final = reader.flag("euler_at_final", false);
  options.disable_corrector = reader.wholes("disable_corrector");
  options.eta = reader.number("eta", 1);
  if (!(options.eta >= 0 && options.eta <= 1)) fail("{}: eta is {}, expected 0 to 1", kSchedulerConfig, options.eta);
  options.timestep_scaling = reader.number("timestep_scaling", 10);
  options.has_large_variance = has_large_variance(reader, sampler);
  return options;
}

/// The sampler that the config itself asks for.
Sampler own_sampler(const SchedulerReader& reader, const SchedulerClass& of) {
  if (reader.flag("stochastic_sampling", false)) return Sampler::kLcm;
  if (of.id == kDeisClass) {
    static_cast<void>(reader.choice("algorithm_type", {"deis", "dpmsolver", "dpmsolver++"}, "deis"));
    return Sampler::kDeis;
  }
  // These classes map DEIS's name to their own default.
  const bool is_sde = reader.choice("algorithm_type", {"dpmsolver++", "sde-dpmsolver++", "deis"}, "dpmsolver++") == 1;
  if (!is_sde) return of.sampler;
  return of.id == kSinglestepClass ? Sampler::kDpm2SSde : Sampler::kDpm2MSde;
}

Scheduler read_scheduler(const json& config, std::optional<Sampler> named, FlowSpacing spacing) {
  const std::optional<bool> is_flow = is_flow_matching(config);
  const SchedulerClass* own = find_scheduler_class(config);
  if (own == nullptr && (!named || is_flow != false)) own = &scheduler_class(config);
  if (is_flow == true) {
    require_known_keys(config);
    const SchedulerReader reader(config, own->id);
    Scheduler scheduler{.sampler = named ? *named : own_sampler(reader, *own)};
    if ((own->id & kFlowClasses) == 0)
      static_cast<void>(reader.choice("prediction_type", {"flow_prediction"}, "epsilon"));
    scheduler.levels = read_flow(reader, own->id, spacing);
    scheduler.options = read_options(reader, scheduler.sampler);
    return scheduler;
  }
  if (!named) require_known_keys(config);  // a named sampler ignores unknown keys
  const SchedulerId id = named ? diffusion_class(*named) : own->id;
  const SchedulerReader as(config, id);
  Scheduler scheduler{.sampler = named ? *named : own_sampler(as, *own)};
  // A clipped sample is not a linear function of the prediction.
  as.require_flag("clip_sample", false, clips_by_default(id) && !named);
  as.require_flag("skip_prk_steps", true, named.has_value());
  scheduler.levels = read_diffusion(as, id);
  scheduler.options = read_options(as, scheduler.sampler);
  return scheduler;
}

/// Samplers that can be named to replace the config's own, except those for distilled models.
std::vector<std::string_view> samplers_instead(const json& config, FlowSpacing spacing) {
  std::vector<std::string_view> names;
  for (std::size_t i = 0; i < kSamplers; ++i) {
    const auto sampler = static_cast<Sampler>(i);
    if (sampler == Sampler::kLcm || sampler == Sampler::kTcd) continue;
    try {
      static_cast<void>(read_scheduler(config, sampler, spacing).tables(1, 1));
      names.push_back(to_string(sampler));
    } catch (const Error&) {  // does not work with this config
      continue;
    }
  }
  return names;
}

}  // namespace

void Scheduler::set_shift(double shift) {
  auto* const flow = std::get_if<FlowSchedule>(&levels);
  if (flow == nullptr)
    fail_usage("switch sampler: shift={} is of flow matching, and this model's levels are of diffusion", shift);
  flow->use_dynamic_shifting = false;
  flow->shift = shift;
  flow->shift_terminal.reset();  // a part of the model's own shift
}

void Scheduler::set_eta(double eta) {
  auto* const diffusion = std::get_if<DiffusionSchedule>(&levels);
  if (diffusion == nullptr)
    fail_usage("switch sampler: eta={} is of diffusion, and this model's levels are of flow matching", eta);
  diffusion->eta = eta;
}

NoiseSchedule Scheduler::schedule(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped) const {
  const auto* const flow = std::get_if<FlowSchedule>(&levels);
  NoiseSchedule schedule =
      flow != nullptr ? flow->schedule(steps, image_tokens) : std::get<DiffusionSchedule>(levels).schedule(steps);
  if (skipped >= std::ssize(schedule.steps))
    fail_usage("the last {} of {} steps are to be taken, but the scheduler makes {} of them", steps - skipped, steps,
               schedule.steps.size());
  schedule.skip(skipped);
  return schedule;
}

SamplerTables Scheduler::tables(std::int64_t steps, std::int64_t image_tokens, std::int64_t skipped) const {
  return make_sampler_tables(sampler, schedule(steps, image_tokens, skipped), options);
}

NoiseSchedule Scheduler::schedule_from(double strength, std::int64_t steps) const {
  const auto* const diffusion = std::get_if<DiffusionSchedule>(&levels);
  if (diffusion == nullptr)
    fail_usage("a strength of {} is for levels of diffusion, and this model's are of flow matching", strength);
  return diffusion->schedule_from(strength, steps);
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

std::optional<bool> is_flow_matching(const json& config) {
  if (const SchedulerClass* const own = find_scheduler_class(config); own != nullptr)
    return (own->id & kFlowClasses) != 0 || SchedulerReader(config, own->id).flag("use_flow_sigmas", false);
  const bool has_betas = config.contains("beta_start") && config.contains("beta_end");
  const bool has_flow = get_bool_or(config, "use_flow_sigmas", false, kSchedulerConfig);
  return has_betas && !has_flow ? std::optional(false) : std::nullopt;
}

Scheduler parse_scheduler(const json& config, std::optional<Sampler> named, FlowSpacing spacing) {
  if (named) return read_scheduler(config, named, spacing);
  try {
    return read_scheduler(config, named, spacing);
  } catch (const Error& error) {
    const std::vector<std::string_view> instead = samplers_instead(config, spacing);
    if (instead.empty()) throw;
    fail("{}; --opt sampler=NAME replaces it, NAME one of {}", error.what(), fmt::join(instead, ", "));
  }
}

}  // namespace headroom
