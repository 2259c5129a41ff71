#include "train/cross_entropy.hpp"

#include <vector>

#include "base/error.hpp"

namespace headroom {

ValueId cross_entropy(Builder& b, ValueId logits, ValueId targets, std::int64_t count) {
  const auto scope = b.scope("loss");
  const std::int64_t rows = b.shape(logits)[0], classes = b.shape(logits)[1];
  HR_CHECK(b.shape(targets) == (Shape{rows, 1}) && classes <= std::int64_t{1} << 24);
  const ValueId x = b.cast(logits, DType::kF32);  // [rows, classes]
  // Any number near the largest logit prevents overflow. As an integer it has no derivative, which would cancel.
  const ValueId shift = b.cast(b.cast(b.reshape(b.amax(x, {1}), {rows, 1}), DType::kI32), DType::kF32);  // [rows, 1]
  const ValueId powers = b.reshape(b.sum(b.exp(b.sub(x, shift)), {1}), {rows, 1});
  std::vector<double> places;
  for (std::int64_t i = 0; i < classes; ++i) places.push_back(static_cast<double>(i));
  const ValueId is_target =
      b.equal(b.constant(std::move(places), {classes}), b.cast(targets, DType::kF32));  // [rows, classes]
  const ValueId chosen = b.reshape(b.sum(b.where(is_target, x, b.constant({0}, {})), {1}), {rows, 1});
  const ValueId each = b.sub(b.add(b.log(powers), shift), chosen);  // [rows, 1]
  return b.mul_scalar(b.sum(each, {0, 1}), 1 / static_cast<double>(count));
}

}  // namespace headroom
