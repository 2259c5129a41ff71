#pragma once

#include <vector>

#include "kernels/vendor/cudnn/convolution.hpp"
#include "kernels/vendor/cudnn/engines.cuh"

namespace headroom::cudnn {

/// Numbers of a convolution's tensors in the library's operation graph.
enum ConvolutionUid : std::int64_t { kConvolved = 1, kFilter, kAddedBias, kAddedResidual, kMade, kFirstBetween };

/// The contents of an operation graph: the sums alone, in f32 if an epilogue follows them, or the epilogue too,
/// except a relu: in f32 the library makes 0 of NaN.
enum class Fusion : std::uint8_t { kSums, kWhole };
/// The dtype of the graph's result.
[[nodiscard]] DType made_dtype(const convolutions::Problem& problem, Fusion fusion);

/// A convolution as an operation graph: the sums, then a pointwise operation for each of bias, residual and activation,
/// with tensors in f32 between them that are never stored.
class ConvolutionGraph {
 public:
  /// Throws Error where the library takes no such operations.
  ConvolutionGraph(const convolutions::Problem& problem, Fusion fusion, Context& context);

  [[nodiscard]] const Descriptor& get() const { return parts_.back(); }

 private:
  std::size_t add(Descriptor part);
  std::size_t add_image(std::int64_t uid, cudnnDataType_t type, const Shape& shape, bool is_stored);
  std::size_t add_between_or_made(bool is_last);
  std::size_t add_sums(std::size_t to);
  std::size_t add_pointwise(cudnnPointwiseMode_t mode, std::size_t from, const std::size_t* other, std::size_t to);

  const convolutions::Problem& problem_;
  DType made_;
  std::vector<Descriptor> parts_;  // the graph refers to them
  std::int64_t between_ = kFirstBetween;
};

}  // namespace headroom::cudnn
