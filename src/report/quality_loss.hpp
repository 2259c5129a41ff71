#pragma once

#include <optional>
#include <string>

#include "report/dataset.hpp"

namespace headroom {

/// How much worse a configuration's output is than the baseline's, as a fraction.
struct QualityLoss {
  double value = 0;   ///< 0 for none; below 0 where it scored better
  std::string basis;  ///< what it was told from: "accuracy 0.978 against 0.978 of the baseline"
};

/// The loss of `m` against `baseline`, from the first of these that the results have:
/// - accuracy: the baseline's minus its own;
/// - relative_l2: itself;
/// - psnr_db: the root mean square error over the range of values, 10^(-PSNR/20); 0 where images are identical;
/// - nothing but exact switches applied: 0, because they compute the same.
/// Nothing where none of them is there, so that no claim can be made.
[[nodiscard]] std::optional<QualityLoss> quality_loss(const Measurement& m, const Measurement& baseline);

/// The record of a metric, or null.
[[nodiscard]] const QualityRecord* find_quality(const Result& result, std::string_view metric);

}  // namespace headroom
