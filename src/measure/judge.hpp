#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/host_tensor.hpp"
#include "measure/quality.hpp"
#include "measure/result.hpp"
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

/// Makes at least `count` images in whole generations and judges them: number i takes the pipeline's prompt i, round
/// and round, and seed `seed` + i.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const Pipeline& pipeline, Generator& generator,
                              std::int64_t count, std::uint64_t seed, const IterationObserver& observer = {});

/// `accuracy` and `frechet_distance`, and against a `base` of the same prompts and seeds, where there is one, also
/// `accuracy_difference` and `frechet_difference`: what both have in common cancels. Throws Error where their numbers
/// of images differ.
[[nodiscard]] std::vector<QualityRecord> quality_records(const Judgement& judged, const Judgement* base);

}  // namespace headroom
