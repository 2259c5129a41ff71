#pragma once

#include <cstdint>
#include <vector>

#include "base/target.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// The form in which the images of a convolution are fastest.
struct ImageForm {
  Layout layout = Layout::kChannelsLast;
  /// Channels are read in vectors, which their number fills if it is a multiple of this.
  std::int64_t channel_multiple = 1;
};

/// What the kernels of a target compute in one launch, and how they like their operands. Passes ask before they
/// rewrite, so that no pass holds a list of what kernels can do; kernels answer (kernel_rules() in
/// kernels/core/fusion_rules.hpp).
class FusionRules {
 public:
  /// Whether a kernel of the target runs a node of `op` with these attributes, operands and result.
  [[nodiscard]] virtual bool runs(const Target& target, Op op, const Attributes& attributes,
                                  const std::vector<TensorType>& inputs, const TensorType& result) const = 0;

  /// The form of images in which the kernels of the target run this convolution fastest.
  [[nodiscard]] virtual ImageForm best_images(const Target& target, Op op, const Attributes& attributes,
                                              const std::vector<TensorType>& inputs,
                                              const TensorType& result) const = 0;

  FusionRules(const FusionRules&) = delete;
  FusionRules& operator=(const FusionRules&) = delete;

 protected:
  FusionRules() = default;
  ~FusionRules() = default;
};

}  // namespace headroom
