#include "train/training_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/name_filter.hpp"
#include "base/text/nearest.hpp"
#include "io/checkpoint.hpp"
#include "models/component.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr std::int64_t kMostSteps = 100'000'000;
constexpr std::int64_t kMostSequences = 1 << 20;

/// An object of the configuration, whose keys must be known.
class ConfigSection {
 public:
  ConfigSection(const json& value, std::string context, std::initializer_list<std::string_view> known)
      : value_(value), context_(std::move(context)) {
    if (!value.is_object()) fail("{} is {}, but an object was expected", context_, value.dump());
    std::vector<std::string> names;
    for (const std::string_view name : known) names.emplace_back(name);
    for (const auto& [key, unused] : value.items())
      if (std::ranges::find(names, key) == names.end())
        fail("{}: there is no key '{}', expected one of {}{}", context_, key, fmt::join(names, ", "),
             did_you_mean(key, names));
  }

  [[nodiscard]] std::int64_t whole(std::string_view key, std::optional<std::int64_t> fallback, std::int64_t low,
                                   std::int64_t high) const {
    const std::int64_t value = fallback ? get_int_or(value_, key, *fallback, context_) : get_int(value_, key, context_);
    if (value < low || value > high) fail("{}: {} is {}, expected {} to {}", context_, key, value, low, high);
    return value;
  }
  [[nodiscard]] double real(std::string_view key, double fallback, double low, double high) const {
    const double value = get_double_or(value_, key, fallback, context_);
    if (!(value >= low && value <= high)) fail("{}: {} is {}, expected {} to {}", context_, key, value, low, high);
    return value;
  }
  [[nodiscard]] std::string text(std::string_view key, std::string_view fallback) const {
    return get_string_or(value_, key, fallback, context_);
  }
  /// A regular expression.
  [[nodiscard]] std::string names(std::string_view key) const {
    std::string pattern = text(key, "");
    try {
      if (!pattern.empty()) static_cast<void>(NameFilter(pattern));
    } catch (const Error& error) {
      fail("{}: {}: {}", context_, key, error.what());
    }
    return pattern;
  }
  [[nodiscard]] bool flag(std::string_view key) const { return get_bool_or(value_, key, false, context_); }
  [[nodiscard]] bool has(std::string_view key) const { return value_.contains(key); }
  /// A value that is an object, empty if there is none.
  [[nodiscard]] ConfigSection section(const char* key, std::initializer_list<std::string_view> known) const {
    static const json kNone = json::object();
    return {value_.contains(key) ? value_.at(key) : kNone, context_ + ": " + key, known};
  }
  [[nodiscard]] const json& at(std::string_view key) const { return get(value_, key, context_); }
  [[nodiscard]] const std::string& context() const { return context_; }

 private:
  const json& value_;
  std::string context_;
};

/// The values of a key that is a choice, by their names.
template <class T>
using Choices = std::array<std::pair<std::string_view, T>, 3>;
constexpr Choices<ObjectiveKind> kObjectives = {{{"causal-lm", ObjectiveKind::kCausalLm},
                                                 {"flow-matching", ObjectiveKind::kFlowMatching},
                                                 {"classification", ObjectiveKind::kClassification}}};
constexpr Choices<Precision> kPrecisions = {
    {{"f32", Precision::kF32}, {"bf16", Precision::kBF16}, {"f16", Precision::kF16}}};
constexpr Choices<RateSchedule::Kind> kSchedules = {{{"constant", RateSchedule::Kind::kConstant},
                                                     {"linear", RateSchedule::Kind::kLinear},
                                                     {"cosine", RateSchedule::Kind::kCosine}}};

template <class T>
std::string_view name_of(const Choices<T>& known, T value) {
  return std::ranges::find(known, value, &std::pair<std::string_view, T>::second)->first;
}

/// The entry of `known` with that name.
template <class T>
T parse_choice(const ConfigSection& section, std::string_view key, const std::string& given, const Choices<T>& known) {
  std::vector<std::string_view> names;
  for (const auto& [name, value] : known) {
    if (name == given) return value;
    names.push_back(name);
  }
  fail("{}: {} is \"{}\", expected one of {}", section.context(), key, given, fmt::join(names, ", "));
}

