#include "measure/judge.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace headroom {

Judgement judge(ClassifierJudge& classifier, const HostTensor& pixels, std::span<const std::int64_t> labels) {
  const SeenImages seen = classifier.look_at(pixels);
  HR_CHECK_EQ(seen.labels.size(), labels.size());
  std::int64_t correct = 0;
  for (std::size_t i = 0; i < labels.size(); ++i) correct += seen.labels[i] == labels[i] ? 1 : 0;
  return {.accuracy = accuracy(correct, std::ssize(labels)),
          .frechet = sample_frechet(seen.features, classifier.reference_mean(), classifier.reference_covariance())};
}

}  // namespace headroom
