#include "train/training_config.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <limits>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/name_filter.hpp"
#include "base/text/nearest.hpp"

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
    if (!pattern.empty()) static_cast<void>(NameFilter(pattern));
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

/// An object, or the name of a configuration of a class of networks.
json parse_model(const ConfigSection& whole) {
  const json& model = whole.at("model");
  if (model.is_object()) return model;
  std::vector<std::string> names;
  for (const ComponentClass& kind : component_classes())
    for (const NamedConfig& named : kind.named) {
      if (model == named.name) return named.config();
      if (kind.passes.front().inputs == std::vector<std::string_view>{"input_ids"}) names.emplace_back(named.name);
    }
  fail("{}: model is {}, expected a configuration, or one of {}", whole.context(), model.dump(),
       fmt::join(names, ", "));
}

RateSchedule parse_schedule(const ConfigSection& whole, std::int64_t steps) {
  const ConfigSection section = whole.section("schedule", {"kind", "learning_rate", "warmup", "final"});
  RateSchedule schedule{.peak = section.real("learning_rate", 1e-3, 0, 1e3),
                        .final_share = section.real("final", 0.1, 0, 1),
                        .warmup = section.whole("warmup", 0, 0, steps),
                        .updates = steps};
  using Kind = RateSchedule::Kind;
  constexpr std::pair<std::string_view, Kind> kKinds[] = {
      {"constant", Kind::kConstant}, {"linear", Kind::kLinear}, {"cosine", Kind::kCosine}};
  const std::string kind = section.text("kind", "cosine");
  const auto* const found = std::ranges::find(kKinds, kind, &std::pair<std::string_view, Kind>::first);
  if (found == std::end(kKinds))
    fail("{}: kind is \"{}\", expected constant, linear or cosine", section.context(), kind);
  schedule.kind = found->second;
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
  const ConfigSection section(rule, context, {"names", "normal", "constant", "per_depth"});
  if (section.has("normal") == section.has("constant"))
    fail("{}: expected either normal, a standard deviation, or constant", context);
  constexpr double kLargest = 1e30;
  return {.names = section.names("names"),
          .deviation = section.real("normal", 0, 0, kLargest),
          .mean = section.real("constant", 0, -kLargest, kLargest),
          .per_depth = section.flag("per_depth")};
}

/// Those of GPT-2: the ends of residual branches get smaller the more there are.
std::vector<InitialValues> own_initialization() {
  return {{.names = "\\.c_proj\\.weight$", .deviation = 0.02, .per_depth = true},
          {.names = "(^|\\.)ln_[^.]*\\.weight$", .mean = 1},
          {.names = "\\.bias$"},
          {.names = "", .deviation = 0.02}};
}

}  // namespace

json TrainingConfig::determining() const {
  json rules = json::array();
  for (const InitialValues& rule : initialization)
    rules.push_back({rule.names, rule.deviation, rule.mean, rule.per_depth});
  const RateSchedule& rates = optimizer.schedule;
  return {{"model", model},
          {"tokens", size.tokens},
          {"batch", size.batch},
          {"micro_batches", size.micro_batches},
          {"steps", steps},
          {"seed", seed},
          {"optimizer",
           {optimizer.betas[0], optimizer.betas[1], optimizer.epsilon, optimizer.weight_decay, optimizer.clip,
            no_weight_decay}},
          {"schedule", {static_cast<int>(rates.kind), rates.peak, rates.final_share, rates.warmup}},
          {"initialization", std::move(rules)}};
}

TrainingConfig parse_training_config(const json& file, const std::string& context) {
  const ConfigSection whole(file, context,
                            {"model", "objective", "data", "tokens", "batch", "micro_batches", "steps", "seed",
                             "optimizer", "schedule", "initialization", "validation", "checkpoints"});
  TrainingConfig config;
  config.model = parse_model(whole);
  if (const std::string objective = whole.text("objective", "causal-lm"); objective != "causal-lm")
    fail("{}: objective is \"{}\", expected causal-lm", context, objective);
  config.data = get_string(file, "data", context);
  config.size = {.micro_batches = whole.whole("micro_batches", 1, 1, kMostSequences),
                 .batch = whole.whole("batch", std::nullopt, 1, kMostSequences),
                 .tokens = whole.whole("tokens", std::nullopt, 1, kMostSequences)};
  config.steps = whole.whole("steps", std::nullopt, 1, kMostSteps);
  config.seed = static_cast<std::uint64_t>(whole.whole("seed", 0, 0, std::numeric_limits<std::int64_t>::max()));
  const ConfigSection optimizer =
      whole.section("optimizer", {"beta1", "beta2", "epsilon", "weight_decay", "no_weight_decay", "clip"});
  config.optimizer = parse_optimizer(optimizer);
  config.no_weight_decay = optimizer.names("no_weight_decay");
  config.optimizer.schedule = parse_schedule(whole, config.steps);
  if (!whole.has("initialization")) {
    config.initialization = own_initialization();
  } else {
    const json& rules = whole.at("initialization");
    if (!rules.is_array()) fail("{}: initialization is {}, but a list was expected", context, rules.dump());
    for (std::size_t i = 0; i < rules.size(); ++i)
      config.initialization.push_back(parse_rule(rules[i], fmt::format("{}: initialization[{}]", context, i)));
  }
  if (whole.has("validation")) {
    const ConfigSection validation = whole.section("validation", {"data", "every", "batches"});
    config.validation_data = get_string(whole.at("validation"), "data", validation.context());
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
