#pragma once

#include <vector>

#include "base/target.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// What the kernels of a target compute in one launch. Passes ask before they fuse, so that no pass holds a list of
/// what kernels can do; kernels answer (kernel_rules() in kernels/core/fusion_rules.hpp).
class FusionRules {
 public:
  /// Whether a kernel of the target runs a node of `op` with these attributes, operands and result.
  [[nodiscard]] virtual bool runs(const Target& target, Op op, const Attributes& attributes,
                                  const std::vector<TensorType>& inputs, const TensorType& result) const = 0;

  FusionRules(const FusionRules&) = delete;
  FusionRules& operator=(const FusionRules&) = delete;

 protected:
  FusionRules() = default;
  ~FusionRules() = default;
};

}  // namespace headroom
