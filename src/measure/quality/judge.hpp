#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "measure/quality/quality.hpp"
#include "measure/results/result.hpp"
#include "pipelines/generator.hpp"
#include "pipelines/stages/classifier_judge.hpp"

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

/// `count` pictures from number `first` on: number i takes prompt i of `prompts`, again from the first when they run
/// out, or of the pipeline's own where there are none, and seed `seed` + i.
[[nodiscard]] std::vector<ImageRequest> picture_requests(const Pipeline& pipeline, std::span<const std::string> prompts,
                                                         std::int64_t first, std::int64_t count, std::uint64_t seed);

/// Told of each generation: what was asked for, and its pixels [n, channels, height, width] f32 in [-1, 1], unclamped.
using PictureObserver = std::function<void(std::span<const ImageRequest> requests, const HostTensor& pixels)>;
/// Makes at least `count` pictures in whole generations, by picture_requests(). `on_step` runs after each denoise step.
void make_pictures(const Pipeline& pipeline, Generator& generator, std::span<const std::string> prompts,
                   std::int64_t count, std::uint64_t seed, const PictureObserver& on_pictures,
                   const IterationObserver& on_step = {});
/// Several batches of pictures of one size as one.
[[nodiscard]] HostTensor join_pictures(std::span<const HostTensor> batches);

/// Makes at least `count` images of the pipeline's own prompts, by make_pictures(), and judges them.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const Pipeline& pipeline, Generator& generator,
                              std::int64_t count, std::uint64_t seed, const IterationObserver& observer = {});

/// `accuracy` and `frechet_distance`, and against a `base` of the same prompts and seeds, where there is one, also
/// `accuracy_difference` and `frechet_difference`: what both have in common cancels. Throws Error where their numbers
/// of images differ.
[[nodiscard]] std::vector<QualityRecord> quality_records(const Judgement& judged, const Judgement* base);

}  // namespace headroom
