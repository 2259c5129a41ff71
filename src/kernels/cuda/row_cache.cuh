#pragma once

#include <algorithm>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace headroom::cuda {

/// How rows are spread over blocks: blockDim.x threads, whole warps, share a row; blockDim.y rows share a block.
struct RowBlocks {
  dim3 blocks;
  dim3 threads;
};

inline constexpr int kCachedPacks = 4;  ///< of one thread
inline constexpr int kMostRowThreads = 1024;
inline constexpr int kLeastBlockThreads = 128;

/// Whether a row of `packs` packs fits the registers of one block.
inline bool is_cacheable(std::int64_t packs) { return packs <= kCachedPacks * kMostRowThreads; }

inline RowBlocks spread_rows(std::int64_t rows, std::int64_t packs) {
  const std::int64_t wanted = 32 * divide_up(divide_up(packs, kCachedPacks), 32);
  const auto across = static_cast<unsigned>(std::min<std::int64_t>(wanted, kMostRowThreads));
  const unsigned down = std::max(1U, kLeastBlockThreads / across);
  return {blocks_along_x(divide_up(rows, down)), dim3(across, down)};
}

/// The part of a row that one thread holds as floats: packs threadIdx.x, threadIdx.x + blockDim.x, ... Kept in
/// registers, so a row is read from memory once however often it is gone over.
template <class T, int kWidth>
class CachedRow {
 public:
  static constexpr bool kKeeps = true;  ///< what a visit changes is there at the next
  /// Loads the row at `from`; `packs` of them, every one whole. Nothing for a thread without a row.
  __device__ __forceinline__ CachedRow(const T* from, int packs) : packs_(packs) {
    typename Packs<T, kWidth>::Raw raw[kCachedPacks];
#pragma unroll
    for (int p = 0; p < kCachedPacks; ++p)
      if (index(p) < packs_) raw[p] = Packs<T, kWidth>::read(from + index(p) * kWidth);
#pragma unroll
    for (int p = 0; p < kCachedPacks; ++p)
      if (index(p) < packs_) Packs<T, kWidth>::expand(raw[p], values_[p]);
  }
  [[nodiscard]] __device__ __forceinline__ int index(int p) const {
    return static_cast<int>(threadIdx.x) + p * static_cast<int>(blockDim.x);
  }
  /// Calls visit(pack's number in the row, its elements) for each pack held.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) {
#pragma unroll
    for (int p = 0; p < kCachedPacks; ++p)
      if (index(p) < packs_) visit(index(p), values_[p]);
  }

 private:
  int packs_;
  float values_[kCachedPacks][kWidth];
};

/// The same for a row that is too long for registers: every pass reads it again. Elements changed are forgotten.
template <class T>
class StreamedRow {
 public:
  static constexpr bool kKeeps = false;
  __device__ __forceinline__ StreamedRow(const T* from, int packs) : from_(from), packs_(packs) {}
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
    for (int i = static_cast<int>(threadIdx.x); i < packs_; i += static_cast<int>(blockDim.x)) {
      float value[1];
      load(from_ + i, value);
      visit(i, value);
    }
  }

 private:
  const T* from_;
  int packs_;
};

}  // namespace headroom::cuda
