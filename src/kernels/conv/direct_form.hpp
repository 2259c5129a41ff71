#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"

/// Types that the kernels in conv_64to64.cu, conv_rgb.cu, conv_up_to_16_in.cu and conv_up_to_16_out.cu share with
/// their host code.
namespace headroom::convolutions {

inline constexpr int kNarrowChannels = 64;
inline constexpr int kMostFewChannels = 4;       ///< of x, with a multiple of 64 of y
inline constexpr int kMostSeveralChannels = 16;  ///< the same where they are more
inline constexpr int kMostFewOutputs = 16;       ///< of y, with 64 or many of x
inline constexpr int kManyStep = 32;             ///< many channels of x are a multiple of it
inline constexpr int kMostManyChannels = 2048;

/// The distance in x between the pixels that neighbouring pixels of y are centred at.
enum class Pace : std::uint8_t {
  kSame,    ///< 3x3, padding 1: y has the size of x
  kHalved,  ///< 3x3, padding 1, stride 2: half of it
  kDoubled  ///< the transposed 4x4, padding 1, stride 2: twice of it
};

struct NarrowForm {
  Pace pace = Pace::kSame;
  int channels = kNarrowChannels, outputs = kNarrowChannels;  ///< others only where the pace is the same
  int images = 0, height = 0, width = 0;                      ///< of x; an even width where it is halved
  DType dtype = DType::kBF16;                                 ///< of all but the bias: bf16 or f16
  DType bias = DType::kBF16;                                  ///< the same or f32
  Activation activation = Activation::kNone;                  ///< that or kRelu or kSilu
  bool has_constant_weight = false;                           ///< the same in all runs
};

/// Device addresses; bias and residual may be null. A residual requires 64 channels on both sides, and an image
/// that is not doubled.
struct NarrowOperands {
  const void* x = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* residual = nullptr;
  void* y = nullptr;
};

/// How many pixels of a row a multiply-add may compute, best guess first.
[[nodiscard]] std::vector<int> narrow_widths(const NarrowForm& form, int multiprocessors);

[[nodiscard]] std::size_t packed_narrow_bytes(Pace pace);
/// From row-major [o, i, 3, 3], or [i, o, 4, 4] of a transposed one, to the parts of it that threads keep in registers.
void pack_narrow(void* stream, Pace pace, const void* weight, void* packed);

/// Submits the kernel for 64 channels to 64, with a packed weight.
void launch_narrow(void* stream, const NarrowForm& form, int pixels, int multiprocessors,
                   const NarrowOperands& operands);
/// Submits a kernel of conv_rgb.cu, from at most 4 channels or from 64, with a weight whose channels are last.
void launch_few(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands);
/// As launch_few, for at most kMostSeveralChannels input channels.
void launch_several(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands);
/// As launch_few, from many input channels to at most 16 output channels.
void launch_many_to_few(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands);

}  // namespace headroom::convolutions
