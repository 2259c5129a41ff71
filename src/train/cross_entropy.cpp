#include "train/cross_entropy.hpp"

#include "base/error.hpp"

namespace headroom {

ValueId cross_entropy(Builder& b, ValueId logits, ValueId targets, std::int64_t count) {
  const auto scope = b.scope("loss");
  const std::int64_t rows = b.shape(logits)[0];
  HR_CHECK(b.shape(targets) == (Shape{rows, 1}));
  const ValueId each = b.emit(Op::kCrossEntropy, {logits, b.reshape(targets, {rows})})[0];  // [rows]
  return b.mul_scalar(b.sum(each, {0}), 1 / static_cast<double>(count));
}

}  // namespace headroom
