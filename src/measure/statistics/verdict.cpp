#include "measure/statistics/verdict.hpp"

#include "base/error.hpp"

namespace headroom {
namespace {

std::string percent(double fraction) { return fmt::format("{:.1f}%", 100 * fraction); }

/// The distance of a ratio from 1 in words: "7.1% slower".
std::string distance(double ratio) {
  return ratio >= 1 ? fmt::format("{} slower", percent(ratio - 1)) : fmt::format("{} faster", percent(1 - ratio));
}

std::string why_not_compared(const Effect& effect) {
  if (!effect.limit.empty()) return effect.limit;
  if (effect.paired)
    return fmt::format("{} pairs of processes are too few for a 95% interval; {} are the least", effect.base_processes,
                       kFewestForInterval);
  return kOneProcessEach;
}

/// Why a difference is not evidence although its estimate is beyond the threshold.
std::string why_inconclusive(const Effect& effect, double p, const VerdictRule& rule) {
  const Interval& interval = *effect.interval;
  if (finding_of(interval, 1) == Finding::kInconclusive)
    return fmt::format("anything from {} to {} is possible{}", distance(interval.low), distance(interval.high),
                       effect.limit.empty() ? "" : ": " + effect.limit);
  if (p >= rule.alpha) return fmt::format("{}, but p is not below {}", distance(effect.ratio), rule.alpha);
  return fmt::format("{}, which is less than {}, but {} is possible", distance(effect.ratio), percent(rule.threshold),
                     distance(interval.high));
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "OK";
    case Verdict::kImproved:
      return "IMPROVED";
    case Verdict::kRegressed:
      return "REGRESSED";
    case Verdict::kInconclusive:
      return "INCONCLUSIVE";
  }
  return "?";
}

Judged judge_effect(const Effect& effect, double p, const VerdictRule& rule) {
  if (!(rule.threshold > 0)) fail_usage("a threshold of {} was given; it must be over zero", percent(rule.threshold));
  if (!effect.interval) return {Verdict::kInconclusive, why_not_compared(effect)};
  const Interval& interval = *effect.interval;
  const double limit = 1 + rule.threshold;
  const Finding finding = p < rule.alpha ? finding_of(interval, 1) : Finding::kInconclusive;
  if (finding == Finding::kAbove && effect.ratio >= limit)
    return {Verdict::kRegressed, fmt::format("{}, at least {}", distance(effect.ratio), distance(interval.low))};
  if (finding == Finding::kBelow && effect.ratio <= 1 / limit)
    return {Verdict::kImproved, fmt::format("{}, at least {}", distance(effect.ratio), distance(interval.high))};
  if (interval.high < limit)
    return {Verdict::kOk, fmt::format("a slowdown of {} or more is ruled out: at most {}", percent(rule.threshold),
                                      distance(interval.high))};
  return {Verdict::kInconclusive, why_inconclusive(effect, p, rule)};
}

bool is_settled(const Effect& effect, const Judged& judged, const VerdictRule& rule) {
  switch (judged.verdict) {
    case Verdict::kOk:
      return effect.interval->low >= 1 / (1 + rule.threshold);
    case Verdict::kRegressed:
      return effect.interval->low >= 1 + rule.threshold;
    case Verdict::kImproved:
      return effect.interval->high <= 1 / (1 + rule.threshold);
    case Verdict::kInconclusive:
      return false;
  }
  return false;
}

}  // namespace headroom
