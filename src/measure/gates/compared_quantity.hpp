#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/gates/quantities.hpp"
#include "measure/results/result.hpp"
#include "measure/statistics/effect.hpp"
#include "measure/statistics/verdict.hpp"

namespace headroom {

/// A quantity of one benchmark besides its time, in two builds.
struct ComparedQuantity {
  Quantity quantity = Quantity::kMemory;
  std::string against = {};         ///< of a quality, what it is measured against
  std::optional<double> base = {};  ///< ms, bytes, dB, a share or a plain number; absent where it was not measured
  std::optional<double> changed = {};
  std::optional<double> change = {};      ///< new / base, or new - base where QuantityInfo::is_difference
  std::optional<Interval> interval = {};  ///< 95%, of the change; absent where it is exact or not known
  std::optional<double> p = {};           ///< of what has an interval; adjusted with those of all benchmarks (Holm)
  std::optional<Effect> effect = {};      ///< of a p99
  bool counts = true;                     ///< INCONCLUSIVE is a reason to stop
  std::string limit = {};  ///< why nothing is compared, or what the interval leaves out; one clause, or empty
  Judged judged = {};

  /// Known to be the same on both sides.
  [[nodiscard]] bool is_equal() const { return base && changed && *base == *changed && !effect && !interval; }
};

/// "peak memory", or of a quality with its reference: "PSNR (the teacher's pictures)".
[[nodiscard]] std::string words_of(const ComparedQuantity& one);
/// The change as text: "1.200", "-1.00 dB"; "-" where there is none.
[[nodiscard]] std::string change_text(const ComparedQuantity& one);
[[nodiscard]] std::string interval_text(const ComparedQuantity& one);

/// Memory, size and qualities that either result has, or that `limits` ask for, not judged yet. Bytes compare exactly.
/// Qualities compare by metric and reference: with the intervals that the files have, taken for independent, or exactly
/// where both are the same to the last digit; a side without an interval is taken as exact, and `limit` says so.
/// Metrics that are not known are named in `notes`.
[[nodiscard]] std::vector<ComparedQuantity> compare_quantities(const Result& base, const Result& changed,
                                                               const Limits& limits, std::vector<std::string>& notes);

/// The p99 of series of which `of_median` is the effect. It counts only where `limits` ask for it: tails need many
/// trials.
[[nodiscard]] ComparedQuantity compare_p99(const ProcessTrials& base, const ProcessTrials& changed,
                                           const Effect& of_median, const Limits& limits);

/// As judge_effect(), with the quantity's own limit and direction. REGRESSED and IMPROVED take p below `alpha` where
/// there is a p.
[[nodiscard]] Judged judge_quantity(const ComparedQuantity& one, const Limits& limits, double alpha);

/// Whether more processes cannot be expected to change the verdict, as is_settled() of an effect; of what is exact
/// always.
[[nodiscard]] bool is_settled(const ComparedQuantity& one, const Limits& limits, double alpha);

}  // namespace headroom
