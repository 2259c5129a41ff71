#include "measure/quality/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/error.hpp"
#include "base/text/format.hpp"

namespace headroom {

Judgement judge(ClassifierJudge& classifier, const HostTensor& pixels, std::span<const std::int64_t> labels) {
  const SeenImages seen = classifier.look_at(pixels);
  HR_CHECK_EQ(seen.labels.size(), labels.size());
  std::vector<bool> is_right(labels.size());
  std::transform(labels.begin(), labels.end(), seen.labels.begin(), is_right.begin(), std::equal_to<>());
  return {.accuracy = accuracy(std::ranges::count(is_right, true), std::ssize(labels)),
          .frechet = sample_frechet(seen.features, classifier.reference_mean(), classifier.reference_covariance()),
          .is_right = std::move(is_right)};
}

std::vector<ImageRequest> picture_requests(const Pipeline& pipeline, std::span<const std::string> prompts,
                                           std::int64_t first, std::int64_t count, std::uint64_t seed) {
  std::vector<ImageRequest> requests = make_image_requests(pipeline, first, count, seed);
  if (prompts.empty()) return requests;
  for (std::int64_t i = 0; i < count; ++i) {
    ImageRequest& request = requests[static_cast<std::size_t>(i)];
    request.label = 0;
    request.prompt = prompts[static_cast<std::size_t>((first + i) % std::ssize(prompts))];
  }
  return requests;
}

void make_pictures(const Pipeline& pipeline, Generator& generator, std::span<const std::string> prompts,
                   std::int64_t count, std::uint64_t seed, const PictureObserver& on_pictures,
                   const IterationObserver& on_step) {
  const std::int64_t batch = generator.request().images;
  for (std::int64_t first = 0; first < count; first += batch) {
    const std::vector<ImageRequest> requests = picture_requests(pipeline, prompts, first, batch, seed);
    on_pictures(requests, generator.decode(generator.generate(requests, on_step)));
  }
}

HostTensor join_pictures(std::span<const HostTensor> batches) {
  HR_CHECK(!batches.empty());
  const Shape& shape = batches.front().shape();
  std::int64_t count = 0;
  for (const HostTensor& batch : batches) count += batch.shape()[0];
  HostTensor joined(DType::kF32, {count, shape[1], shape[2], shape[3]});
  auto end = joined.as<float>().begin();
  for (const HostTensor& batch : batches) end = std::ranges::copy(batch.as<float>(), end).out;
  return joined;
}

Judgement judge(ClassifierJudge& classifier, const Pipeline& pipeline, Generator& generator, std::int64_t count,
                std::uint64_t seed, const IterationObserver& observer) {
  std::vector<HostTensor> batches;
  std::vector<std::int64_t> labels;
  const auto keep = [&](std::span<const ImageRequest> requests, const HostTensor& pixels) {
    for (const ImageRequest& request : requests) labels.push_back(request.label);
    batches.push_back(pixels);
  };
  make_pictures(pipeline, generator, {}, count, seed, keep, observer);
  return judge(classifier, join_pictures(batches), labels);
}

std::vector<QualityRecord> quality_records(const Judgement& judged, const Judgement* base) {
  const std::string images = format_count(std::ssize(judged.is_right), "image");
  std::vector<QualityRecord> records;
  const auto add = [&](const char* metric, std::string against, const Estimate& estimate) {
    records.push_back({.metric = metric,
                       .against = std::move(against),
                       .value = estimate.value,
                       .interval = estimate.interval,
                       .note = {}});
  };
  add("accuracy", "labels of " + images, judged.accuracy);
  add("frechet_distance", "classifier features of the test set, " + images, frechet_estimate(judged.frechet));
  if (base == nullptr) return records;
  const std::string against = "baseline, " + images + ", same seeds";
  add("accuracy_difference", against, accuracy_difference(base->is_right, judged.is_right));
  add("frechet_difference", against, frechet_difference(base->frechet, judged.frechet));
  return records;
}

}  // namespace headroom
