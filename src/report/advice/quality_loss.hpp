#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/quality/quality_loss.hpp"
#include "report/dataset.hpp"

namespace headroom {

/// The formatted value of a record: "97.8%", "45.1 dB", "identical".
[[nodiscard]] std::string quality_value(const QualityRecord& record);
/// The value after the metric's title, or after its name if the metric is unknown, and too_few_images(): "accuracy
/// 97.8%".
[[nodiscard]] std::string quality_text(const QualityRecord& record);

/// The record of a metric, or null.
[[nodiscard]] const QualityRecord* find_quality(const Result& result, std::string_view metric);
/// The same. A result without the record takes it from the latest other measurement of the same configuration,
/// since the same images need not be judged again.
[[nodiscard]] const QualityRecord* find_quality(const Scenario& scenario, const Measurement& m,
                                                std::string_view metric);

/// Adds a note to a chart of a metric if any of its measurements was judged on too_few_images().
void note_few_images(std::vector<std::string>& notes, std::span<const Measurement* const> shown,
                     std::string_view metric);

/// The switches of a configuration that are not exact, in alphabetical order.
[[nodiscard]] std::vector<std::string> lossy_switches(const Configuration& configuration);

/// Every known measure of a measurement against its baseline. Each measure comes from the first of these sources
/// that has it:
/// - its own records, the latest of the same configuration, and those of the same work in another number of images;
/// - the error of a pass of the same network at the same size on the same hardware under the same lossy switches,
/// less the baseline's own error;
/// - the error that `auto` measured when it chose the configuration.
/// The baseline is that of the same file, else the latest. Without a baseline it is a configuration of exact
/// switches.
[[nodiscard]] std::vector<MeasuredLoss> measures_of(const Dataset& dataset, const Scenario& scenario,
                                                    const Measurement& m);

/// The value of the loss's metric at which `most` is lost. Nothing if only images identical to the baseline's lose no
/// more than that.
[[nodiscard]] std::optional<double> value_at_loss(const MeasuredLoss& loss, double most);

/// The quality loss of a configuration against the baseline by assess_quality(), and in words.
struct KnownLoss : QualityLoss {
  std::string basis;  ///< the compared values: "accuracy 97.1% against 97.8% of the baseline"
  std::string
      limit;  ///< what would just be allowed, in the same measure: "at least 96.8%"; empty where nothing is lost
  std::string needed;  ///< what would resolve an unresolved loss, such as "judge 1,700 images"
};
/// Empty if nothing was measured. `most` is the largest loss allowed.
[[nodiscard]] std::optional<KnownLoss> quality_loss(const Dataset& dataset, const Scenario& scenario,
                                                    const Measurement& m, double most);

}  // namespace headroom
