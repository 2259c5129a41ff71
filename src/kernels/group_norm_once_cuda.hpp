#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype_code.hpp"
#include "ir/op_code.hpp"

/// group_norm of channels-last images in one launch, with a concatenation and a number for each channel in front of it:
/// ir/group_norm_program.hpp says what it computes.
namespace headroom::cuda {

/// How a number for each channel of each image lies.
struct ChannelVector {
  DType dtype = DType::kF32;
  std::int64_t image = 0, channel = 0;  ///< strides
};

struct GroupNormOnce {
  DType dtype = DType::kF32;  ///< of the images
  DType side = DType::kF32;   ///< of weight and bias
  ChannelVector shift = {}, scale = {}, offset = {};
  Activation activation = Activation::kNone;
  std::int64_t images = 0;
  int pixels = 0;
  int channels = 0;
  int first_channels = 0;  ///< of them in the first part; the others are in the second
  int width = 0;           ///< channels of a group
  double eps = 0;
  float more = 0;  ///< than what scales

  // How the work is shared: bundles are whole groups in whole packs, and a cluster of blocks takes one.
  int columns = 0;  ///< packs of a bundle
  int groups = 0;   ///< of a bundle
  int cluster = 1;  ///< blocks
  int chunk = 0;    ///< pixels of a block
  int rows = 0;     ///< pixels that a block takes at a time
  int threads = 0;
  int parts = 0;  ///< warps that join what threads have of a group
  bool is_kept = false;
};

/// The same with the work shared.
[[nodiscard]] GroupNormOnce shared_among_blocks(GroupNormOnce norm, int compute_capability);

struct GroupNormOperands {
  const void* first = nullptr;
  const void* second = nullptr;
  const void* shift = nullptr;
  const void* weight = nullptr;
  const void* bias = nullptr;
  const void* scale = nullptr;
  const void* offset = nullptr;
  void* whole = nullptr;  ///< what the parts are together, if that is wanted
  void* y = nullptr;      ///< may be `first` where that is the only part
};
void launch_group_norm_once(void* stream, const GroupNormOnce& norm, const GroupNormOperands& operands);

}  // namespace headroom::cuda