/// An object, the folder of a model, whose weights are then the first ones, or the name of a configuration.
void parse_model(const ConfigSection& whole, TrainingConfig& config) {
  const json& model = whole.at("model");
  config.model = model;
  if (model.is_object()) return;
  std::vector<std::string> names;
  for (const ComponentClass& kind : component_classes())
    for (const NamedConfig& named : kind.named) {
      if (model == named.name) {
        config.model = named.config();
        return;
      }
      // The passes of text encoders are called `encode`, and end in states.
      const ComponentPass& pass = kind.passes.front();
      if (pass.name == "forward" && pass.inputs == std::vector<std::string_view>{"input_ids"})
        names.emplace_back(named.name);
    }
  if (!model.is_string() || !std::filesystem::is_directory(model.get<std::string>()))
    fail("{}: model is {}, expected a configuration, the folder of a model, or one of {}", whole.context(),
         model.dump(), fmt::join(names, ", "));
  config.start = model.get<std::string>();
  config.model = Checkpoint::open(config.start).config();
}

/// The name of an objective, or an object with its options.
void parse_objective(const ConfigSection& whole, TrainingConfig& config) {
  const json by_name = whole.has("objective") ? whole.at("objective") : json("causal-lm");
  const json object = by_name.is_object() ? by_name : json{{"kind", by_name}};
  const ConfigSection section(object, whole.context() + ": objective",
                              {"kind", "patch", "text_tokens", "no_prompt", "uniform", "shift"});
  config.objective = parse_choice(section, "kind", section.text("kind", ""), kObjectives);
  if (config.objective != ObjectiveKind::kFlowMatching && object.size() > 1)
    fail("{}: {} has no options", section.context(), section.text("kind", ""));
  constexpr std::int64_t kMost = 1 << 16;
  config.flow = {.patch = section.whole("patch", config.flow.patch, 1, kMost),
                 .text_tokens = section.whole("text_tokens", config.flow.text_tokens, 1, kMost),
                 .no_prompt = section.real("no_prompt", config.flow.no_prompt, 0, 1),
                 .uniform = section.real("uniform", config.flow.uniform, 0, 1),
                 .shift = section.real("shift", config.flow.shift, -10, 10)};
}

/// A file of tokens, or an object with files of images.
DataFiles parse_data(const json& data, const std::string& context, ObjectiveKind objective, bool has_pad) {
  DataFiles files;
  if (objective == ObjectiveKind::kCausalLm) {
    if (!data.is_string()) fail("{}: data is {}, expected the name of a file of tokens", context, data.dump());
    files.tokens = data.get<std::string>();
    return files;
  }
  using Keys = std::initializer_list<std::string_view>;
  const ConfigSection section(data, context + ": data",
                              has_pad ? Keys{"images", "labels", "pad"} : Keys{"images", "labels"});
  files.images = {.images = get_string(data, "images", section.context()),
                  .labels = get_string(data, "labels", section.context())};
  constexpr std::int64_t kMostPixels = 1 << 12;
  if (has_pad) files.pad = section.whole("pad", 0, 0, kMostPixels);
  return files;
}

void parse_precision(const ConfigSection& whole, TrainingConfig& config) {
  config.precision = parse_choice(whole, "precision", whole.text("precision", "f32"), kPrecisions);
  if (config.precision != Precision::kF16 && !whole.has("loss_scaling")) return;
  const ConfigSection section = whole.section("loss_scaling", {"initial", "interval", "least", "most", "patience"});
  constexpr double kLargest = 1.7e38;  // 2^127
  LossScaling scaling;
  scaling.least = section.real("least", scaling.least, 1 / kLargest, kLargest);
  scaling.most = section.real("most", scaling.most, scaling.least, kLargest);
  scaling.initial = section.real("initial", scaling.initial, scaling.least, scaling.most);
  scaling.interval = section.whole("interval", scaling.interval, 1, kMostSteps);
  scaling.patience = section.whole("patience", scaling.patience, 1, kMostSteps);
  config.loss_scaling = scaling;
}

RateSchedule parse_schedule(const ConfigSection& whole, std::int64_t steps) {
  const ConfigSection section = whole.section("schedule", {"kind", "learning_rate", "warmup", "final"});
  RateSchedule schedule{.peak = section.real("learning_rate", 1e-3, 0, 1e3),
                        .final_share = section.real("final", 0.1, 0, 1),
                        .warmup = section.whole("warmup", 0, 0, steps),
                        .updates = steps};
  schedule.kind = parse_choice(section, "kind", section.text("kind", "cosine"), kSchedules);
  return schedule;
}

