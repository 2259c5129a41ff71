#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/host_tensor.hpp"
#include "measure/quality.hpp"
#include "pipelines/classifier_judge.hpp"
#include "pipelines/generator.hpp"

namespace headroom {

/// What a classifier makes of a set of images.
struct Judgement {
  Estimate accuracy;      ///< how often the label asked for is the one seen
  FrechetSample frechet;  ///< of the features, from those of the reference images; biased upwards for few images
  std::vector<bool> is_right = {};  ///< by image: the label asked for is the one seen
};

/// Judges pixels [n, channels, height, width] f32, of which `labels` holds what each should be.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const HostTensor& pixels,
                              std::span<const std::int64_t> labels);

/// Makes at least `count` images in whole generations and judges them: number i takes the pipeline's prompt i, round and round, and
/// seed `seed` + i.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const Pipeline& pipeline, Generator& generator,
                              std::int64_t count, std::uint64_t seed, const IterationObserver& observer = {});

/// How much worse images are than `base`, of the same prompts and seeds: the larger of the share of them whose label is lost and
/// the share by which the Frechet distance grows, each at the upper end of its 95% interval; below 0 where they are better. Throws
/// Error where their numbers differ.
struct QualityLoss {
  double value = 0;
  std::string what;  ///< which of the two it is, in words
};
[[nodiscard]] QualityLoss quality_loss(const Judgement& base, const Judgement& changed);

}  // namespace headroom
