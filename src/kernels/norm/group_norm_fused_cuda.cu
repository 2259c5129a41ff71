// group_norm in one launch on a GPU:
// y = act(((concat(a, b) + shift - mean) / sqrt(variance + eps) * weight + bias) * scale + offset)
//
// Shapes     a[b, c1, h, w], b[b, c2, h, w] or none, weight[c], bias[c], shift, scale and offset[b or 1, c, 1, 1] or
//            none -> y[b, c, h, w] and, if it is wanted, concat(a, b), channels last.
// Dtypes     images f32, bf16 or f16, the rest the same or f32; f32 arithmetic, one rounding.
// Alignment  packs of 16 bytes, groups of an even number of channels (lower/group_norm_program.hpp).
// Bytes      images read and written once if shared memory keeps the part of a block, up to 200 KiB; beyond that
//            they are read twice, the second time from a cache.
//
// A bundle is the fewest channels that are whole groups and whole packs: 40 where groups have 10, 20 or 40. A
// cluster of blocks takes one bundle of an image. Each block copies a run of pixels to shared memory. All sum
// elements and their squares relative to one pivot, a mean of 32 elements of the group, in an order that is always
// the same. So nothing cancels, and the sums of threads, warps and blocks are added without correction: the mean of
// 32 elements is off by about 0.2 of the spread of all.
//
// group_norm_three_launches_cuda.cu has tables and partial sums in memory between its launches. At 64x64 and less,
// neither bytes nor arithmetic take the time but the chain of dependences: the copy, the sums of a block, those of a
// cluster, the writing. So there is one pass over the pixels before the exchange, and blocks write their sums to each
// other instead of asking for them. All that waits for nothing comes before the parts that wait.

#include <algorithm>
#include <numeric>

#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/norm/group_norm_fused_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kMostCluster = 16;
// A block that has more packs than this leaves half of them to another block. If all multiprocessors already have
// two blocks, it does so only from four times as many packs on.
constexpr int kMostPacks = 320, kEnoughBlocks = 256;
constexpr int kTimes = 4;  // that loops over pixels are unrolled
constexpr int kWarp = 32;

/// Begins to copy 16 bytes to shared memory.
__device__ __forceinline__ void copy_pack(uint4* to_shared, const void* from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(hopper::shared_address(to_shared)), "l"(from)
               : "memory");
}
/// Waits for the copies that this thread began.
__device__ __forceinline__ void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

/// Prefetches an address into the second-level cache, which needs no ordering.
__device__ __forceinline__ void fetch(const void* from) {
  asm volatile("prefetch.global.L2 [%0];" ::"l"(from) : "memory");
}

/// Two neighbouring elements.
template <class T>
struct alignas(2 * sizeof(T)) Pair {
  T first, second;
};
template <class T>
__device__ __forceinline__ float2 expand(Pair<T> pair) {
  return {to_float(pair.first), to_float(pair.second)};
}
__device__ __forceinline__ void store(float2 pair, float* to) { *reinterpret_cast<float2*>(to) = pair; }
__device__ __forceinline__ void store(float2 pair, Bf16* to) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_bf16(pair.x, pair.y);
}
__device__ __forceinline__ void store(float2 pair, F16* to) {
  *reinterpret_cast<std::uint32_t*>(to) = pack_f16(pair.x, pair.y);
}
__device__ __forceinline__ float2 operator+(float2 a, float2 b) { return {a.x + b.x, a.y + b.y}; }

constexpr int kSumsPitch =
    kMostCluster + 2;  // so that threads that read the sums of different groups meet different banks

/// A block's work on its run of pixels of a bundle. Threads are [rows, pairs of channels].
template <class T>
class NormBlock {
 public:
  static constexpr int kWidth = kFullPack<T>;

