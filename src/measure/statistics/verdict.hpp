#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "measure/statistics/effect.hpp"

namespace headroom {

enum class Verdict : std::uint8_t { kOk, kImproved, kRegressed, kInconclusive };
/// "OK", "IMPROVED", "REGRESSED", "INCONCLUSIVE".
[[nodiscard]] std::string_view name_of(Verdict verdict);

/// The size and the evidence that make a difference a regression.
struct VerdictRule {
  double threshold = 0.05;  ///< the least slowdown, as a fraction, that counts as a regression
  double alpha = 0.05;      ///< the largest p that counts as evidence
};

/// A verdict and the reason for it, one clause without a full stop.
struct Judged {
  Verdict verdict = Verdict::kInconclusive;
  std::string why;
};

/// REGRESSED if the interval lies above 1, p is below alpha and the ratio is at least 1 + threshold; IMPROVED if the
/// same holds for the inverse. Otherwise OK if the interval rules out a regression: its high end lies below 1 +
/// threshold. All other cases are INCONCLUSIVE. `p` is that of the effect, adjusted for the number of benchmarks.
/// Throws a usage Error for a threshold that is not positive.
[[nodiscard]] Judged judge_effect(const Effect& effect, double p, const VerdictRule& rule = {});

/// Whether more processes are unlikely to change the verdict: it is OK and the interval also rules out an
/// improvement, or it is a difference with the whole interval beyond the threshold. A REGRESSED or IMPROVED whose
/// interval reaches closer to 1 is worth confirming. With twice the pairs, a slowdown of 2% is mistaken for one of 5%
/// about ten times less often.
[[nodiscard]] bool is_settled(const Effect& effect, const Judged& judged, const VerdictRule& rule = {});

}  // namespace headroom
