#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/quality/quality_loss.hpp"
#include "report/dataset.hpp"

namespace headroom {

/// The value of a record: "97.8%", "45.1 dB", "identical".
[[nodiscard]] std::string quality_value(const QualityRecord& record);
/// With the metric's title, or its name where it is not known: "accuracy 97.8%".
[[nodiscard]] std::string quality_text(const QualityRecord& record);

/// The record of a metric, or null.
[[nodiscard]] const QualityRecord* find_quality(const Result& result, std::string_view metric);
/// The same, where the result has none that of the latest other measurement of the same configuration: whoever makes
/// the same images need not have them judged again.
[[nodiscard]] const QualityRecord* find_quality(const Scenario& scenario, const Measurement& m,
                                                std::string_view metric);

/// The switches of a configuration that are not exact, in order of the alphabet.
[[nodiscard]] std::vector<std::string> lossy_switches(const Configuration& configuration);

/// Every known measure of a measurement against its baseline, each from the first of these that has it:
/// - its own records, the latest of the same configuration, and those of the same work in another number of images;
/// - the error of a pass of the same network at the same size on the same hardware under the same lossy switches, from
///   which the baseline's own error is subtracted;
/// - what `auto` measured when it chose the configuration.
/// The baseline is that of the same file, else the latest; where none was measured, a configuration of exact switches.
[[nodiscard]] std::vector<MeasuredLoss> measures_of(const Dataset& dataset, const Scenario& scenario,
                                                    const Measurement& m);

/// How much worse a configuration's output is than the baseline's, by assess_quality(), and in words.
struct KnownLoss : QualityLoss {
  std::string basis;  ///< what it was told from: "accuracy 97.1% against 97.8% of the baseline"
  std::string
      limit;  ///< what would just be allowed, in the same measure: "at least 96.8%"; empty where nothing is lost
  std::string needed;  ///< where it is not resolved: what would resolve it, such as "judge 1,700 images"
};
/// Nothing where nothing was measured. `most` is what may be lost.
[[nodiscard]] std::optional<KnownLoss> quality_loss(const Dataset& dataset, const Scenario& scenario,
                                                    const Measurement& m, double most);

}  // namespace headroom
