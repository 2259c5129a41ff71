#include "measure/judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "base/divide_up.hpp"
#include "base/error.hpp"

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

Judgement judge(ClassifierJudge& classifier, const Pipeline& pipeline, Generator& generator, std::int64_t count,
                std::uint64_t seed, const IterationObserver& observer) {
  const std::int64_t batch = generator.request().images, all = divide_up(count, batch) * batch;
  HostTensor pixels;  // [all, channels, height, width]
  std::vector<std::int64_t> labels;
  for (std::int64_t first = 0; first < all; first += batch) {
    const std::vector<ImageRequest> requests = make_image_requests(pipeline, first, batch, seed);
    for (const ImageRequest& request : requests) labels.push_back(request.label);
    const HostTensor made = generator.decode(generator.generate(requests, observer));
    if (first == 0) pixels = HostTensor(DType::kF32, {all, made.shape()[1], made.shape()[2], made.shape()[3]});
    std::ranges::copy(made.as<float>(), pixels.as<float>().begin() + first * (made.numel() / batch));
  }
  return judge(classifier, pixels, labels);
}

std::vector<QualityRecord> quality_records(const Judgement& judged, const Judgement* base) {
  const std::size_t count = judged.is_right.size();
  std::vector<QualityRecord> records;
  const auto add = [&](const char* metric, std::string against, const Estimate& estimate) {
    records.push_back({.metric = metric,
                       .against = std::move(against),
                       .value = estimate.value,
                       .interval = estimate.interval,
                       .note = {}});
  };
  add("accuracy", fmt::format("labels of {} images", count), judged.accuracy);
  add("frechet_distance", fmt::format("classifier features of the test set, {} images", count),
      frechet_estimate(judged.frechet));
  if (base == nullptr) return records;
  const std::string against = fmt::format("baseline, {} images, same seeds", count);
  add("accuracy_difference", against, accuracy_difference(base->is_right, judged.is_right));
  add("frechet_difference", against, frechet_difference(base->frechet, judged.frechet));
  return records;
}

}  // namespace headroom
