#pragma once

#include <cstddef>
#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "ir/op_code.hpp"

/// group_norm of channels-last images in one launch, preceded by a concatenation and a per-channel vector:
/// lower/group_norm_program.hpp defines the computation.
namespace headroom::cuda {

/// The per-channel vectors.
enum ChannelNumberKind { kShift, kWeight, kBias, kScale, kOffset, kChannelNumbers };
/// The dtype and strides of a per-channel vector.
struct ChannelNumber {
  DType dtype = DType::kF32;
  std::int64_t image = 0, channel = 0;  ///< strides
  float otherwise = 0;                  ///< the value if there is no such vector
};

inline constexpr int kMostNormThreads = 480;              ///< of a block, one for each pair of a bundle's channels
inline constexpr std::int64_t kMostNormedImages = 65535;  ///< that a grid has along y

struct GroupNormOnce {
  DType dtype = DType::kF32;  ///< of the images
  ChannelNumber numbers[kChannelNumbers] = {};
  Activation activation = Activation::kNone;
  std::int64_t images = 0;
  int pixels = 0;
  int channels = 0;
  int first_channels = 0;  ///< of them in the first part; the others are in the second
  int width = 0;           ///< channels of a group
  float eps = 0;
  float more = 0;  ///< added to kScale

  // How the work is shared: bundles are whole groups in whole packs, and a cluster of blocks takes one.
  int columns = 0;  ///< packs of a bundle
  int groups = 0;   ///< of a bundle
  int log2_cluster = 0;
  int chunk = 0;         ///< pixels of a block
  int tiles = 0;         ///< processed one by one; each is read twice if there are several
  int tile_pixels = 0;   ///< of one at most
  int rows = 0;          ///< of threads, each of one for every pair of a bundle's channels
  int shared_bytes = 0;  ///< of a block
  float share = 0;       ///< of an element in its group
};

/// The same with the work shared.
[[nodiscard]] GroupNormOnce shared_among_blocks(GroupNormOnce norm, int compute_capability);

struct GroupNormOperands {
  const void* first = nullptr;
  const void* second = nullptr;
  const void* numbers[kChannelNumbers] = {};  ///< null if absent
  void* whole = nullptr;                      ///< the concatenation of the parts, if it is needed
  void* y = nullptr;                          ///< may be `first` if that is the only part
};
void launch_group_norm_once(void* stream, const GroupNormOnce& norm, const GroupNormOperands& operands);

}  // namespace headroom::cuda