AdamW parse_optimizer(const ConfigSection& section) {
  constexpr double kLargest = 1e6;
  return {.betas = {section.real("beta1", 0.9, 0, 0.9999999), section.real("beta2", 0.999, 0, 0.9999999)},
          .epsilon = section.real("epsilon", 1e-8, 1e-30, 1),
          .weight_decay = section.real("weight_decay", 0.01, 0, kLargest),
          .clip = section.real("clip", 1, 0, kLargest)};
}

InitialValues parse_rule(const json& rule, const std::string& context) {
  const ConfigSection section(rule, context, {"names", "normal", "constant", "per_depth", "xavier"});
  if (int{section.has("normal")} + int{section.has("constant")} + int{section.has("xavier")} != 1)
    fail("{}: expected either normal, a standard deviation, or constant, or xavier", context);
  constexpr double kLargest = 1e30;
  return {.names = section.names("names"),
          .deviation = section.real("normal", 0, 0, kLargest),
          .mean = section.real("constant", 0, -kLargest, kLargest),
          .per_depth = section.flag("per_depth"),
          .xavier = section.flag("xavier")};
}

std::vector<InitialValues> own_initialization(ObjectiveKind objective) {
  switch (objective) {
    case ObjectiveKind::kCausalLm:  // those of GPT-2: the ends of residual branches get smaller the more there are
      return {{.names = "\\.c_proj\\.weight$", .deviation = 0.02, .per_depth = true},
              {.names = "(^|\\.)ln_[^.]*\\.weight$", .mean = 1},
              {.names = "\\.bias$"},
              {.names = "", .deviation = 0.02}};
    case ObjectiveKind::kFlowMatching:  // Peebles and Xie, "Scalable diffusion models with transformers", 2023: every
                                        // block begins as the identity, and the output as 0
      return {{.names = "^prompts\\.", .deviation = 1},
              {.names = "\\.bias$"},
              {.names = "\\.norm_(added_)?[qk]\\.weight$", .mean = 1},
              {.names = "(^|\\.)norm[^.]*\\.linear\\.weight$|^proj_out\\.weight$"},
              {.names = "^time_text_embed\\.", .deviation = 0.02},
              {.names = "", .xavier = true}};
    case ObjectiveKind::kClassification:
      return {{.names = "\\.bias$"}, {.names = "", .xavier = true}};
  }
  HR_CHECK(false);
}

}  // namespace

json TrainingConfig::determining() const {
  json rules = json::array();
  for (const InitialValues& rule : initialization)
    rules.push_back({{"names", rule.names},
                     {"normal", rule.deviation},
                     {"constant", rule.mean},
                     {"per_depth", rule.per_depth},
                     {"xavier", rule.xavier}});
  const RateSchedule& rates = optimizer.schedule;
  json values = {{"model", model},
                 {"frozen", frozen},
                 {"objective.kind", name_of(kObjectives, objective)},
                 {"objective.patch", flow.patch},
                 {"objective.text_tokens", flow.text_tokens},
                 {"objective.no_prompt", flow.no_prompt},
                 {"objective.uniform", flow.uniform},
                 {"objective.shift", flow.shift},
                 {"data.pad", data.pad},
                 {"precision", name_of(kPrecisions, precision)},
                 {"tokens", size.tokens},
                 {"batch", size.batch},
                 {"micro_batches", size.micro_batches},
                 {"steps", steps},
                 {"seed", seed},
                 {"optimizer.beta1", optimizer.betas[0]},
                 {"optimizer.beta2", optimizer.betas[1]},
                 {"optimizer.epsilon", optimizer.epsilon},
                 {"optimizer.weight_decay", optimizer.weight_decay},
                 {"optimizer.clip", optimizer.clip},
                 {"optimizer.no_weight_decay", no_weight_decay},
                 {"averages.decay", optimizer.average},
                 {"schedule.kind", name_of(kSchedules, rates.kind)},
                 {"schedule.learning_rate", rates.peak},
                 {"schedule.final", rates.final_share},
                 {"schedule.warmup", rates.warmup},
                 {"initialization", std::move(rules)}};
  if (loss_scaling)
    values.update({{"loss_scaling.initial", loss_scaling->initial},
                   {"loss_scaling.interval", loss_scaling->interval},
                   {"loss_scaling.least", loss_scaling->least},
                   {"loss_scaling.most", loss_scaling->most},
                   {"loss_scaling.patience", loss_scaling->patience}});
  return values;
}

