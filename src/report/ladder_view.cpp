#include "report/ladder_view.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <set>
#include <span>

#include "measure/protocol/ladder_rounds.hpp"
#include "report/plots/option.hpp"

namespace headroom {
namespace {

using Names = std::vector<std::string>;

bool is_prefix(const Names& shorter, const Names& longer) {
  return shorter.size() <= longer.size() && std::ranges::equal(shorter, longer | std::views::take(shorter.size()));
}

/// The measurements that add up, in pipeline order, to the largest set of switches.
std::vector<const Measurement*> longest_chain(const std::vector<const Measurement*>& ours) {
  std::vector<const Measurement*> best;
  for (const Measurement* last : ours) {
    if (last->switches().size() < 2) continue;
    std::vector<const Measurement*> chain;
    for (std::size_t n = 1; n <= last->switches().size(); ++n)
      for (const Measurement* m : ours)
        if (m->switches().size() == n && is_prefix(m->switches(), last->switches())) {
          chain.push_back(m);
          break;
        }
    const auto rank = [](const auto& list) {
      return std::pair(list.size(), list.empty() ? 0 : list.back()->switches().size());
    };
    if (rank(chain) > rank(best)) best = chain;
  }
  return best;
}

Estimate as_estimate(const Factor& factor) { return {.value = factor.value, .interval = factor.interval}; }

/// Product of factors that may depend on each other arbitrarily; their intervals are combined conservatively.
Estimate times(const Estimate& a, const Estimate& b) {
  Estimate product{.value = a.value * b.value, .interval = {}};
  if (a.interval && b.interval)
    product.interval = Interval{a.interval->low * b.interval->low, a.interval->high * b.interval->high};
  return product;
}

/// Empty if one of the rungs shares no rounds with the baseline.
std::optional<Synergy> synergy_of_rounds(const Measurement& baseline, const std::vector<const RungView*>& alone,
                                         const RungView& combined) {
  const RoundLogs all = rounds_between(*baseline.result, *combined.measurement->result);
  std::vector<RoundLogs> rounds;
  for (const RungView* rung : alone) rounds.push_back(rounds_between(*baseline.result, *rung->measurement->result));
  if (all.empty() || std::ranges::any_of(rounds, &RoundLogs::empty)) return {};
  std::vector<Term> terms;
  for (const RoundLogs& one : rounds) terms.push_back({&one, 1});
  Synergy synergy{.combined = as_estimate(factor_of(all)), .product = as_estimate(factor_of(terms)), .quotient = {}};
  for (Term& term : terms) term.sign = -1;
  terms.push_back({&all, 1});
  synergy.quotient = as_estimate(factor_of(terms));
  return synergy;
}

std::string unsettled_mark(const Measurement& m) { return m.unsettled ? " (unsettled)" : ""; }

}  // namespace

bool RungView::is_declined() const {
  return !added.empty() && std::ranges::all_of(added, [&](const auto& name) { return measurement->declined(name); });
}

std::string RungView::label_without_time() const {
  const std::string mark = unsettled_mark(*measurement);
  return label.ends_with(mark) ? label.substr(0, label.size() - mark.size()) : label;
}

std::string RungView::mark(const std::optional<Estimate>& factor) const {
  if (is_unsettled()) return "  unsettled";
  if (factor && measurement->is_baseline()) return "  baseline";
  return factor && !is_declined() ? "  " + label_factor(*factor) : "";
}

const RungView* LadderView::combined() const {
  if (cumulative.empty() || cumulative.back().measurement->switches().size() < 2) return nullptr;
  return &cumulative.back();
}

std::optional<Synergy> LadderView::synergy() const {
  const RungView* const all_together = combined();
  if (all_together == nullptr || !all_together->on_baseline) return {};
  std::vector<const RungView*> alone;
  for (const std::string& name : all_together->measurement->switches()) {
    const auto single = std::ranges::find_if(
        singles, [&](const RungView& rung) { return rung.measurement->switches().front() == name; });
    if (single == singles.end()) return {};
    if (single->is_declined()) continue;
    if (!single->on_baseline) return {};
    alone.push_back(&*single);
  }
  if (alone.empty()) return {};
  if (const std::optional<Synergy> of_rounds = synergy_of_rounds(*baseline.measurement, alone, *all_together))
    return of_rounds;
  Estimate product{.value = 1, .interval = Interval{1, 1}};
  for (const RungView* rung : alone) product = times(product, *rung->on_baseline);
  const Estimate& all = *all_together->on_baseline;
  Estimate inverse{.value = 1 / product.value, .interval = {}};
  if (product.interval) inverse.interval = Interval{1 / product.interval->high, 1 / product.interval->low};
  return Synergy{.combined = all, .product = product, .quotient = times(all, inverse)};
}

std::vector<const RungView*> LadderView::all() const {
  std::vector<const RungView*> rungs = {&baseline};
  std::set<const Measurement*> seen = {baseline.measurement};
  for (const std::vector<RungView>* part : {&singles, &cumulative, &others, &peers})
    for (const RungView& rung : *part)
      if (seen.insert(rung.measurement).second) rungs.push_back(&rung);
  return rungs;
}

std::optional<LadderView> ladder_of(const Dataset& dataset, const Scenario& scenario) {
  if (scenario.subject.kind == SubjectKind::kKernel) return {};
  const auto is_baseline = [](const Measurement* m) { return m->is_baseline() && m->timing; };
  const auto baseline = std::ranges::find_if(scenario.run, is_baseline);
  if (baseline == scenario.run.end()) return {};

  LadderView ladder{.scenario = &scenario, .baseline = {}, .singles = {}, .cumulative = {}, .others = {}, .peers = {}};
  const auto make_rung = [&](const Measurement* m) {
    return RungView{.measurement = m,
                    .label = m->shown_name() + unsettled_mark(*m),
                    .added = m->switches(),
                    .on_baseline = dataset.factor(**baseline, *m),
                    .on_previous = {}};
  };
  ladder.baseline = make_rung(*baseline);
  std::vector<const Measurement*> ours;
  for (const Measurement* m : scenario.run) {
    if (m == *baseline || !m->timing) continue;
    if (m->is_peer)
      ladder.peers.push_back(make_rung(m));
    else if (m->result->configuration.baseline_dtype == (*baseline)->result->configuration.baseline_dtype)
      ours.push_back(m);
  }
  if (ours.empty() && ladder.peers.empty()) return {};

  const Measurement* previous = *baseline;
  for (const Measurement* m : longest_chain(ours)) {
    RungView rung = make_rung(m);
    rung.added.erase(rung.added.begin(), rung.added.begin() + std::ssize(previous->switches()));
    rung.label =
        fmt::format("+ {}{}", fmt::join(rung.added, " + "), declined_mark(*m, rung.added) + unsettled_mark(*m));
    rung.on_previous = dataset.factor(*previous, *m);
    ladder.cumulative.push_back(std::move(rung));
    previous = m;
  }
  for (const Measurement* m : ours) {
    if (m->switches().size() == 1)
      ladder.singles.push_back(make_rung(m));
    else if (std::ranges::none_of(ladder.cumulative, [&](const RungView& rung) { return rung.measurement == m; }))
      ladder.others.push_back(make_rung(m));
  }
  return ladder;
}

std::vector<LadderView> ladders_of(const Dataset& dataset) {
  std::vector<LadderView> ladders;
  for (const Scenario& scenario : dataset.scenarios())
    if (std::optional<LadderView> ladder = ladder_of(dataset, scenario)) ladders.push_back(std::move(*ladder));
  return ladders;
}

}  // namespace headroom
