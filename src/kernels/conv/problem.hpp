#pragma once

#include <optional>
#include <string>

#include "ir/builder.hpp"
#include "kernels/core/kernel.hpp"

/// Types that the algorithms for convolutions on a GPU share: cuDNN's engines and Headroom's own kernels.
namespace headroom::convolutions {

/// A conv2d, conv2d_shortcut or conv_transpose2d. Images and weight are all row-major, or all channels-last,
/// without gaps.
struct Problem {
  bool is_transposed = false;
  DType dtype = DType::kF32;  ///< of all but the bias: f32, bf16 or f16; sums are in f32
  std::optional<DType> bias = std::nullopt;
  bool has_residual = false;
  Activation activation = Activation::kNone;
  bool rounds_to_tf32 = false;
  bool has_constant_weight = false;  ///< and shortcut_weight: the same in all runs; the text does not say so
  Layout layout = Layout::kRowMajor;
  Shape x, weight, y;         ///< as the op has them, whatever the layout
  std::int64_t shortcut = 0;  ///< channels of a conv2d_shortcut's second image, which has y's pixels
  Builder::Convolution how = {};
};
/// The problem of the spec of one of these ops.
[[nodiscard]] Problem problem_of(const OpSpec& spec);
/// All of a problem in one line, equal for equal problems.
[[nodiscard]] std::string to_text(const Problem& problem);
/// The shape of the second image.
[[nodiscard]] Shape shortcut_shape(const Problem& problem);
/// The FLOPs of the sums.
[[nodiscard]] double flops_of(const Problem& problem);
/// Whether anything follows the sums.
[[nodiscard]] bool has_epilogue(const Problem& problem);

/// Device addresses, all at multiples of 16 bytes; those of operands that the problem lacks are null.
struct Operands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  const void* shortcut = nullptr;
  const void* shortcut_weight = nullptr;
  void* y = nullptr;
};

/// A weight in an algorithm's own layout.
struct Packing {
  std::string layout;     ///< its name: equal names mean equal bytes
  std::size_t bytes = 0;  ///< no more than those of the weight
  /// Submits the packing of a row-major weight to a stream (cudaStream_t).
  std::function<void(void* stream, const void* weight, void* packed)> pack;
};

/// An algorithm for a problem, bound to a device.
struct Algorithm {
  std::string name;  ///< unique, and the same in every process: "cuDNN 9.19.0 engine 57 (12=3 2=1) fused"
  std::size_t workspace_bytes = 0;
  std::optional<Packing> packing = std::nullopt;  ///< else a weight lies as images do
  /// Submits it to a stream (cudaStream_t).
  std::function<void(void* stream, const Operands& operands, void* workspace)> run;
};

}  // namespace headroom::convolutions