TrainingConfig parse_training_config(const json& file, const std::string& context) {
  const ConfigSection whole(
      file, context,
      {"model", "frozen", "objective", "data", "tokens", "batch", "micro_batches", "steps", "seed", "optimizer",
       "schedule", "averages", "precision", "loss_scaling", "initialization", "validation", "checkpoints"});
  TrainingConfig config;
  parse_model(whole, config);
  config.frozen = whole.names("frozen");
  if (!config.frozen.empty() && config.start.empty())
    fail("{}: frozen needs trained weights: give the folder of a model as model", context);
  parse_objective(whole, config);
  config.data = parse_data(whole.at("data"), context, config.objective, true);
  const bool has_tokens = config.objective == ObjectiveKind::kCausalLm;
  if (!has_tokens && whole.has("tokens")) fail("{}: tokens is of the objective causal-lm alone", context);
  config.size = {.micro_batches = whole.whole("micro_batches", 1, 1, kMostSequences),
                 .batch = whole.whole("batch", std::nullopt, 1, kMostSequences),
                 .tokens = has_tokens ? whole.whole("tokens", std::nullopt, 1, kMostSequences) : 1};
  config.steps = whole.whole("steps", std::nullopt, 1, kMostSteps);
  config.seed = static_cast<std::uint64_t>(whole.whole("seed", 0, 0, std::numeric_limits<std::int64_t>::max()));
  const ConfigSection optimizer =
      whole.section("optimizer", {"beta1", "beta2", "epsilon", "weight_decay", "no_weight_decay", "clip"});
  config.optimizer = parse_optimizer(optimizer);
  config.no_weight_decay = optimizer.names("no_weight_decay");
  config.optimizer.schedule = parse_schedule(whole, config.steps);
  if (whole.has("averages")) {
    constexpr double kMostDecay = 0.9999999;
    config.optimizer.average = whole.section("averages", {"decay"}).real("decay", 0.9995, 1e-6, kMostDecay);
  }
  parse_precision(whole, config);
  if (!whole.has("initialization")) {
    config.initialization = own_initialization(config.objective);
  } else {
    const json& rules = whole.at("initialization");
    if (!rules.is_array()) fail("{}: initialization is {}, but a list was expected", context, rules.dump());
    for (std::size_t i = 0; i < rules.size(); ++i)
      config.initialization.push_back(parse_rule(rules[i], fmt::format("{}: initialization[{}]", context, i)));
  }
  if (whole.has("validation")) {
    const ConfigSection validation = whole.section("validation", {"data", "every", "batches"});
    config.validation_data = parse_data(validation.at("data"), validation.context(), config.objective, false);
    config.validation_every = validation.whole("every", config.validation_every, 1, kMostSteps);
    config.validation_batches = validation.whole("batches", config.validation_batches, 1, kMostSteps);
  }
  const ConfigSection checkpoints = whole.section("checkpoints", {"every", "keep"});
  config.checkpoint_every = checkpoints.whole("every", 0, 0, kMostSteps);
  config.checkpoint_keep = checkpoints.whole("keep", config.checkpoint_keep, 1, kMostSteps);
  return config;
}

void set_config_value(json& config, std::string_view assignment) {
  const std::size_t equals = assignment.find('=');
  std::string_view path = assignment.substr(0, equals);
  if (equals == std::string_view::npos || path.empty())
    fail_usage("--set {}: expected KEY=VALUE, as optimizer.clip=0.5", assignment);
  const std::string text(assignment.substr(equals + 1));
  json* at = &config;
  while (true) {
    const std::size_t dot = path.find('.');
    if (!at->is_object()) fail_usage("--set {}: a part of the key has a value that is no object", assignment);
    at = &(*at)[std::string(path.substr(0, dot))];
    if (dot == std::string_view::npos) break;
    if (at->is_null()) *at = json::object();
    path.remove_prefix(dot + 1);
  }
  try {
    *at = parse_json(text, "--set");
  } catch (const Error&) {  // it is a text without quotes
    *at = text;
  }
}

}  // namespace headroom
