#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {

/// How rows are spread over blocks: blockDim.x threads, whole warps, share a row; blockDim.y rows share a block.
struct RowBlocks {
  dim3 blocks;
  dim3 threads;
  bool is_deep = false;  ///< a thread holds up to kDeepPacks packs, otherwise kPacks
};

inline constexpr int kPacks = 4;  ///< of one thread
inline constexpr int kMostRowThreads = 1024;
/// The same for rows of packs of 16 bytes from 129 packs on: fewer threads, each with many loads in flight, wait
/// little for one another. A row of 3072 in 16 bits is two warps. With 12 packs, one warp, norms need 173
/// registers, and too few rows are in flight.
inline constexpr int kDeepPacks = 6;
inline constexpr int kMostDeepThreads = 384;
inline constexpr int kLeastBlockThreads = 128;

/// Whether a row of `packs` packs fits the registers of one block.
inline bool is_cacheable(std::int64_t packs) { return packs <= kPacks * kMostRowThreads; }

/// `is_wide`: packs are of 16 bytes.
inline RowBlocks spread_rows(std::int64_t rows, std::int64_t packs, bool is_wide) {
  const bool is_deep = is_wide && packs > 32 * kPacks && packs <= kDeepPacks * kMostDeepThreads;
  const std::int64_t wanted = 32 * divide_up(divide_up(packs, is_deep ? kDeepPacks : kPacks), 32);
  const auto across = static_cast<unsigned>(std::min<std::int64_t>(wanted, kMostRowThreads));
  const unsigned down = std::max(1U, kLeastBlockThreads / across);
  return {blocks_along_x(divide_up(rows, down)), dim3(across, down), is_deep};
}

/// The number in its row of the p-th pack that a thread holds: packs threadIdx.x, threadIdx.x + blockDim.x, ...
__device__ __forceinline__ int pack_of_thread(int p) {
  return static_cast<int>(threadIdx.x) + p * static_cast<int>(blockDim.x);
}

/// The part of a row that one thread holds, in registers, so a row is read from memory once however often it is gone
/// over.
template <class T, int kWidth, int kPerThread>
class RawRow {
 public:
  /// Loads the row at `from`; `packs` of them, every one whole. Nothing for a thread without a row.
  __device__ __forceinline__ RawRow(const T* from, int packs) : packs_(packs) {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p)
      if (pack_of_thread(p) < packs_) raw_[p] = Packs<T, kWidth>::read(from + pack_of_thread(p) * kWidth);
  }
  /// The elements of the p-th pack held.
  __device__ __forceinline__ void expand(int p, float (&values)[kWidth]) const {
    Packs<T, kWidth>::expand(raw_[p], values);
  }
  /// Calls visit(pack's number in the row, its elements) for each pack held. Elements changed are forgotten.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p) {
      if (pack_of_thread(p) >= packs_) continue;
      float values[kWidth];
      expand(p, values);
      visit(pack_of_thread(p), values);
    }
  }

 private:
  int packs_;
  typename Packs<T, kWidth>::Raw raw_[kPerThread];
};

/// The same as floats, which are made once.
template <class T, int kWidth, int kPerThread>
class CachedRow {
 public:
  __device__ __forceinline__ CachedRow(const T* from, int packs) : packs_(packs) {
    const RawRow<T, kWidth, kPerThread> raw(from, packs);
#pragma unroll
    for (int p = 0; p < kPerThread; ++p)
      if (pack_of_thread(p) < packs_) raw.expand(p, values_[p]);
  }
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p)
      if (pack_of_thread(p) < packs_) visit(pack_of_thread(p), values_[p]);
  }

 private:
  int packs_;
  float values_[kPerThread][kWidth];
};

/// The same for a row that is too long for registers: every pass reads it again. Elements changed are forgotten.
template <class T>
class RereadRow {
 public:
  __device__ __forceinline__ RereadRow(const T* from, int packs) : from_(from), packs_(packs) {}
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

/// A row in packs of kWidth elements, kPerThread of a thread; 0: as many as there are, read again for every pass.
template <class T, int kWidth, int kPerThread>
using Row = std::conditional_t<kPerThread == 0, RereadRow<T>, CachedRow<T, kWidth, kPerThread>>;

/// The row that a thread works on.
template <int N>
struct RowPlace {
  bool exists;              ///< all threads of a block meet at the barriers, also those without a row
  int packs;                ///< 0 without a row
  std::int64_t offsets[N];  ///< where it starts in each operand, in elements
};

/// work.run<kWidth, kPerThread>(place), for Row, on each row.
template <class Work, int N, int kWidth, int kPerThread, int kMostThreads>
__global__ void __launch_bounds__(kMostThreads) row_kernel(Work work, GridRows<N> grid, int packs) {
  wait_for_previous();
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  RowPlace<N> place;
  place.exists = index < grid.rows;
  place.packs = place.exists ? packs : 0;
  find_row(grid, place.exists ? index : 0, place.offsets);
  work.template run<kWidth, kPerThread>(place);
}

/// Launches row_kernel() on rows of T, in packs of 16 bytes where they are `is_wide`.
template <class T, class Work, int N>
void launch_rows(cudaStream_t stream, const GridRows<N>& grid, bool is_wide, const Work& work) {
  constexpr int kFull = kFullPack<T>;
  const std::int64_t packs = is_wide ? grid.length / kFull : grid.length;
  const RowBlocks spread = spread_rows(grid.rows, packs, is_wide);
  const auto count = static_cast<int>(packs);
  if (!is_cacheable(packs))
    launch_early(row_kernel<Work, N, 1, 0, kMostRowThreads>, {blocks_along_x(grid.rows), kMostRowThreads, stream}, work,
                 grid, static_cast<int>(grid.length));
  else if (spread.is_deep)
    launch_early(row_kernel<Work, N, kFull, kDeepPacks, kMostDeepThreads>, {spread.blocks, spread.threads, stream},
                 work, grid, count);
  else if (is_wide)
    launch_early(row_kernel<Work, N, kFull, kPacks, kMostRowThreads>, {spread.blocks, spread.threads, stream}, work,
                 grid, count);
  else
    launch_early(row_kernel<Work, N, 1, kPacks, kMostRowThreads>, {spread.blocks, spread.threads, stream}, work, grid,
                 count);
}

}  // namespace headroom::cuda
