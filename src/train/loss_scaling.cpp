#include "train/loss_scaling.hpp"

#include <string>

namespace headroom {

ValueId add_loss_scale(Graph& graph) { return graph.add_state(std::string(kLossScaleState), TensorType{.shape = {}}); }

void append_loss_scaling(Builder& b, const LossScaling& scaling, ValueId scale, ValueId is_good) {
  const auto scope = b.scope("loss_scaling");
  const auto count = [&](std::string_view name) {
    return b.graph().add_state(std::string(name), TensorType{.dtype = DType::kI32, .shape = {}});
  };
  const auto number = [&](std::int64_t value) { return b.constant({static_cast<double>(value)}, {}, DType::kI32); };
  const ValueId good = count(kGoodStepsState), bad = count(kBadStepsState);
  const ValueId zero = number(0), one = number(1);
  const ValueId good_now = b.where(is_good, b.add(good, one), zero);
  const ValueId bad_now = b.where(is_good, zero, b.add(bad, one));
  const ValueId grows = b.less_equal(number(scaling.interval), good_now);
  const ValueId shrinks = b.less_equal(number(scaling.patience), bad_now);
  const ValueId larger = b.min(b.mul_scalar(scale, 2), b.constant({scaling.most}, {}));
  const ValueId smaller = b.max(b.mul_scalar(scale, 0.5), b.constant({scaling.least}, {}));
  b.set_next(scale, b.where(grows, larger, b.where(shrinks, smaller, scale)));
  b.set_next(good, b.where(grows, zero, good_now));
  b.set_next(bad, b.where(shrinks, zero, bad_now));
}

}  // namespace headroom
