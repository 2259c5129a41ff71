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

/// A classifier's judgement of a set of images.
struct Judgement {
  Estimate accuracy;      ///< share of images classified as the requested label
  FrechetSample frechet;  ///< of the features, relative to those of the reference images; biased upwards for few images
  std::vector<bool> is_right = {};  ///< by image: whether it is classified as the requested label
};

/// Judges pixels [n, channels, height, width] f32; `labels` holds the requested label of each image.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const HostTensor& pixels,
                              std::span<const std::int64_t> labels);

/// Requests for `count` pictures from number `first` on. Number i takes prompt i of `prompts`, used cyclically, or of
/// the pipeline's own prompts if it is empty, and seed `seed` + i.
[[nodiscard]] std::vector<ImageRequest> picture_requests(const Pipeline& pipeline, std::span<const std::string> prompts,
                                                         std::int64_t first, std::int64_t count, std::uint64_t seed);

/// Receives each generation: its requests, and its pixels [n, channels, height, width] f32 in [-1, 1], unclamped.
using PictureObserver = std::function<void(std::span<const ImageRequest> requests, const HostTensor& pixels)>;
/// Makes at least `count` pictures in whole generations, by picture_requests(). `on_step` runs after each denoise
/// step.
void make_pictures(const Pipeline& pipeline, Generator& generator, std::span<const std::string> prompts,
                   std::int64_t count, std::uint64_t seed, const PictureObserver& on_pictures,
                   const IterationObserver& on_step = {});
/// Joins batches of pictures of one size into one.
[[nodiscard]] HostTensor join_pictures(std::span<const HostTensor> batches);

/// Makes at least `count` images of the pipeline's own prompts, by make_pictures(), and judges them.
[[nodiscard]] Judgement judge(ClassifierJudge& classifier, const Pipeline& pipeline, Generator& generator,
                              std::int64_t count, std::uint64_t seed, const IterationObserver& observer = {});

/// `accuracy` and `frechet_distance`. If there is a `base` of the same prompts and seeds, also `accuracy_difference`
/// and `frechet_difference`, in which the common part of both cancels. Throws Error if their numbers of images
/// differ.
[[nodiscard]] std::vector<QualityRecord> quality_records(const Judgement& judged, const Judgement* base);

}  // namespace headroom
