#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/gates/quantities.hpp"
#include "measure/results/result.hpp"
#include "measure/statistics/effect.hpp"
#include "measure/statistics/verdict.hpp"

namespace headroom {

/// A quantity of one benchmark other than its time, in two builds.
struct ComparedQuantity {
  Quantity quantity = Quantity::kMemory;
  std::string against = {};         ///< for a quality, its reference
  std::optional<double> base = {};  ///< ms, bytes, dB, a share or a plain number; absent if it was not measured
  std::optional<double> changed = {};
  std::optional<double> change = {};      ///< new / base, or new - base where QuantityInfo::is_difference
  std::optional<Interval> interval = {};  ///< 95%, of the change; absent if it is exact or unknown
  std::optional<double> p = {};           ///< if there is an interval; adjusted over all benchmarks (Holm)
  std::optional<Effect> effect = {};      ///< for a p99
  bool counts = true;                     ///< whether INCONCLUSIVE stops the gate
  std::string limit = {};  ///< why nothing is compared, or what the interval leaves out; one clause, or empty
  Judged judged = {};

  /// Whether both sides are known to be the same.
  [[nodiscard]] bool is_equal() const { return base && changed && *base == *changed && !effect && !interval; }
};

/// "peak memory", or for a quality with its reference: "PSNR (the teacher's pictures)".
[[nodiscard]] std::string words_of(const ComparedQuantity& one);
/// The change as text: "1.200", "-1.00 dB"; "-" if there is none.
[[nodiscard]] std::string change_text(const ComparedQuantity& one);
[[nodiscard]] std::string interval_text(const ComparedQuantity& one);

/// Memory, size and qualities that either result has or `limits` ask for, not judged yet. Bytes compare exactly.
/// Qualities compare by metric and reference: with the stored intervals, assumed independent, or exactly if both
/// values are identical. A side without an interval is taken as exact, and `limit` says so. Unknown metrics are
/// listed in `notes`.
[[nodiscard]] std::vector<ComparedQuantity> compare_quantities(const Result& base, const Result& changed,
                                                               const Limits& limits, std::vector<std::string>& notes);

/// The p99 of the series whose medians have the effect `of_median`. It counts only if `limits` ask for it, because
/// tails need many trials.
[[nodiscard]] ComparedQuantity compare_p99(const ProcessTrials& base, const ProcessTrials& changed,
                                           const Effect& of_median, const Limits& limits);

/// Like judge_effect(), with the quantity's own limit and direction. REGRESSED and IMPROVED require p below `alpha`
/// if there is a p.
[[nodiscard]] Judged judge_quantity(const ComparedQuantity& one, const Limits& limits, double alpha);

/// Whether more processes are unlikely to change the verdict, like is_settled() of an effect; always true for exact
/// quantities.
[[nodiscard]] bool is_settled(const ComparedQuantity& one, const Limits& limits, double alpha);

}  // namespace headroom