  __device__ __forceinline__ NormBlock(const GroupNormOnce& norm, const GroupNormOperands& operands, uint4* shared,
                                       hopper::Barrier& exchanged)
      : norm_(norm), operands_(operands), tile_(shared), exchanged_(exchanged) {
    sums_of_blocks_ = reinterpret_cast<float2*>(tile_ + norm.tile_pixels * norm.columns);
    sums_of_threads_ = sums_of_blocks_ + norm.groups * kSumsPitch;
    numbers_ = reinterpret_cast<float*>(sums_of_threads_ + channels() / 2 * sums_pitch());
    pivots_ = numbers_ + kChannelNumbers * channels();
    thread_ = row() * static_cast<int>(blockDim.x) + pair();
    block_ = static_cast<int>(blockIdx.x) & (cluster() - 1);
    first_channel_ = (static_cast<int>(blockIdx.x) >> norm.log2_cluster) * channels();
    first_pixel_ = block_ * norm.chunk;
    pixels_ = min(norm.chunk, norm.pixels - first_pixel_);
    group_ = 2 * pair() / norm.width;
    copied_row_ = thread_ / norm.columns;
    copied_channel_ = first_channel_ + (thread_ - copied_row_ * norm.columns) * kWidth;
  }

  /// The part that neither reads nor writes data of another kernel.
  __device__ __forceinline__ void prepare() const {
#if HR_HAS_HOPPER
    if (cluster() > 1) {
      if (thread_ == 0) {
        hopper::init_barrier(exchanged_, 1);
        hopper::fence_barrier_init();
        hopper::arrive_expecting(exchanged_, static_cast<std::uint32_t>(norm_.groups * cluster() * sizeof(float2)));
      }
      hopper::begin_in_cluster();
    }
#endif
    for (int i = thread_; i < norm_.groups * kMostCluster; i += threads())  // of blocks that there are not
      if (i % kMostCluster >= cluster()) sums_of_blocks_[i / kMostCluster * kSumsPitch + i % kMostCluster] = {};
    constexpr int kLine = 128;  // bytes
    const int kind = kWeight + thread_ % 2, at = thread_ / 2 * kLine;
    const int bytes = static_cast<int>(norm_.numbers[kind].dtype == DType::kF32 ? sizeof(float) : sizeof(T));
    if (operands_.numbers[kind] != nullptr && at < channels() * bytes)
      fetch(static_cast<const char*>(operands_.numbers[kind]) + first_channel_ * bytes + at);
  }

  /// Begins to copy a tile, whose first pixel is the block's `begin`-th.
  __device__ __forceinline__ void copy(int begin) const {
    const int packs = min(norm_.tile_pixels, pixels_ - begin) * norm_.columns;
    const int parted = copied_channel_ < norm_.first_channels ? norm_.first_channels : second_channels();
    const int step = parted * static_cast<int>(blockDim.y) * (kWidth / 2);
    const T* from = element(first_pixel_ + begin + copied_row_, copied_channel_);
#pragma unroll(kTimes)
    for (int pack = thread_; pack < packs; pack += threads()) {
      copy_pack(tile_ + pack, from);
      from += step;
    }
  }

  /// Reads the numbers for each channel and finds the groups' pivots.
  __device__ __forceinline__ void gather() const {
#pragma unroll 1
    for (int i = thread_; i < kChannelNumbers * channels(); i += threads()) {
      const int kind = i / channels();
      numbers_[i] = number(kind, first_channel_ + i - kind * channels());
    }
#pragma unroll 1
    for (int group = warps() - 1 - thread_ / kWarp; group < norm_.groups && group >= 0; group += warps()) {
      const int channel = first_channel_ + group * norm_.width;
      const auto pixel = static_cast<int>(static_cast<std::int64_t>(norm_.pixels) * lane() / kWarp);
      const float sum = join_warp<Sum>(to_float(*element(pixel, channel)) + number(kShift, channel));
      if (lane() == 0) pivots_[group] = sum / kWarp;
    }
  }

  /// Subtracted first from elements of this thread's channels: pivot less shift.
  __device__ __forceinline__ float2 center() const {
    const float2 shift = numbers(kShift);
    return {pivots_[group_] - shift.x, pivots_[group_] - shift.y};
  }

  /// Adds a tile's elements less the center, and the squares of these differences.
  __device__ __forceinline__ void add(int begin, float2 center, float2& sums) const {
    with_pixels<kTimes>(begin, [&](int /*pixel*/, bool is_there, float2 value) {
      value = is_there ? value + float2{-center.x, -center.y} : float2{};
      sums.x += value.x + value.y;
      sums.y = fmaf(value.x, value.x, fmaf(value.y, value.y, sums.y));
    });
  }

