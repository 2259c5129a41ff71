#include "report/advice/deploy.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>

#include "base/text/format.hpp"
#include "report/ladder_view.hpp"

namespace headroom {
namespace {

using Candidates = std::vector<Candidate>;

/// The baseline to compare a result with: that of its own file and precision, else the latest of its precision.
const Measurement* baseline_for(const Scenario& scenario, const Measurement& m) {
  const Measurement* found = nullptr;
  for (const Measurement* other : scenario.all) {
    if (!other->is_baseline() || !other->timing ||
        other->result->configuration.baseline_dtype != m.result->configuration.baseline_dtype)
      continue;
    if (other->file == m.file) return other;
    found = other;
  }
  return found;
}

/// Our measurements: the run with the most configurations, and the latest of each configuration that the run lacks.
std::vector<const Measurement*> measured_of(const Scenario& scenario) {
  std::vector<const Measurement*> measured;
  const auto add = [&](const Measurement* m) {
    const auto is_same = [&](const Measurement* other) {
      return other->label == m->label &&
             other->result->configuration.baseline_dtype == m->result->configuration.baseline_dtype;
    };
    if (!m->is_peer && m->timing && !m->result->same_as && std::ranges::none_of(measured, is_same))
      measured.push_back(m);
  };
  std::ranges::for_each(scenario.run, add);
  std::ranges::for_each(scenario.current, add);
  return measured;
}

Candidates candidates_of(const Dataset& dataset, const Scenario& scenario, double max_quality_loss) {
  Candidates candidates;
  for (const Measurement* m : measured_of(scenario)) {
    const Measurement* const baseline = baseline_for(scenario, *m);
    const bool is_one_run = baseline != nullptr && baseline->file == m->file;
    const double batch = batch_of(scenario.subject).value_or(1);
    Candidate candidate{.measurement = m,
                        .scenario = &scenario,
                        .request_ms = m->time().median_ms * (m->time().unit == "image" ? batch : 1),
                        .per_second = 0,
                        .loss = quality_loss(dataset, scenario, *m, max_quality_loss),
                        .on_baseline = is_one_run && m != baseline ? dataset.factor(*baseline, *m) : std::nullopt};
    if (m->result->latency)
      candidate.per_second = static_cast<double>(m->result->latency->shown) / m->result->latency->seconds;
    else if (candidate.request_ms > 0)
      candidate.per_second = batch / candidate.request_ms * 1e3;
    candidates.push_back(std::move(candidate));
  }
  return candidates;
}

bool are_alike(const Dataset& dataset, const Candidate& a, const Candidate& b) {
  return a.scenario == b.scenario && are_equal_in_time(dataset.factor(*a.measurement, *b.measurement));
}

/// Whether they differ only in switches that declined.
bool are_one_program(const Candidate& a, const Candidate& b) {
  const Configuration &one = a.measurement->result->configuration, &other = b.measurement->result->configuration;
  return a.measurement->file == b.measurement->file && a.scenario == b.scenario &&
         one.baseline_dtype == other.baseline_dtype && one.applied == other.applied;
}

/// Whether the 95% interval of their factor says that the first is faster.
bool is_faster(const Dataset& dataset, const Candidate& a, const Candidate& than) {
  const std::optional<Estimate> factor = dataset.factor(*than.measurement, *a.measurement);
  return factor && finding_of(factor->interval, 1) == Finding::kAbove;
}

/// The best in quality of candidates that are equal in time. Ties go to the one with the fewest switches, then to
/// the fastest.
Candidate best_of_equals(const Candidates& equals, double max_quality_loss) {
  const auto loss_of = [](const Candidate& c) { return c.loss->at_worst; };
  const double least = loss_of(*std::ranges::min_element(equals, {}, loss_of));
  const Candidate* best = nullptr;
  const auto rank = [](const Candidate& c) { return std::pair(c.measurement->switches().size(), c.request_ms); };
  for (const Candidate& c : equals)
    if (!is_better_in_quality(least, loss_of(c), max_quality_loss) && (best == nullptr || rank(c) < rank(*best)))
      best = &c;
  return *best;
}

/// The lowest latency. The fastest candidate is replaced by one of the drawn run that is statistically equal to it.
/// Then best_of_equals() chooses among those of the same file that are the same program, or are equal to it in time and
/// that none is known to beat.
Candidate lowest_latency(const Dataset& dataset, const Candidates& allowed, double max_quality_loss) {
  const Candidate* fastest = &*std::ranges::min_element(allowed, {}, &Candidate::request_ms);
  const Candidate* of_run = nullptr;
  for (const Candidate& c : allowed)
    if (c.scenario == fastest->scenario && !c.scenario->run.empty() &&
        c.measurement->file == c.scenario->run.front()->file &&
        (of_run == nullptr || c.request_ms < of_run->request_ms))
      of_run = &c;
  if (of_run != nullptr && are_alike(dataset, *fastest, *of_run)) fastest = of_run;
  Candidates of_file, equals = {*fastest};
  std::ranges::copy_if(allowed, std::back_inserter(of_file), [&](const Candidate& c) {
    return c.measurement->file == fastest->measurement->file && c.measurement != fastest->measurement;
  });
  const auto is_beaten = [&](const Candidate& c) {
    return is_faster(dataset, *fastest, c) ||
           std::ranges::any_of(of_file, [&](const Candidate& other) { return is_faster(dataset, other, c); });
  };
  std::ranges::copy_if(of_file, std::back_inserter(equals), [&](const Candidate& c) {
    return are_one_program(*fastest, c) || (are_alike(dataset, *fastest, c) && !is_beaten(c));
  });
  return best_of_equals(equals, max_quality_loss);
}

/// The candidate with the most images per second. In the scenario of `deployed` it is `deployed` itself, since those
/// with a lower latency are equal to it in time; frames of a stream overlap, so that their rate is another matter.
Candidate highest_throughput(const Candidates& allowed, const Candidate& deployed) {
  const Candidate& highest = *std::ranges::max_element(allowed, {}, &Candidate::per_second);
  const bool is_tie = highest.scenario == deployed.scenario && !highest.measurement->result->latency;
  return is_tie ? deployed : highest;
}

/// The fastest candidate of the same work that is faster than `deployed` and not equal to it in time; the fastest of
/// all if nothing is deployed.
std::optional<Candidate> fastest_below(const Dataset& dataset, const Candidates& candidates,
                                       const std::optional<Candidate>& deployed) {
  const Candidate* fastest = nullptr;
  for (const Candidate& c : candidates) {
    if (deployed &&
        (c.scenario != deployed->scenario || c.request_ms >= deployed->request_ms || are_alike(dataset, *deployed, c)))
      continue;
    if (fastest == nullptr || c.request_ms < fastest->request_ms) fastest = &c;
  }
  return fastest == nullptr ? std::nullopt : std::optional(*fastest);
}

/// Whether late frames wait and come faster than they are taken, and the rate at which they are; else nothing. The rate
/// is that after the first frame, so that a short stream of a long latency is not taken for a slow one.
std::optional<double> rate_of_overrun(const Measurement& m) {
  const std::optional<LatencyRecord>& stream = m.result->latency;
  if (!stream || !stream->input_fps || stream->drops || stream->shown < 2 || stream->latency_ms.empty()) return {};
  constexpr double kKept = 0.95;
  const double seconds = stream->seconds - std::ranges::min(stream->latency_ms) / 1e3;
  const double rate = static_cast<double>(stream->shown - 1) / seconds;
  return seconds > 0 && rate < kKept * *stream->input_fps ? std::optional(rate) : std::nullopt;
}

std::vector<std::string> labels_of(const Candidates& candidates) {
  std::vector<std::string> labels;
  for (const Candidate& c : candidates)
    if (std::ranges::find(labels, c.measurement->label) == labels.end()) labels.push_back(c.measurement->label);
  std::ranges::sort(labels);
  return labels;
}

constexpr std::string_view kFaster = "faster";

/// The verdict of the interval of a factor over the configurations before.
std::string_view evidence_of(const std::optional<Estimate>& factor) {
  if (!factor || !factor->interval) return "no interval to judge by";
  switch (finding_of(factor->interval, 1)) {
    case Finding::kAbove:
      return kFaster;
    case Finding::kBelow:
      return "slower";
    case Finding::kInconclusive:
      break;
  }
  return "no difference beyond noise";
}

std::vector<Adoption> adoption_of(const Dataset& dataset, const LadderView& ladder, const Decision& decision,
                                  double max_quality_loss) {
  const std::vector<std::string>& deployed = decision.deploy->measurement->switches();
  std::vector<Adoption> adoption;
  for (const RungView& rung : ladder.cumulative) {
    const auto single = std::ranges::find(ladder.singles, rung.added, &RungView::added);
    Adoption one{
        .switches = rung.added,
        .adopt = std::ranges::all_of(
            rung.added, [&](const std::string& name) { return std::ranges::find(deployed, name) != deployed.end(); }),
        .reason = std::string(evidence_of(rung.on_previous)),
        .alone = single == ladder.singles.end() || single->is_declined() ? std::nullopt : single->on_baseline,
        .on_previous = rung.is_declined() ? std::nullopt : rung.on_previous};
    const std::optional<KnownLoss> loss = quality_loss(dataset, *ladder.scenario, *rung.measurement, max_quality_loss);
    if (rung.is_declined())
      one.reason = "does nothing here";
    else if (one.adopt && (rung.is_unsettled() || one.reason != kFaster))
      one.reason = fmt::format("part of the recommended configuration; over the one before it: {}",
                               rung.is_unsettled() ? "unsettled" : one.reason);
    else if (rung.is_unsettled())
      one.reason = "unsettled: measure again";
    else if (!one.adopt && !loss)
      one.reason = "its quality was not measured";
    else if (!one.adopt && loss->verdict == LossVerdict::kBeyond && std::ranges::all_of(rung.added, is_exact_switch))
      one.reason = "exact, but measured only on top of switches that are beyond the quality limit";
    else if (!one.adopt && loss->verdict == LossVerdict::kBeyond)
      one.reason = "beyond the quality limit: " + loss->basis;
    else if (!one.adopt && loss->verdict == LossVerdict::kUnresolved)
      one.reason = fmt::format("not known to keep the quality limit: {}; {}", loss->basis, loss->needed);
    else if (!one.adopt && rung.on_previous && rung.on_previous->value > 1)
      one.reason = "not shown to be faster than what is deployed";
    adoption.push_back(std::move(one));
  }
  return adoption;
}

}  // namespace

const Candidate* Decision::shown() const {
  for (const std::optional<Candidate>* one : {&deploy, &faster_unresolved, &faster_beyond, &faster_unknown})
    if (*one) return &**one;
  return nullptr;
}

Decision decide(const Dataset& dataset, const View& view, double max_quality_loss) {
  Decision decision;
  if (view.is_of_kernels) return decision;
  Candidates allowed, beyond, unresolved, unknown, unsettled;
  const auto list_of = [&](const Candidate& c) -> Candidates& {
    if (c.measurement->unsettled) return unsettled;
    if (!c.loss) return unknown;
    return c.loss->verdict == LossVerdict::kBeyond       ? beyond
           : c.loss->verdict == LossVerdict::kUnresolved ? unresolved
                                                         : allowed;
  };
  for (const Scenario* scenario : view.scenarios)
    for (Candidate& c : candidates_of(dataset, *scenario, max_quality_loss))
      if (const std::optional<double> rate = rate_of_overrun(*c.measurement))
        decision.overrun.push_back(fmt::format("{} ({} of {} frames a second)", c.measurement->label,
                                               format_significant(*rate),
                                               format_significant(*c.measurement->result->latency->input_fps)));
      else
        list_of(c).push_back(std::move(c));
  decision.beyond_limit = labels_of(beyond);
  decision.unresolved = labels_of(unresolved);
  decision.unknown = labels_of(unknown);
  for (const Candidate& c : unsettled) {
    const double batch = batch_of(c.scenario->subject).value_or(1);
    decision.unsettled.push_back(fmt::format("{}{} ({})", c.measurement->label,
                                             view.scenarios.size() > 1 ? fmt::format(", {} at once", batch) : "",
                                             *c.measurement->unsettled));
  }
  if (!allowed.empty()) {
    decision.deploy = lowest_latency(dataset, allowed, max_quality_loss);
    decision.highest_throughput = highest_throughput(allowed, *decision.deploy);
    if (allowed.size() > 1 && !decision.deploy->measurement->result->latency)
      decision.doubt = why_no_factor_interval(*decision.deploy->measurement->result);
    const std::optional<LadderView> ladder = ladder_of(dataset, *decision.deploy->scenario);
    const auto precision_of = [](const Measurement& m) { return m.result->configuration.baseline_dtype; };
    if (ladder && precision_of(*ladder->baseline.measurement) == precision_of(*decision.deploy->measurement))
      decision.adoption = adoption_of(dataset, *ladder, decision, max_quality_loss);
  }
  decision.faster_beyond = fastest_below(dataset, beyond, decision.deploy);
  decision.faster_unresolved = fastest_below(dataset, unresolved, decision.deploy);
  decision.faster_unknown = fastest_below(dataset, unknown, decision.deploy);
  const auto peak = [](const Candidate& c) { return *c.measurement->result->memory->peak_bytes; };
  auto with_memory = allowed | std::views::filter([](const Candidate& c) {
                       return c.measurement->result->memory && c.measurement->result->memory->peak_bytes;
                     });
  if (!with_memory.empty()) decision.least_memory = *std::ranges::min_element(with_memory, {}, peak);
  return decision;
}

}  // namespace headroom
