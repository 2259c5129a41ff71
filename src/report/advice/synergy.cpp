#include "report/advice/synergy.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "measure/protocol/ladder_rounds.hpp"

namespace headroom {
namespace {

bool has_rounds(const Measurement& m) {
  const TrialSeries* const series = find_series(*m.result, m.time().series);
  return series != nullptr && !series->round.empty();
}

/// Over rounds, so that a baseline's time counts equally often in each factor. Empty if a rung shares no round with
/// the baseline.
std::optional<Estimate> quotient_of_rounds(const Measurement& base, const Measurement& alone, const Measurement& before,
                                           const Measurement& together) {
  if (base.time().series != "step") return {};
  const std::vector<Visit> visits = visits_of(*base.result);
  const auto rounds_of = [&](const Measurement& m) { return pair_rounds(visits, visits_of(*m.result)).all; };
  const RoundLogs of_together = rounds_of(together), of_before = rounds_of(before), of_alone = rounds_of(alone);
  if (of_together.empty() || of_before.empty() || of_alone.empty()) return {};
  const Factor factor = factor_of(std::array<Term, 3>{{{&of_together, 1}, {&of_before, -1}, {&of_alone, -1}}});
  return Estimate{.value = factor.value, .interval = factor.interval};
}

Estimate quotient_of_medians(const Measurement& base, const Measurement& alone, const Measurement& before,
                             const Measurement& together) {
  const auto median_of = [](const Measurement& m) { return m.time().median_ms; };
  Estimate quotient{.value = median_of(before) * median_of(alone) / (median_of(base) * median_of(together)),
                    .interval = {}};
  const std::array<const Measurement*, 4> all = {&before, &alone, &base, &together};
  if (!std::ranges::all_of(all, [](const Measurement* m) { return why_no_factor_interval(*m->result).empty(); }))
    return quotient;
  double down = 0, up = 0;  // as ratio_of() combines independent errors
  const auto add = [&](const Measurement& m, bool is_divisor) {
    const Interval& interval = *m.time().interval_ms;
    const double below = std::log(median_of(m) / interval.low), above = std::log(interval.high / median_of(m));
    down = std::hypot(down, is_divisor ? above : below);
    up = std::hypot(up, is_divisor ? below : above);
  };
  for (const Measurement* m : {&before, &alone}) add(*m, /*is_divisor=*/false);
  for (const Measurement* m : {&base, &together}) add(*m, /*is_divisor=*/true);
  quotient.interval = Interval{quotient.value * std::exp(-down), quotient.value * std::exp(up)};
  return quotient;
}

bool is_usable(const RungView& rung) {
  const Measurement& m = *rung.measurement;
  return !m.is_peer && m.timing && !rung.is_unsettled() && !m.result->same_as &&
         std::ranges::all_of(m.time().trials_ms, [](double ms) { return ms > 0; });
}

/// Switches that were on; declined ones change nothing.
std::set<std::string> switches_on(const RungView& rung) {
  std::set<std::string> on(rung.measurement->switches().begin(), rung.measurement->switches().end());
  std::erase_if(on, [&](const std::string& name) { return rung.measurement->declined(name); });
  return on;
}

/// The first switch that was on, in pipeline order; empty where none was.
std::string first_on(const RungView& rung) {
  for (const std::string& name : rung.measurement->switches())
    if (!rung.measurement->declined(name)) return name;
  return {};
}

}  // namespace

std::vector<Interaction> interactions_of(const LadderView& ladder) {
  const Measurement& base = *ladder.baseline.measurement;
  if (!is_usable(ladder.baseline)) return {};
  std::vector<const RungView*> rungs = ladder.all();
  std::erase_if(rungs, [](const RungView* rung) { return !is_usable(*rung); });
  std::vector<Interaction> found;
  for (const RungView* together : rungs) {
    const std::set<std::string> all = switches_on(*together);
    if (all.size() < 2) continue;
    for (const RungView* alone : rungs) {
      const std::set<std::string> one = switches_on(*alone);
      std::set<std::string> rest = all;
      if (one.size() != 1 || rest.erase(*one.begin()) == 0) continue;
      const auto before = std::ranges::find_if(rungs, [&](const RungView* rung) { return switches_on(*rung) == rest; });
      if (before == rungs.end()) continue;
      if (rest.size() == 1 && *one.begin() == first_on(*together))
        continue;                                           // a pair is one interaction, that of the later switch
      const auto is_same = [&](const Interaction& other) {  // if the last switch of a longer rung declined
        return switches_on(*other.alone) == one && switches_on(*other.together) == all;
      };
      if (std::ranges::any_of(found, is_same)) continue;
      const Measurement &a = *alone->measurement, &b = *(*before)->measurement, &ab = *together->measurement;
      const bool by_rounds = has_rounds(base) && has_rounds(a) && has_rounds(b) && has_rounds(ab);
      std::optional<Estimate> quotient = by_rounds ? quotient_of_rounds(base, a, b, ab) : std::nullopt;
      if (!quotient) quotient = quotient_of_medians(base, a, b, ab);
      found.push_back({.alone = alone,
                       .before = *before,
                       .together = together,
                       .is_pair = rest.size() == 1,
                       .quotient = *quotient});
    }
  }
  return found;
}

}  // namespace headroom
