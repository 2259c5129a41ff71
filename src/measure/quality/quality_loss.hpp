#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"

/// Defines how much worse an output is than the baseline's, and whether that is allowed. The report's advice, its
/// order of adoption and `--opt auto` all use this definition.
namespace headroom {

/// How a metric's values are converted to a loss.
enum class LossScale : std::uint8_t {
  kFraction,  ///< a share, higher is better: the baseline's minus its own
  kRatio,     ///< a ratio, lower is better: its own minus the baseline's
  kGrowth,    ///< a distance from real images: its growth, as a share of the baseline's
  kDecrease,  ///< a score: its decrease, as a share of the baseline's
  kPsnr,      ///< decibels: the RMS error over the range of values, 10^(-dB/20), as kError
  kError,     ///< an error: its own minus the baseline's from the same reference
};

/// A metric of quality, as named in results.
struct QualityMetric {
  std::string_view name;   ///< "frechet_distance"
  std::string_view title;  ///< "Fréchet distance"
  std::string_view unit;   ///< "dB", or empty
  LossScale scale;
  std::string_view difference;  ///< the record of its paired difference, own minus baseline's; or empty
  std::string_view axis_fn;     ///< of charts
  std::string_view note;        ///< what it measures and whether high or low values are good
};
[[nodiscard]] std::span<const QualityMetric> quality_metrics();
/// Null for an unknown metric, for which it is not known whether high or low values are good.
[[nodiscard]] const QualityMetric* find_metric(std::string_view name);
/// The record of a metric, or null.
[[nodiscard]] const QualityRecord* find_quality(std::span<const QualityRecord> records, std::string_view metric);

/// Fewer images than this settle no metric of a whole set of images: a share, a distance between sets, or a score.
inline constexpr std::int64_t kFewestImages = 50;
/// Why a record settles nothing, one clause: "20 images say little of the accuracy, judge at least 50". Empty if there
/// are enough, if the record does not state their number, or if the metric compares images one by one.
[[nodiscard]] std::string too_few_images(const QualityRecord& record);

/// A loss in the unit of its metric, from one end to the other: "-1.8 to 1.8 percentage points of accuracy lost",
/// "Fréchet distance grown by 5% to 9% of the baseline's".
[[nodiscard]] std::string loss_text(const QualityMetric& metric, const Interval& loss);
/// The same for a limit: "at most 1 percentage point of accuracy lost".
[[nodiscard]] std::string loss_limit_text(const QualityMetric& metric, double most);

/// The loss by one metric: by how much an output is worse than the baseline's, as a fraction; below 0 if it is
/// better.
struct MeasuredLoss {
  const QualityMetric* metric = nullptr;
  double value = 0;
  std::optional<Interval> interval;  ///< 95%; absent if the records have none
  QualityRecord own;
  std::optional<QualityRecord> baseline;  ///< the baseline's record that it is compared with; absent if the metric
                                          ///< itself compares both
  bool is_pass = false;                   ///< of one forward pass, rather than of a finished output

  /// The unfavourable end of the interval, and the favourable one; the value if there is no interval.
  [[nodiscard]] double at_worst() const { return interval ? interval->high : value; }
  [[nodiscard]] double at_best() const { return interval ? interval->low : value; }
  /// Whether the metric compares pictures of the same seeds with the baseline's own. It then measures closeness to
  /// them, not how good they are.
  [[nodiscard]] bool is_nearness() const;
};

/// A loss for each known metric in `own`, using the records of the baseline for metrics that need them. If a paired
/// difference is recorded, the interval is that of the difference. Otherwise both intervals are assumed independent,
/// which is too wide for images of the same seeds. Identical images have no loss.
[[nodiscard]] std::vector<MeasuredLoss> measured_losses(std::span<const QualityRecord> own,
                                                        std::span<const QualityRecord> baseline);

/// The kind of a configuration's output, as far as quality depends on it.
enum class OutputKind : std::uint8_t {
  kSame,       ///< exact switches only: mathematically the same output, unless a metric shows otherwise
  kRounded,    ///< the same computation in other number formats
  kOtherLoop,  ///< other steps, another sampler or a step cache: other pictures, which need not be worse
};
[[nodiscard]] OutputKind output_kind_of(const Configuration& configuration);
/// Whether a switch, as it was applied, leaves the output mathematically the same. A preset of such switches does
/// too.
[[nodiscard]] bool is_exact_switch(const std::string& applied);

enum class LossVerdict : std::uint8_t { kWithin, kUnresolved, kBeyond };

/// The quality loss of a configuration.
struct QualityLoss {
  LossVerdict verdict = LossVerdict::kWithin;
  double at_worst = 0;                ///< 0 if nothing is lost by definition
  std::optional<MeasuredLoss> worst;  ///< the metric that decides; absent if none is needed
};

/// The worst loss over all metrics, each at the unfavourable end of its interval. The loss is within the limit if
/// that end is and not too_few_images(), beyond it if even the other end is over the limit, and otherwise unresolved.
/// Exact switches have no loss unless a metric is beyond the limit. For another loop, closeness counts only if no
/// other metric measures how good its pictures are. Nothing if nothing was measured.
[[nodiscard]] std::optional<QualityLoss> assess_quality(std::span<const MeasuredLoss> measures, OutputKind kind,
                                                        double most);

/// How many images would resolve an unresolved loss, extrapolated from its interval and number of images, at least
/// kFewestImages. Nothing if the value itself is over the limit, or has no interval although it is of enough images.
[[nodiscard]] std::optional<std::int64_t> images_to_resolve(const MeasuredLoss& loss, double most);
/// The number of images stated in a record ("labels of 500 images"); nothing if it states none.
[[nodiscard]] std::optional<std::int64_t> images_of(const QualityRecord& record);

/// Whether the 95% interval of a factor contains 1; false without an interval.
[[nodiscard]] bool are_equal_in_time(const std::optional<Estimate>& factor);
/// For two configurations of equal time: whether the first has better quality, by more than a tenth of the allowed
/// loss.
[[nodiscard]] bool is_better_in_quality(double loss, double than, double most);

}  // namespace headroom
