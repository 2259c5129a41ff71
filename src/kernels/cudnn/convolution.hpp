#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>

#include "ir/builder.hpp"
#include "kernels/kernel.hpp"

namespace headroom::cudnn {

/// Why the library cannot be used here (not installed), or nothing. Opens it at the first call.
[[nodiscard]] std::optional<std::string> why_not_installed();

/// A conv2d or conv_transpose2d. Images and weight all lie row-major, or all channels-last, without gaps.
struct ConvolutionProblem {
  bool is_transposed = false;
  DType dtype = DType::kF32;  ///< of all but the bias: f32, bf16 or f16; sums are in f32
  std::optional<DType> bias = std::nullopt;
  bool has_residual = false;
  Activation activation = Activation::kNone;
  bool rounds_to_tf32 = false;
  Layout layout = Layout::kRowMajor;
  Shape x, weight, y;  ///< as the op has them, whatever the layout
  Builder::Convolution how = {};
};
/// All of a problem in one line, equal for equal problems.
[[nodiscard]] std::string to_text(const ConvolutionProblem& problem);

/// Device addresses, all at multiples of 16 bytes; what the problem does not have is null.
struct ConvolutionOperands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
};

/// A convolution by one of cuDNN's engines: with all that follows the sums in the same kernel where an engine does
/// that, else with a kernel of ours behind it. Of work large enough to matter the fastest is taken, as measured
/// (cuda/search.hpp): engines of heuristics A and B, fused and not. Making one takes from 10 ms to some seconds.
class Convolution {
 public:
  /// Throws Error where the library has no engine for it.
  Convolution(const ConvolutionProblem& problem, Backend& backend);
  ~Convolution();
  Convolution(const Convolution&) = delete;
  Convolution& operator=(const Convolution&) = delete;

  [[nodiscard]] std::size_t workspace_bytes() const noexcept;
  /// "cuDNN 9.19.0 engine 57 (12=3 2=1) fused, fastest as measured"
  [[nodiscard]] std::string implementation() const;
  void run(void* stream, const ConvolutionOperands& operands, void* workspace) const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace headroom::cudnn
