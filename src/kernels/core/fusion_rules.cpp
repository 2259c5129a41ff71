#include "kernels/core/fusion_rules.hpp"

#include <algorithm>

#include "kernels/core/kernel.hpp"

namespace headroom {
namespace {

class KernelRules final : public FusionRules {
 public:
  [[nodiscard]] bool runs(const Target& target, Op op, const Attributes& attributes,
                          const std::vector<TensorType>& inputs, const TensorType& result) const override {
    const OpSpec spec{.op = op, .attributes = attributes, .inputs = inputs, .outputs = {result}, .is_weight = {}};
    return std::ranges::any_of(kernels_of(target.device), [&](const Kernel* kernel) {
      return kernel->op() == op && !kernel->supports(spec, target);
    });
  }

  /// The kernel that is tried first answers: the others are for what it does not support.
  [[nodiscard]] ImageForm best_images(const Target& target, Op op, const Attributes& attributes,
                                      const std::vector<TensorType>& inputs, const TensorType& result) const override {
    const auto kernels = kernels_of(target.device);
    const auto first = std::ranges::find(kernels, op, &Kernel::op);
    if (first == kernels.end()) return {};
    return (*first)->best_images(
        {.op = op, .attributes = attributes, .inputs = inputs, .outputs = {result}, .is_weight = {}});
  }
};

}  // namespace

const FusionRules& kernel_rules() {
  static const KernelRules rules;
  return rules;
}

}  // namespace headroom
