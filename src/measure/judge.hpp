#pragma once

#include <cstdint>
#include <span>

#include "base/host_tensor.hpp"
#include "measure/quality.hpp"
#include "pipelines/classifier_judge.hpp"

namespace headroom {

/// What a classifier makes of a set of images.
struct Judgement {
  Estimate accuracy;      ///< how often the label asked for is the one seen
  FrechetSample frechet;  ///< of the features, from those of the reference images; biased upwards for few images
};

/// Judges pixels [n, channels, height, width] f32, of which `labels` holds what each should be.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const HostTensor& pixels,
                              std::span<const std::int64_t> labels);

}  // namespace headroom
