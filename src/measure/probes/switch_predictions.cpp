#include "measure/probes/switch_predictions.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.hpp"
#include "passes/step_caches/step_cache_options.hpp"

namespace headroom {
namespace {

bool is_candidate(const SwitchInfo& info, const DeviceTarget& target) {
  if (info.needs_argument() || (info.device && *info.device != target.device)) return false;
  return !has_step_cache(SwitchSet::parse(info.name));
}

/// Device memory of a program: activations, and the weights that it reads.
std::int64_t bytes_of(const Program& program) {
  std::size_t bytes = program.has_arena ? program.arena_bytes : program.arena_lower_bound_bytes;
  for (const WeightUse& weight : program.weights) bytes += weight.bytes;
  return static_cast<std::int64_t>(bytes);
}

/// "1.35x ±5%"
Cell gain_cell(const SwitchPrediction& one, const PredictedStep& step) {
  const double gain = one.gain(step.factor);
  return number_cell(gain, fmt::format("{:.2f}x ±{:.0f}%", gain, 100 * step.error));
}

}  // namespace

std::vector<SwitchPrediction> predict_switches(const Compiled& current, const SwitchSet& switches,
                                               const MeasuredStep& step, const CompileUnder& compile,
                                               LaunchClock& clock, const ProfileObserver& observer) {
  const auto tell = [&](std::string_view phase, std::int64_t done, std::int64_t total) {
    if (observer) observer(phase, done, total);
  };
  std::vector<SwitchPrediction> all;
  std::vector<std::shared_ptr<const Program>> programs;
  std::int64_t planned = 0;
  for (const SwitchInfo& info : all_switches()) {
    tell("planning switches", ++planned, std::ssize(all_switches()));
    if (!is_candidate(info, current.program->target)) continue;
    const bool is_on = switches.has(info.name);
    if (is_on &&
        std::ranges::any_of(current.declined, [&](const Declined& one) { return one.switch_name == info.name; }))
      continue;  // on, and changes nothing
    SwitchPrediction one{.name = std::string(info.name),
                         .is_on = is_on,
                         .is_exact = info.exact,
                         .set = is_on ? switches.without(info.name) : switches.with(SwitchSet::parse(info.name)),
                         .declined = {},
                         .by_rates = {},
                         .by_each = {},
                         .measured_ms = {},
                         .measured = {},
                         .not_run = {}};
    std::shared_ptr<const Program> program;
    try {
      const Compiled compiled = compile(one.set);
      for (const Declined& declined : compiled.declined)
        if (declined.switch_name == info.name) one.declined = declined.reason;
      program = compiled.program;
    } catch (const Error& illegal) {
      one.declined = illegal.what();
    }
    all.push_back(std::move(one));
    programs.push_back(all.back().declined.empty() ? program : nullptr);
  }

  std::vector<const Program*> learned = {current.program.get()};
  for (const std::shared_ptr<const Program>& program : programs)
    if (program != nullptr) learned.push_back(program.get());
  StepPredictor predictor(clock);
  predictor.learn(learned, observer);
  const std::int64_t bytes = bytes_of(*current.program);
  for (std::size_t i = 0; i < all.size(); ++i) {
    tell("timing launches", static_cast<std::int64_t>(i) + 1, std::ssize(all));
    if (programs[i] == nullptr) continue;
    all[i].by_rates = predictor.predict(*current.program, step, *programs[i], LaunchTiming::kRates);
    all[i].by_each = predictor.predict(*current.program, step, *programs[i], LaunchTiming::kEach);
    all[i].more_bytes = (all[i].is_on ? -1 : 1) * (bytes_of(*programs[i]) - bytes);
  }
  std::ranges::stable_sort(all, [](const SwitchPrediction& a, const SwitchPrediction& b) {
    if (a.declined.empty() != b.declined.empty()) return a.declined.empty();
    return a.declined.empty() && a.gain(a.by_each.factor) > b.gain(b.by_each.factor);
  });
  return all;
}

Table to_table(const std::vector<SwitchPrediction>& predictions) {
  Table table;
  table.add_column("switch", Align::kLeft);
  table.add_column("now", Align::kLeft);
  for (const char* const header : {"gain by rates", "by launches", "measured", "memory"}) table.add_column(header);
  table.add_column("results", Align::kLeft);
  for (const SwitchPrediction& one : predictions) {
    if (!one.declined.empty()) continue;
    Cell measured = no_value();
    if (one.measured) {
      const double gain = one.gain(one.measured->value);
      measured = number_cell(gain, fmt::format("{:.2f}x", gain));
    }
    const std::int64_t bytes = one.more_bytes;
    table.add_row({one.name, one.is_on ? "on" : "off", gain_cell(one, one.by_rates), gain_cell(one, one.by_each),
                   std::move(measured),
                   number_cell(static_cast<double>(bytes),
                               fmt::format("{}{:.1f} MiB", bytes < 0 ? "-" : "+",
                                           static_cast<double>(bytes < 0 ? -bytes : bytes) / (1 << 20))),
                   one.is_exact ? "exact" : "inexact"});
  }
  return table;
}

}  // namespace headroom