  /// Sends this block's sums to all blocks of the cluster; a warp adds up those of a group.
  __device__ __forceinline__ void tell(float2 sums) const {
    sums_of_threads_[pair() * sums_pitch() + row()] = sums;
    if (norm_.rows != sums_pitch() && row() == 0) sums_of_threads_[pair() * sums_pitch() + norm_.rows] = {};
    __syncthreads();
#if HR_HAS_HOPPER
    if (cluster() > 1) hopper::wait_for_cluster();  // all have begun
#endif
    if (thread_ / kWarp >= warps()) return;
#pragma unroll 1
    for (int group = thread_ / kWarp; group < norm_.groups; group += warps()) {
      const int count = norm_.width / 2 * sums_pitch();
      float2 all{};
#pragma unroll(kTimes)
      for (int i = lane(); i < count; i += kWarp) all = all + sums_of_threads_[group * count + i];
      all = {join_warp<Sum>(all.x), join_warp<Sum>(all.y)};
      float2* const to = sums_of_blocks_ + group * kSumsPitch + block_;
#if HR_HAS_HOPPER
      if (cluster() > 1) {
        if (lane() < cluster()) hopper::store_in_block(to, lane(), all, exchanged_);
        continue;
      }
#endif
      if (lane() == 0) *to = all;
    }
  }

  /// Waits until all blocks have sent their sums.
  __device__ __forceinline__ void hear() const {
#if HR_HAS_HOPPER
    if (cluster() > 1) {
      hopper::wait(exchanged_, 0);
      return;
    }
#endif
    __syncthreads();
  }

  /// Before its activation a channel is (x - center) * factor + term.
  struct Scaling {
    float2 factor, term;
  };
  /// The scaling of normed elements.
  __device__ __forceinline__ Scaling wanted_scaling() const {
    const float2 weight = numbers(kWeight), bias = numbers(kBias), offset = numbers(kOffset);
    const float2 scale = numbers(kScale) + float2{norm_.more, norm_.more};
    return {{weight.x * scale.x, weight.y * scale.y},
            {fmaf(bias.x, scale.x, offset.x), fmaf(bias.y, scale.y, offset.y)}};
  }
  /// The scaling of elements, after hear().
  __device__ __forceinline__ Scaling with_moments(const Scaling& wanted) const {
    float2 sums{};
#pragma unroll
    for (int block = 0; block < kMostCluster; block += 2) {
      const float4 two = *reinterpret_cast<const float4*>(sums_of_blocks_ + group_ * kSumsPitch + block);
      sums = sums + float2{two.x + two.z, two.y + two.w};
    }
    const float beyond = sums.x * norm_.share;  // the pivot, that the mean is
    const float variance = fmaf(-beyond, beyond, sums.y * norm_.share);
    const float inverse = rsqrtf((variance < 0 ? 0 : variance) + norm_.eps);  // NaN stays
    const float2 factor{wanted.factor.x * inverse, wanted.factor.y * inverse};
    return {factor, {fmaf(-beyond, factor.x, wanted.term.x), fmaf(-beyond, factor.y, wanted.term.y)}};
  }

  /// Writes a tile's results. U-Nets have silu; the other activations share one copy, as they would be most of the
  /// code.
  template <bool kIsSilu>
  __device__ __forceinline__ void write(int begin, float2 center, const Scaling& scaling) const {
    const std::int64_t first = (image_pixel() + first_pixel_ + begin) * norm_.channels + first_channel_ + 2 * pair();
    T* const y = static_cast<T*>(operands_.y) + first;
    T* const whole = static_cast<T*>(operands_.whole) + first;
    with_pixels<kIsSilu ? kTimes : 1>(begin, [&](int pixel, bool is_there, float2 value) {
      const std::int64_t place = static_cast<std::int64_t>(pixel) * norm_.channels;
      if (is_there && operands_.whole != nullptr) store(value, whole + place);
      value = {fmaf(value.x - center.x, scaling.factor.x, scaling.term.x),
               fmaf(value.y - center.y, scaling.factor.y, scaling.term.y)};
      if constexpr (kIsSilu)
        value = {formula<Op::kSilu>(value.x), formula<Op::kSilu>(value.y)};
      else
        value = {activate(norm_.activation, value.x), activate(norm_.activation, value.y)};
      if (is_there) store(value, y + place);
    });
  }

