#include "train/causal_lm.hpp"

#include <vector>

#include "base/error.hpp"

namespace headroom {

ValueId causal_lm_loss(Builder& b, ValueId logits, ValueId targets, std::int64_t count) {
  const auto scope = b.scope("loss");
  const std::int64_t rows = b.shape(logits)[0], ids = b.shape(logits)[1];
  HR_CHECK(b.shape(targets) == (Shape{rows, 1}) && ids <= std::int64_t{1} << 24);
  const ValueId x = b.cast(logits, DType::kF32);  // [rows, ids]
  // Any number near the largest logit prevents overflow. As an integer it has no derivative, which would cancel.
  const ValueId shift = b.cast(b.cast(b.reshape(b.amax(x, {1}), {rows, 1}), DType::kI32), DType::kF32);  // [rows, 1]
  const ValueId powers = b.reshape(b.sum(b.exp(b.sub(x, shift)), {1}), {rows, 1});
  std::vector<double> places;
  for (std::int64_t id = 0; id < ids; ++id) places.push_back(static_cast<double>(id));
  const ValueId is_target = b.equal(b.constant(std::move(places), {ids}), b.cast(targets, DType::kF32));  // [rows, ids]
  const ValueId chosen = b.reshape(b.sum(b.where(is_target, x, b.constant({0}, {})), {1}), {rows, 1});
  const ValueId each = b.sub(b.add(b.log(powers), shift), chosen);  // [rows, 1]
  return b.mul_scalar(b.sum(each, {0, 1}), 1 / static_cast<double>(count));
}

}  // namespace headroom
