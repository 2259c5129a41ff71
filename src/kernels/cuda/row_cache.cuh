#pragma once

#include <algorithm>
#include <type_traits>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/launch.cuh"

namespace headroom::cuda {

/// How rows are spread over blocks: blockDim.x threads, whole warps, share a row; blockDim.y rows share a block.
struct RowBlocks {
  dim3 blocks;
  dim3 threads;
  bool is_deep = false;  ///< a thread holds up to kDeepPacks packs, otherwise kPacks
};

inline constexpr int kPacks = 4;  ///< of one thread
inline constexpr int kMostRowThreads = 1024;
/// The same for rows of packs of 16 bytes from 129 packs on: few threads, each with many reads under way, have little
/// to wait for one another. A row of FLUX (3072 in 16 bits) is two warps. With 12 packs, one warp, norms need 173
/// registers, and too few rows are under way.
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

/// Calls launch(packs of a thread, most threads of a block, width of a pack, whether rows are kept) with constants,
/// and how rows are spread: rows of `length` elements, in packs of kFull where they are `is_wide`.
template <int kFull, class Launch>
void launch_spread(std::int64_t rows, std::int64_t length, bool is_wide, const Launch& launch) {
  using Wide = std::integral_constant<int, kFull>;
  using Single = std::integral_constant<int, 1>;
  using Few = std::integral_constant<int, kPacks>;
  using Many = std::integral_constant<int, kDeepPacks>;
  using MostThreads = std::integral_constant<int, kMostRowThreads>;
  using FewThreads = std::integral_constant<int, kMostDeepThreads>;
  const std::int64_t packs = is_wide ? length / kFull : length;
  const RowBlocks spread = spread_rows(rows, packs, is_wide);
  const auto count = static_cast<int>(packs);
  if (!is_cacheable(packs))
    launch(Few(), MostThreads(), Single(), std::false_type(), RowBlocks{blocks_along_x(rows), dim3(kMostRowThreads)},
           static_cast<int>(length));
  else if (spread.is_deep)
    launch(Many(), FewThreads(), Wide(), std::true_type(), spread, count);
  else if (is_wide)
    launch(Few(), MostThreads(), Wide(), std::true_type(), spread, count);
  else
    launch(Few(), MostThreads(), Single(), std::true_type(), spread, count);
}

/// The part of a row that one thread holds: packs threadIdx.x, threadIdx.x + blockDim.x, ... Kept in registers, so a
/// row is read from memory once however often it is gone over.
template <class T, int kWidth, int kPerThread>
class RawRow {
 public:
  /// Loads the row at `from`; `packs` of them, every one whole. Nothing for a thread without a row.
  __device__ __forceinline__ RawRow(const T* from, int packs) : packs_(packs) {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p)
      if (index(p) < packs_) raw_[p] = Packs<T, kWidth>::read(from + index(p) * kWidth);
  }
  [[nodiscard]] __device__ __forceinline__ int index(int p) const {
    return static_cast<int>(threadIdx.x) + p * static_cast<int>(blockDim.x);
  }
  /// Calls visit(pack's number in the row, its elements) for each pack held. Elements changed are forgotten.
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) const {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p) {
      if (index(p) >= packs_) continue;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw_[p], values);
      visit(index(p), values);
    }
  }

 private:
  int packs_;
  typename Packs<T, kWidth>::Raw raw_[kPerThread];
};

/// The same as floats, which are made once, by the row's constructor.
template <int kWidth, int kPerThread>
class KeptRow {
 public:
  static constexpr bool kKeeps = true;  ///< what a visit changes is there at the next
  [[nodiscard]] __device__ __forceinline__ int index(int p) const {
    return static_cast<int>(threadIdx.x) + p * static_cast<int>(blockDim.x);
  }
  template <class Visit>
  __device__ __forceinline__ void for_each(const Visit& visit) {
    for_each_held([&](int p, float(&values)[kWidth]) { visit(index(p), values); });
  }

 protected:
  explicit __device__ __forceinline__ KeptRow(int packs) : packs_(packs) {}
  /// This thread's packs of a tensor as they are stored.
  template <class T>
  __device__ __forceinline__ void read(const T* from, typename Packs<T, kWidth>::Raw (&raw)[kPerThread]) const {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p)
      if (index(p) < packs_) raw[p] = Packs<T, kWidth>::read(from + index(p) * kWidth);
  }

  /// Calls visit(p, its elements) for the p-th pack held; unrolled, so that p finds what else is in registers.
  template <class Visit>
  __device__ __forceinline__ void for_each_held(const Visit& visit) {
#pragma unroll
    for (int p = 0; p < kPerThread; ++p)
      if (index(p) < packs_) visit(p, values_[p]);
  }

 private:
  int packs_;
  float values_[kPerThread][kWidth];
};

/// The row at `from`.
template <class T, int kWidth, int kPerThread>
class CachedRow : public KeptRow<kWidth, kPerThread> {
 public:
  __device__ __forceinline__ CachedRow(const T* from, int packs) : KeptRow<kWidth, kPerThread>(packs) {
    typename Packs<T, kWidth>::Raw raw[kPerThread];
    this->read(from, raw);
    this->for_each_held([&](int p, float(&values)[kWidth]) { Packs<T, kWidth>::expand(raw[p], values); });
  }
};

/// residual + gate * x, rounded to T and written to `sum` on the way, kept as the floats that were stored. `sum` may be
/// residual or x.
template <class T, class S, int kWidth, int kPerThread>
class GatedRow : public KeptRow<kWidth, kPerThread> {
 public:
  __device__ __forceinline__ GatedRow(const T* residual, const S* gate, const T* x, T* sum, int packs)
      : KeptRow<kWidth, kPerThread>(packs) {
    typename Packs<T, kWidth>::Raw raw_residual[kPerThread], raw_x[kPerThread];
    this->read(residual, raw_residual);
    this->read(x, raw_x);
    this->for_each_held([&](int p, float(&values)[kWidth]) {
      const int pack = this->index(p);
      float other[kWidth], factor[kWidth];
      Packs<T, kWidth>::expand(raw_residual[p], values);
      Packs<T, kWidth>::expand(raw_x[p], other);
      load(gate + pack * kWidth, factor);
#pragma unroll
      for (int i = 0; i < kWidth; ++i) values[i] = to_float(from_float<T>(fmaf(factor[i], other[i], values[i])));
      Packs<T, kWidth>::store(values, sum + pack * kWidth);
    });
  }
};

/// The same for a row that is too long for registers: every pass reads it again. Elements changed are forgotten.
template <class T>
class RereadRow {
 public:
  static constexpr bool kKeeps = false;
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

}  // namespace headroom::cuda
