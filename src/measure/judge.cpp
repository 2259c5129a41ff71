#include "measure/judge.hpp"

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

QualityLoss quality_loss(const Judgement& base, const Judgement& changed) {
  const Estimate growth = frechet_difference(base.frechet, changed.frechet);
  HR_CHECK_EQ(base.is_right.size(), changed.is_right.size());
  const auto upper = [](const Estimate& estimate) {
    return estimate.interval ? estimate.interval->high : estimate.value;
  };
  std::vector<double> lost(base.is_right.size());
  std::ranges::transform(base.is_right, changed.is_right, lost.begin(),
                         [](bool a, bool b) { return 1.0 * a - 1.0 * b; });
  const QualityLoss labels{.value = upper(mean_estimate(lost)),
                           .what = "the share of images whose label is no longer seen"};
  const QualityLoss distance{.value = upper(growth) / base.frechet.value,
                             .what = "the growth of the Frechet distance as a share"};
  return distance.value > labels.value ? distance : labels;
}

}  // namespace headroom
