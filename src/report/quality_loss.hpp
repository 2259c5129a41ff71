#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// A measure of quality, as results name it, and how it is told.
struct QualityMetric {
  std::string_view name;   ///< "psnr_db"
  std::string_view title;  ///< "PSNR"
  std::string_view unit;
  std::string_view axis_fn;
  std::string_view note;  ///< what it is and which end is good
};
[[nodiscard]] std::span<const QualityMetric> quality_metrics();
/// The value of a record: "97.8%", "45.1 dB", "identical".
[[nodiscard]] std::string quality_value(const QualityRecord& record);
/// With the metric's title: "accuracy 97.8%".
[[nodiscard]] std::string quality_text(const QualityRecord& record);

/// The record of a metric, or null.
[[nodiscard]] const QualityRecord* find_quality(const Result& result, std::string_view metric);
/// The same, where the result has none that of the latest other measurement of the same configuration: whoever makes the
/// same images need not have them judged again.
[[nodiscard]] const QualityRecord* find_quality(const Scenario& scenario, const Measurement& m,
                                                std::string_view metric);

/// Whether a switch, as it was applied, leaves the output mathematically the same. So does a preset of such switches.
[[nodiscard]] bool is_exact_switch(const std::string& applied);
/// Those of a configuration that do not, in order of the alphabet.
[[nodiscard]] std::vector<std::string> lossy_switches(const Configuration& configuration);

/// How far one forward pass is from a reference, for a configuration and for the baseline.
struct PassError {
  const QualityRecord* own = nullptr;
  const QualityRecord* baseline = nullptr;
  [[nodiscard]] std::string text() const;  ///< "relative L2 error 0.088 of a forward pass, 0.017 of the baseline"
};
/// That of a forward pass of the same network on as many tokens and the same hardware, under the same lossy switches, which its
/// error depends on. Nothing where none was measured, or none of the baseline in the same file.
[[nodiscard]] std::optional<PassError> find_pass_error(const Dataset& dataset, const Scenario& scenario,
                                                       const Measurement& m);

/// How much worse a configuration's output is than the baseline's, as a fraction.
struct QualityLoss {
  double value = 0;   ///< 0 for none; below 0 where it scored better
  std::string basis;  ///< what it was told from: "accuracy 97.1% against 97.8% of the baseline"
  std::string
      limit;  ///< what would just be allowed, in the same measure: "at least 96.8%"; empty where nothing is lost
};

/// The loss of `m` against `baseline`, where there is one, from the first of these that the results have:
/// - accuracy: the baseline's minus its own;
/// - relative_l2: itself;
/// - psnr_db: the root mean square error over the range of values, 10^(-PSNR/20); 0 where images are identical;
/// - nothing but exact switches applied: 0, because they compute the same;
/// - the error of a forward pass: its own minus the baseline's, which is what rounding does anyway.
/// Nothing where none of them is there, so that no claim can be made. `most` is what may be lost.
[[nodiscard]] std::optional<QualityLoss> quality_loss(const Dataset& dataset, const Scenario& scenario,
                                                      const Measurement& m, const Measurement* baseline, double most);

}  // namespace headroom
