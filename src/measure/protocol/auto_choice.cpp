#include "measure/protocol/auto_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/out_of_memory.hpp"
#include "measure/quality/quality_loss.hpp"
#include "measure/statistics/effect.hpp"
#include "measure/tables/table.hpp"
#include "passes/step_caches/step_cache_options.hpp"

namespace headroom {
namespace {

constexpr double kLeastGain = 1.01;  // a factor that must be exceeded with 95% confidence
constexpr int kMaxRounds = 3;

class Chooser {
 public:
  Chooser(AutoBench& bench, const SwitchSet& fixed, const AutoLimits& limits, const MillisecondClock& clock)
      : bench_(bench), fixed_(fixed), limits_(limits), clock_(clock), began_ms_(clock()) {
    for (const SwitchInfo& info : all_switches())
      if (!info.needs_argument() && !fixed.has(info.name)) free_.push_back(&info);
  }

  AutoChoice run() {
    start_with_exact();
    for (int round = 0; round < kMaxRounds; ++round) {
      const std::string before = set_.to_string();
      for (const SwitchInfo* info : free_)
        if (!info->exact && !set_.has(info->name)) try_adding(*info);
      for (const SwitchInfo* info : free_)
        if (set_.has(info->name)) try_leaving_out(*info);
      if (set_.to_string() == before) break;
    }
    if (limits_.max_request_error > 0 && !has_step_cache(fixed_)) try_cheaper_loops();
    return {.switches = std::move(set_), .trials = std::move(trials_)};
  }

 private:
  void start_with_exact() {
    set_ = fixed_;
    const SwitchSet lossless = SwitchSet::parse("lossless");  // without what saves memory alone
    for (const SwitchInfo* info : free_)
      if (lossless.has(info->name)) set_ = set_.with(SwitchSet::parse(info->name));
    const std::vector<Declined> declined = bench_.build(set_, set_);
    for (const Declined& one : declined) {
      if (fixed_.has(one.switch_name)) continue;
      set_ = set_.without(one.switch_name);
      note(one.switch_name, false, "declined: " + one.reason);
    }
    if (!declined.empty()) bench_.build(set_, set_);
  }

  void try_adding(const SwitchInfo& info) {
    const SwitchSet with = set_.with(SwitchSet::parse(info.name));
    if (!is_to_be_tried(info, with)) return;
    double error = 0;
    try {
      const std::vector<Declined> declined = bench_.build(with, set_);
      const auto own = std::ranges::find(declined, info.name, &Declined::switch_name);
      if (own != declined.end()) return note(info.name, false, "declined: " + own->reason);
      error = bench_.error(with);
    } catch (const OutOfMemory&) {
      return note(info.name, false, "there is too little memory to hold it against the baseline");
    } catch (const Error& wrong) {
      return note(info.name, false, wrong.what());
    }
    if (!(error <= limits_.max_error)) return refuse_error(info.name, error, limits_.max_error);
    compare(info.name, info.exact, set_, with);
    trials_.back().error = error;
    if (trials_.back().kept) set_ = with;
  }

  void try_leaving_out(const SwitchInfo& info) {
    const SwitchSet without = set_.without(info.name);
    if (!is_to_be_tried(info, set_)) return;
    try {
      bench_.build(without, set_);
    } catch (const OutOfMemory&) {
      return note(info.name, true, "without it there is too little memory");
    }
    compare(info.name, info.exact, without, set_);
    if (!trials_.back().kept) set_ = without;
  }

  /// Chooses the first loop that pays within the limit, or a later one that is as fast and has better quality.
  void try_cheaper_loops() {
    const SwitchSet every_step = set_;
    std::optional<std::size_t> chosen;  // index of its trial
    for (const std::string& cheaper : bench_.cheaper_loops()) {
      if (seconds_left() <= 0) {
        if (!chosen) note(cheaper, false, fmt::format("not tried: the {} s were over", limits_.seconds));
        return;
      }
      const SwitchSet with = every_step.with(SwitchSet::parse(cheaper));
      if (chosen) {
        const std::optional<Estimate> factor = factor_of(set_, with);
        if (factor && finding_of(factor->interval, 1) == Finding::kBelow) return;  // later ones are no cheaper
        if (!are_equal_in_time(factor)) continue;
      }
      const std::optional<AutoBench::Loss> loss = loss_of_loop(cheaper, with, every_step);
      if (!loss) continue;
      if (chosen && !is_better_in_quality(loss->value, *trials_[*chosen].error, limits_.max_request_error)) continue;
      compare(cheaper, /*exact=*/false, every_step, with);
      AutoTrial& trial = trials_.back();
      trial.error = loss->value;
      trial.why += fmt::format(", and {} is within {}", loss->what, limits_.max_request_error);
      if (!trial.kept) continue;
      if (chosen) {
        trials_[*chosen].kept = false;
        trials_[*chosen].why += fmt::format(", but {} is as fast and loses less", cheaper);
      }
      chosen = trials_.size() - 1;
      set_ = with;
    }
  }

  /// The factor between two sets; nothing if one of them cannot be built.
  std::optional<Estimate> factor_of(const SwitchSet& without, const SwitchSet& with) {
    try {
      if (!bench_.build(with, without).empty()) return {};
      const double seconds = std::max(seconds_left(), 0.0) / static_cast<double>(questions_left());
      const PairedTimes times = bench_.time(without, with, seconds);
      return paired_factor(times.a_ms, times.b_ms);
    } catch (const Error&) {
      return {};
    }
  }

