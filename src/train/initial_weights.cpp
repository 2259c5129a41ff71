#include "train/initial_weights.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/files/hash.hpp"
#include "base/tensors/random.hpp"
#include "base/text/name_filter.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kGrain = 65536;  // numbers of a thread, at least

/// Of a matrix [outputs, inputs], or of a convolution's weight [outputs, inputs, height, width].
double xavier_bound(const std::string& name, const Shape& shape) {
  if (shape.rank() < 2) fail("`initialization`: xavier is for matrices, and {} is {}", name, shape);
  const std::int64_t window = shape.numel() / (shape[0] * shape[1]);
  return std::sqrt(6 / static_cast<double>((shape[0] + shape[1]) * window));
}

const InitialValues& rule_of(const std::string& name, std::span<const InitialValues> rules) {
  const auto rule = std::ranges::find_if(
      rules, [&](const InitialValues& each) { return each.names.empty() || NameFilter(each.names).takes(name); });
  if (rule == rules.end()) fail("no rule of `initialization` matches the weight {}", name);
  return *rule;
}

}  // namespace

void require_rule(const std::string& name, const Shape& shape, std::span<const InitialValues> rules) {
  if (rule_of(name, rules).xavier) static_cast<void>(xavier_bound(name, shape));
}

HostTensor initial_weight(const std::string& name, const Shape& shape, std::span<const InitialValues> rules,
                          std::int64_t blocks, std::uint64_t seed) {
  const InitialValues& rule = rule_of(name, rules);
  const double depth = rule.per_depth ? std::sqrt(2.0 * static_cast<double>(std::max<std::int64_t>(1, blocks))) : 1;
  HostTensor weight(DType::kF32, shape);
  const std::uint64_t stream = Hasher().add(name).digest();
  if (rule.xavier) {
    const double bound = xavier_bound(name, shape);
    const std::span<float> values = weight.as<float>();
    fill_uniform(values, seed, stream);
    for (float& value : values) value = static_cast<float>((2 * value - 1) * bound);
    return weight;
  }
  const NormalStream normal{.seed = seed,
                            .stream = stream,
                            .mean = static_cast<float>(rule.mean),
                            .deviation = static_cast<float>(rule.deviation / depth)};
  const std::span<float> values = weight.as<float>();
  parallel_for(omp_get_max_threads(), weight.numel(), kGrain, [&](std::int64_t begin, std::int64_t end, int) {
    store_normal(values.data() + begin, DType::kF32, static_cast<std::uint64_t>(end - begin), normal,
                 static_cast<std::uint64_t>(begin));
  });
  return weight;
}

}  // namespace headroom