 private:
  static __device__ __forceinline__ int pair() { return static_cast<int>(threadIdx.x); }
  static __device__ __forceinline__ int row() { return static_cast<int>(threadIdx.y); }
  static __device__ __forceinline__ int threads() { return static_cast<int>(blockDim.x * blockDim.y); }
  static __device__ __forceinline__ int warps() { return threads() / kWarp; }  // whole ones
  __device__ __forceinline__ int lane() const { return thread_ % kWarp; }
  __device__ __forceinline__ int cluster() const { return 1 << norm_.log2_cluster; }
  __device__ __forceinline__ int channels() const { return norm_.columns * kWidth; }
  __device__ __forceinline__ int second_channels() const { return norm_.channels - norm_.first_channels; }
  __device__ __forceinline__ int sums_pitch() const { return norm_.rows | 1; }
  __device__ __forceinline__ std::int64_t image_pixel() const {
    return static_cast<std::int64_t>(blockIdx.y) * norm_.pixels;
  }

  /// The address of an element of this image.
  __device__ __forceinline__ const T* element(int pixel, int channel) const {
    const std::int64_t at = image_pixel() + pixel;
    if (channel < norm_.first_channels)
      return static_cast<const T*>(operands_.first) + at * norm_.first_channels + channel;
    return static_cast<const T*>(operands_.second) + at * second_channels() + (channel - norm_.first_channels);
  }
  /// Calls use(pixel, is_there, pair) for every pixel of a tile that is this thread's, kAtOnce side by side, so
  /// that one does not wait for the other. After the last pixel it is also called for some that do not exist.
  template <int kAtOnce, class Use>
  __device__ __forceinline__ void with_pixels(int begin, const Use& use) const {
    const int pixels = min(norm_.tile_pixels, pixels_ - begin), rows = static_cast<int>(blockDim.y);
    const Pair<T>* const pairs = reinterpret_cast<const Pair<T>*>(tile_) + pair();
#pragma unroll 1
    for (int first = row(); first < pixels; first += kAtOnce * rows) {
      Pair<T> read[kAtOnce];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) read[k] = pairs[min(first + k * rows, pixels - 1) * (channels() / 2)];
#pragma unroll
      for (int k = 0; k < kAtOnce; ++k) use(first + k * rows, first + k * rows < pixels, expand(read[k]));
    }
  }
  __device__ __forceinline__ float number(int kind, int channel) const {
    const ChannelNumber& number = norm_.numbers[kind];
    const void* const from = operands_.numbers[kind];
    if (from == nullptr) return number.otherwise;
    const std::int64_t at = static_cast<int>(blockIdx.y) * number.image + channel * number.channel;
    return number.dtype == DType::kF32 ? static_cast<const float*>(from)[at]
                                       : to_float(static_cast<const T*>(from)[at]);
  }
  /// Those of this thread's channels.
  __device__ __forceinline__ float2 numbers(int kind) const {
    return reinterpret_cast<const float2*>(numbers_ + kind * channels())[pair()];
  }

  const GroupNormOnce& norm_;
  const GroupNormOperands& operands_;
  // In shared memory. Sums are of elements and of their squares.
  uint4* tile_;              // [pixels, columns]
  float2* sums_of_blocks_;   // [groups, kSumsPitch]
  float2* sums_of_threads_;  // [pairs, sums_pitch()], of which a group's lie side by side
  float* numbers_;           // [kinds, channels]
  float* pivots_;            // [groups]
  hopper::Barrier& exchanged_;
  int thread_, block_, first_channel_, first_pixel_, pixels_, group_, copied_row_, copied_channel_;
};

constexpr int kBoundedThreads =
    640;  // which leave each thread 48 registers, so that four blocks of 320 threads run at once