  /// The loss of a loop if it is within the limit; otherwise nothing, and a trial records the reason.
  std::optional<AutoBench::Loss> loss_of_loop(const std::string& cheaper, const SwitchSet& with,
                                              const SwitchSet& every_step) {
    const SwitchSet added = SwitchSet::parse(cheaper);
    try {
      const std::vector<Declined> declined = bench_.build(with, every_step);
      const auto own = std::ranges::find_if(declined, [&](const Declined& one) { return added.has(one.switch_name); });
      if (own != declined.end()) {
        note(cheaper, false, "declined: " + own->reason);
        return {};
      }
      AutoBench::Loss loss = bench_.loss(with, every_step);
      if (loss.value <= limits_.max_request_error) return loss;
      refuse_error(cheaper, loss.value, limits_.max_request_error, loss.what);
    } catch (const OutOfMemory&) {
      note(cheaper, false, "there is too little memory for it");
    } catch (const Error& wrong) {
      note(cheaper, false, wrong.what());
    }
    return {};
  }

  /// Records an error over the limit; a NaN counts as over it.
  void refuse_error(std::string_view name, double error, double limit, std::string_view what = "its error") {
    note(name, false,
         fmt::format("{} is {}", what, std::isfinite(error) ? fmt::format("over {}", limit) : "not finite"));
    if (std::isfinite(error)) trials_.back().error = error;
  }

  /// Whether the switch was not yet compared within this set, and there is time to do it.
  bool is_to_be_tried(const SwitchInfo& info, const SwitchSet& with) {
    const bool never_before = std::ranges::find(trials_, info.name, &AutoTrial::switch_name) == trials_.end();
    if (tried_.contains({std::string(info.name), with.to_string()})) return false;
    if (seconds_left() <= 0) {
      if (never_before)
        note(info.name, set_.has(info.name), fmt::format("not tried: the {} s were over", limits_.seconds));
      return false;
    }
    tried_.insert({std::string(info.name), with.to_string()});
    return true;
  }

  void compare(std::string_view name, bool exact, const SwitchSet& without, const SwitchSet& with) {
    const double seconds = std::max(seconds_left(), 0.0) / static_cast<double>(questions_left());
    const PairedTimes times = bench_.time(without, with, seconds);
    const Estimate factor = paired_factor(times.a_ms, times.b_ms);
    const bool faster = finding_of(factor.interval, kLeastGain) == Finding::kAbove;
    const bool slower = finding_of(factor.interval, 1 / kLeastGain) == Finding::kBelow;
    note(name, exact ? !slower : faster,
         faster   ? "it pays"
         : slower ? "it is slower"
                  : fmt::format("no certain difference of over 1%{}", exact ? ", and it is exact" : ""));
    AutoTrial& trial = trials_.back();
    trial.without_ms = median(times.a_ms);
    trial.with_ms = median(times.b_ms);
    trial.factor = factor.value;
    trial.interval = factor.interval;
  }

  void note(std::string_view name, bool kept, std::string why) {
    AutoTrial& trial = trials_.emplace_back();
    trial.switch_name = name;
    trial.kept = kept;
    trial.why = std::move(why);
  }

  double seconds_left() const { return limits_.seconds - (clock_() - began_ms_) / 1000; }

  /// The number of switches without a trial, including the current one; at least 1.
  std::ptrdiff_t questions_left() const {
    return 1 + std::ranges::count_if(free_, [&](const SwitchInfo* info) {
             return std::ranges::find(trials_, info->name, &AutoTrial::switch_name) == trials_.end();
           });
  }

  AutoBench& bench_;
  const SwitchSet& fixed_;
  const AutoLimits& limits_;
  const MillisecondClock& clock_;
  double began_ms_;
  std::vector<const SwitchInfo*> free_;  // switches that may be chosen
  SwitchSet set_;
  std::vector<AutoTrial> trials_;
  std::set<std::pair<std::string, std::string>> tried_;  // pairs of a switch and the set with it
};

}  // namespace

AutoChoice choose_switches(AutoBench& bench, const SwitchSet& fixed, const AutoLimits& limits,
                           const MillisecondClock& clock) {
  return Chooser(bench, fixed, limits, clock).run();
}

namespace {

std::string verdict_of(const AutoTrial& trial) {
  if (trial.kept) return "kept: " + trial.why;
  const bool was_ever_on = !trial.why.starts_with("declined: ") && !trial.why.starts_with("not tried: ");
  return was_ever_on ? "dropped: " + trial.why : trial.why;
}

}  // namespace

Printout to_table(const AutoChoice& choice) {
  Table table;
  table.add_column(Column{.header = "switch", .align = Align::kLeft});
  table.add_column(Column{.header = "without", .priority = 2, .fields = {"without_ms"}});
  table.add_column(Column{.header = "with", .priority = 1, .fields = {"with_ms"}});
  table.add_column(Column{.header = "factor"});
  table.add_column(Column{.header = "95% interval", .fields = {"factor_low", "factor_high"}});
  table.add_column(Column{.header = "error"});
  table.add_column(Column{.header = "verdict", .align = Align::kLeft});
  for (const AutoTrial& trial : choice.trials)
    table.add_row({trial.switch_name, ms_cell(trial.without_ms), ms_cell(trial.with_ms), factor_cell(trial.factor),
                   interval_cell(trial.interval),
                   trial.error ? number_cell(*trial.error, format_significant(*trial.error)) : no_value(),
                   verdict_of(trial)});
  return table;
}

}  // namespace headroom
