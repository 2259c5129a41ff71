#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/results/result.hpp"
#include "measure/statistics/statistics.hpp"

/// The one rule of quality: how much worse an output is than the baseline's, and whether that is allowed. The report's
/// advice, its order of adoption and `--opt auto` all ask it.
namespace headroom {

/// What a measure of quality says of a loss.
enum class LossScale : std::uint8_t {
  kFraction,  ///< a share, of which more is better: the baseline's minus its own
  kRatio,     ///< a ratio, of which less is better: its own minus the baseline's
  kGrowth,    ///< a distance from real images: its growth, as a share of the baseline's
  kDecrease,  ///< a score: its decrease, as a share of the baseline's
  kPsnr,      ///< decibels: the RMS error over the range of values, 10^(-dB/20), as kError
  kError,     ///< an error: itself, minus the baseline's from the same reference
};

/// A measure of quality, as results name it.
struct QualityMetric {
  std::string_view name;   ///< "frechet_distance"
  std::string_view title;  ///< "Fréchet distance"
  std::string_view unit;   ///< "dB", or nothing
  LossScale scale;
  std::string_view difference;  ///< the record of its paired difference, own minus baseline's; or nothing
  std::string_view axis_fn;     ///< of charts
  std::string_view note;        ///< what it is and which end is good
};
[[nodiscard]] std::span<const QualityMetric> quality_metrics();
/// Null for a metric that is not known, of which nobody can say which end is good.
[[nodiscard]] const QualityMetric* find_metric(std::string_view name);
/// The record of a metric, or null.
[[nodiscard]] const QualityRecord* find_quality(std::span<const QualityRecord> records, std::string_view metric);

/// What one measure says: by how much an output is worse than the baseline's, as a fraction; below 0 where it is
/// better.
struct MeasuredLoss {
  const QualityMetric* metric = nullptr;
  double value = 0;
  std::optional<Interval> interval;  ///< 95%; absent where the records have none
  QualityRecord own;
  std::optional<QualityRecord> baseline;  ///< that it is held against; absent where the measure is of both
  bool is_pass = false;                   ///< of one forward pass, and not of what is made

  /// The end of the interval that speaks against the output, and the other; the value where there is no interval.
  [[nodiscard]] double at_worst() const { return interval ? interval->high : value; }
  [[nodiscard]] double at_best() const { return interval ? interval->low : value; }
  /// It compares pictures of the same seeds with the baseline's own, and so says how near they are and not how good.
  [[nodiscard]] bool is_nearness() const;
};

/// A loss for each known measure in `own`, from the records of the baseline where the measure needs them. Of records
/// with a paired difference the interval is that of the difference; of others both intervals are taken to be
/// independent, which is too wide where the images are of the same seeds. Identical images lose nothing.
[[nodiscard]] std::vector<MeasuredLoss> measured_losses(std::span<const QualityRecord> own,
                                                        std::span<const QualityRecord> baseline);

/// What the configuration is, as far as its quality depends on it.
enum class OutputKind : std::uint8_t {
  kSame,       ///< only exact switches: it computes the same, unless a measure says otherwise
  kRounded,    ///< the same computation in other numbers
  kOtherLoop,  ///< other steps, another sampler or a step cache: other pictures, which need not be worse
};
[[nodiscard]] OutputKind output_kind_of(const Configuration& configuration);
/// Whether a switch, as it was applied, leaves the output mathematically the same. So does a preset of such switches.
[[nodiscard]] bool is_exact_switch(const std::string& applied);

enum class LossVerdict : std::uint8_t { kWithin, kUnresolved, kBeyond };

/// The loss of a configuration.
struct QualityLoss {
  LossVerdict verdict = LossVerdict::kWithin;
  double at_worst = 0;                ///< 0 where nothing is lost by definition
  std::optional<MeasuredLoss> worst;  ///< the measure that decides; nothing where none has to
};

/// The worst of all measures, each at the end of its interval that speaks against the output. It is within the limit
/// where that end is, beyond it where even the other end is over, and else not resolved. Exact switches lose nothing
/// unless a measure is beyond. Of another loop, nearness counts only where no other measure says how good its pictures
/// are. Nothing where nothing was measured.
[[nodiscard]] std::optional<QualityLoss> assess_quality(std::span<const MeasuredLoss> measures, OutputKind kind,
                                                        double most);

/// How many images would resolve a loss that is not resolved, by what its interval was of so many; nothing where the
/// value itself is over the limit, or it has no interval.
[[nodiscard]] std::optional<std::int64_t> images_to_resolve(const MeasuredLoss& loss, double most);
/// The number of images that a record says it is of ("labels of 500 images"); nothing where it says none.
[[nodiscard]] std::optional<std::int64_t> images_of(const QualityRecord& record);

/// Whether the 95% interval of a factor holds 1; not where there is none.
[[nodiscard]] bool are_equal_in_time(const std::optional<Estimate>& factor);
/// Whether one of two configurations that are equal in time is the better in quality: by more than a tenth of what may
/// be lost.
[[nodiscard]] bool is_better_in_quality(double loss, double than, double most);

}  // namespace headroom