template <class T>
__global__ void __launch_bounds__(kBoundedThreads, 2)
    norm_once(const __grid_constant__ GroupNormOnce norm, const __grid_constant__ GroupNormOperands operands) {
  extern __shared__ uint4 shared[];
  __shared__ hopper::Barrier exchanged;
  let_next_begin();
  const NormBlock<T> block(norm, operands, shared, exchanged);
  block.prepare();
  wait_alone();
  block.copy(0);
  block.gather();
  wait_for_copies();
  __syncthreads();
  const float2 center = block.center();
  float2 sums{};
  block.add(0, center, sums);
#pragma unroll 1
  for (int tile = 1; tile < norm.tiles; ++tile) {
    __syncthreads();
    block.copy(tile * norm.tile_pixels);
    wait_for_copies();
    __syncthreads();
    block.add(tile * norm.tile_pixels, center, sums);
  }
  block.tell(sums);
  const auto wanted = block.wanted_scaling();
  block.hear();
  const auto scaling = block.with_moments(wanted);
#pragma unroll 1
  for (int tile = norm.tiles - 1;; --tile) {
    const int begin = tile * norm.tile_pixels;
    norm.activation == Activation::kSilu ? block.template write<true>(begin, center, scaling)
                                         : block.template write<false>(begin, center, scaling);
    if (tile == 0) break;
    __syncthreads();
    block.copy(begin - norm.tile_pixels);
    wait_for_copies();
    __syncthreads();
  }
}

}  // namespace

GroupNormOnce shared_among_blocks(GroupNormOnce norm, int compute_capability) {
  const bool has_clusters = compute_capability == 90;
  const int width = norm.dtype == DType::kF32 ? 4 : 8, most_bytes = (has_clusters ? 200 : 80) << 10;
  norm.columns = norm.width / std::gcd(norm.width, width);
  norm.groups = norm.columns * width / norm.width;
  norm.chunk = norm.pixels;
  const auto has_most = [&] {
    const bool is_enough = norm.images * (norm.channels / width / norm.columns) << norm.log2_cluster >= kEnoughBlocks;
    return norm.chunk * norm.columns <= kMostPacks * (is_enough ? 4 : 1);
  };
  while (has_clusters && 1 << norm.log2_cluster < kMostCluster && !has_most())
    norm.chunk = divide_up(norm.pixels, 1 << ++norm.log2_cluster);
  norm.tiles = std::max(divide_up(norm.chunk, most_bytes / 16 / norm.columns), 1);
  norm.tile_pixels = divide_up(norm.chunk, norm.tiles);

  const int pairs = norm.columns * width / 2;
  norm.rows = divide_up(norm.chunk, kTimes * std::max(divide_up(norm.chunk, kTimes * (kMostNormThreads / pairs)), 1));
  norm.rows = std::max(norm.rows, divide_up(kWarp, pairs));  // a whole warp at least
  norm.shared_bytes = 16 * norm.tile_pixels * norm.columns +
                      static_cast<int>(sizeof(float2)) * (norm.groups * kSumsPitch + pairs * (norm.rows | 1)) +
                      static_cast<int>(sizeof(float)) * (kChannelNumbers * 2 * pairs + norm.groups);
  norm.share = 1.0F / (static_cast<float>(norm.pixels) * static_cast<float>(norm.width));
  return norm;
}

void launch_group_norm_once(void* stream, const GroupNormOnce& norm, const GroupNormOperands& operands) {
  with_type_of(norm.dtype, [&](auto type) {
    using T = decltype(type);
    const int cluster = 1 << norm.log2_cluster, bundles = norm.channels / kFullPack<T> / norm.columns;
    launch_large(
        norm_once<T>,
        {.blocks = dim3(static_cast<unsigned>(cluster * bundles), static_cast<unsigned>(norm.images)),
         .threads = dim3(static_cast<unsigned>(norm.columns * kFullPack<T> / 2), static_cast<unsigned>(norm.rows)),
         .stream = static_cast<cudaStream_t>(stream),
         .shared_bytes = static_cast<std::size_t>(norm.shared_bytes),
         .cluster = cluster > 1 ? cluster : 0},
        norm, operands);
  });
  check_launched("cuda group_norm kernel in one launch");
}

}  // namespace headroom::cuda
