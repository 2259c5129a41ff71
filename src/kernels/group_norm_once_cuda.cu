// group_norm in one launch on a GPU: y = act(((concat(a, b) + shift - mean) / sqrt(variance + eps) * weight + bias) * scale + offset)
//
// Shapes     a[b, c1, h, w], b[b, c2, h, w] or none, weight[c], bias[c], shift, scale and offset[b or 1, c, 1, 1] or none ->
//            y[b, c, h, w] and, where that is wanted, concat(a, b), channels last.
// Dtypes     images f32, bf16 or f16, the rest the same or f32; f32 arithmetic, one rounding.
// Alignment  packs of 16 bytes, each of parts of two groups at most (ir/group_norm_program.hpp).
// Bytes      images read and written once where threads keep what they read, up to 24 KiB a block; beyond that they are read twice,
//            the second time from a cache.
//
// A bundle is the fewest channels that are whole groups and whole packs: 40 where groups have 10, 20 or 40. A cluster of up to
// eight blocks takes one of an image, and a thread one column of packs of it, every rows-th pixel. Each step below sums about a mean
// of what it sums (Chan, Golub and LeVeque 1979), so nothing cancels, and in an order that is always the same:
//
//   threads   the one or two groups that their packs have a part in, channel by channel first
//   warps     join what threads have of a group, `parts` warps each
//   clusters  join that of all their blocks, from shared memory
//
// What group_norm_cuda.cu does in three launches, with tables and partial sums in memory between them. At 64x64 and less a launch takes
// longer than its bytes do, and so did, of 7 us at 8x8 (H200), the joins while one warp did all of a group's, in double.

#include <cooperative_groups.h>

#include <algorithm>
#include <numeric>

#include "kernels/cuda/device.cuh"
#include "kernels/cuda/formula.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/group_norm_once_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kMostThreads = 384;  // of which two blocks leave each thread 80 registers
constexpr int kMostCluster = 8;    // that every GPU with clusters takes
constexpr int kMostGroups = 8;     // of a bundle: a pack's elements
constexpr int kMostParts = kMostThreads / 32;
constexpr int kPacks = 4;  // that a thread reads at a time
constexpr int kWarp = 32;

struct Moments {
  float count, mean, squares;
};

/// What becomes of a group's elements: (x - mean) * inverse, where the mean has a part below the last place of an f32.
struct Scaling {
  float mean, below, inverse;
};

/// Numbers for the channels of a pack, of the images' dtype or f32; `otherwise` where there are none.
template <class T, int kWidth>
__device__ __forceinline__ void load_side(const void* from, bool is_wide, std::int64_t at, float otherwise,
                                          float (&to)[kWidth]) {
  if (from == nullptr) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[i] = otherwise;
  } else if (is_wide) {
    load(static_cast<const float*>(from) + at, to);
  } else {
    load(static_cast<const T*>(from) + at, to);
  }
}

/// The same of numbers that lie anyhow.
template <class T, int kWidth>
__device__ __forceinline__ void load_vector(const ChannelVector& vector, const void* from, std::int64_t image,
                                            int channel, float otherwise, float (&to)[kWidth]) {
  const std::int64_t at = image * vector.image + channel * vector.channel;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const std::int64_t element = at + i * vector.channel;
    if (from == nullptr)
      to[i] = otherwise;
    else
      to[i] = vector.dtype == DType::kF32 ? static_cast<const float*>(from)[element]
                                          : to_float(static_cast<const T*>(from)[element]);
  }
}

__device__ __forceinline__ Moments join(const Moments& a, const Moments& b) {
  if (b.count == 0) return a;
  const float count = a.count + b.count, share = b.count / count, apart = b.mean - a.mean;
  return {count, fmaf(apart, share, a.mean), a.squares + fmaf(apart * apart, a.count * share, b.squares)};
}

/// Those of the lanes of a warp together, in all of them. The mean is pivot + beyond.
struct WarpMoments {
  float count, pivot, beyond, squares;
};
__device__ __forceinline__ WarpMoments join_warp_of(const Moments& own) {
  const float pivot = __shfl_sync(0xFFFFFFFFU, own.mean, 0), apart = own.mean - pivot;
  float count = own.count, sum = own.count * apart;
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    count += __shfl_xor_sync(0xFFFFFFFFU, count, lane);
    sum += __shfl_xor_sync(0xFFFFFFFFU, sum, lane);
  }
  const float beyond = count > 0 ? sum / count : 0.0F;
  float squares = fmaf(own.count * (apart - beyond), apart - beyond, own.squares);
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) squares += __shfl_xor_sync(0xFFFFFFFFU, squares, lane);
  return {count, pivot, beyond, squares};
}

/// Of the packs of a thread: of the group that their first `split` elements belong to, and of that of the others.
template <class T, int kWidth>
__device__ __forceinline__ void take(const typename Packs<T, kWidth>::Raw (&raw)[kPacks], int valid,
                                     const float (&shift)[kWidth], int split, Moments (&moments)[2]) {
  float means[kWidth] = {}, squares[kWidth] = {};  // of each channel
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (p >= valid) continue;
    float values[kWidth];
    Packs<T, kWidth>::expand(raw[p], values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) means[i] += values[i];
  }
  const float pixels = static_cast<float>(valid), each = valid > 0 ? 1.0F / pixels : 0.0F;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) means[i] *= each;
#pragma unroll
  for (int p = 0; p < kPacks; ++p) {
    if (p >= valid) continue;
    float values[kWidth];
    Packs<T, kWidth>::expand(raw[p], values);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) squares[i] = fmaf(values[i] - means[i], values[i] - means[i], squares[i]);
  }
  float mean[2] = {}, sum[2] = {};
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    means[i] += shift[i];
    mean[0] += i < split ? means[i] : 0.0F;
    mean[1] += i < split ? 0.0F : means[i];
  }
  const auto channels = static_cast<float>(split), others = static_cast<float>(kWidth - split);
  mean[0] /= channels;
  mean[1] = others > 0 ? mean[1] / others : 0.0F;
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const float apart = means[i] - (i < split ? mean[0] : mean[1]);
    const float about = fmaf(pixels * apart, apart, squares[i]);
    sum[0] += i < split ? about : 0.0F;
    sum[1] += i < split ? 0.0F : about;
  }
  moments[0] = join(moments[0], {pixels * channels, mean[0], sum[0]});
  moments[1] = join(moments[1], {pixels * others, mean[1], sum[1]});
}

struct Shared {
  Moments of_thread[2][kMostThreads];
  Moments of_block[kMostGroups][kMostParts];
  Scaling scaling[kMostGroups];
};

/// `parts` warps for each group join what the threads have of it.
template <int kWidth>
__device__ __forceinline__ void join_block(const GroupNormOnce& norm, Shared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
  for (int task = static_cast<int>(threadIdx.x) / kWarp; task < norm.groups * norm.parts; task += warps) {
    const int part = task / norm.groups, group = task - part * norm.groups;
    const int begin = group * norm.width, first = begin / kWidth;  // column
    const int columns = (begin + norm.width - 1) / kWidth - first + 1;
    Moments own{};
    for (int e = part * kWarp + lane; e < columns * norm.rows; e += norm.parts * kWarp) {
      const int column = e / norm.rows, row = e - column * norm.rows;
      const int slot = column == 0 && first * kWidth < begin ? 1 : 0;
      own = join(own, shared.of_thread[slot][row * norm.columns + first + column]);
    }
    const WarpMoments all = join_warp_of(own);
    if (lane == 0) shared.of_block[group][part] = {all.count, all.pivot + all.beyond, all.squares};
  }
}

/// A warp for each group joins what all blocks have of it; `read` gives what a block's part has.
template <class Read>
__device__ __forceinline__ void join_blocks(const GroupNormOnce& norm, Shared& shared, Read read) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warps = static_cast<int>(blockDim.x) / kWarp;
  for (int group = static_cast<int>(threadIdx.x) / kWarp; group < norm.groups; group += warps) {
    Moments own{};
    for (int e = lane; e < norm.cluster * norm.parts; e += kWarp) {
      const int block = e / norm.parts;
      own = join(own, read(block, group, e - block * norm.parts));
    }
    const WarpMoments all = join_warp_of(own);
    const float mean = all.pivot + all.beyond;
    if (lane == 0)
      shared.scaling[group] = {mean, all.beyond - (mean - all.pivot),
                               1.0F / sqrtf(all.squares / all.count + static_cast<float>(norm.eps))};
  }
}

/// Joins what the blocks have of each group. A block of a cluster must not be gone before `leave_cluster`.
__device__ __forceinline__ void join_all(const GroupNormOnce& norm, Shared& shared) {
#if __CUDA_ARCH__ >= 900
  if (norm.cluster > 1) {
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
    join_blocks(norm, shared, [&](int block, int group, int part) {
      const auto cluster = cooperative_groups::this_cluster();
      return *cluster.map_shared_rank(&shared.of_block[group][part], static_cast<unsigned>(block));
    });
    asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory");
    __syncthreads();
    return;
  }
#endif
  __syncthreads();
  join_blocks(norm, shared, [&](int /*block*/, int group, int part) { return shared.of_block[group][part]; });
  __syncthreads();
}

__device__ __forceinline__ void leave_cluster([[maybe_unused]] const GroupNormOnce& norm) {
#if __CUDA_ARCH__ >= 900
  if (norm.cluster > 1) asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
}

/// What U-Nets have is computed in place; of the others, which would be most of the code, there is one copy.
__device__ __noinline__ float activate_apart(Activation activation, float x) { return activate(activation, x); }

template <int kWidth>
__device__ __forceinline__ void finish(float (&values)[kWidth], const float (&center)[kWidth],
                                       const float (&factor)[kWidth], const float (&term)[kWidth],
                                       Activation activation) {
#pragma unroll
  for (int i = 0; i < kWidth; ++i) values[i] = fmaf(values[i] - center[i], factor[i], term[i]);
  if (activation == Activation::kSilu) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = formula<Op::kSilu>(values[i]);
  } else if (activation != Activation::kNone) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] = activate_apart(activation, values[i]);
  }
}

template <class T, int kWidth, bool kIsKept>
__global__ void __launch_bounds__(kMostThreads, 2) norm_once(GroupNormOnce norm, GroupNormOperands operands) {
  wait_for_previous();
  __shared__ Shared shared;
  using Raw = typename Packs<T, kWidth>::Raw;
  const auto thread = static_cast<int>(threadIdx.x);
  const int row = thread / norm.columns, column = thread - row * norm.columns;
  const auto at = static_cast<int>(blockIdx.x) / norm.cluster;
  const int block = static_cast<int>(blockIdx.x) - at * norm.cluster;
  const int bundles = norm.channels / kWidth / norm.columns;
  const int image = at / bundles, bundle = at - image * bundles;

  const int channel = (bundle * norm.columns + column) * kWidth;
  const bool is_second = channel >= norm.first_channels;
  const int step = is_second ? norm.channels - norm.first_channels : norm.first_channels;
  const T* const from = static_cast<const T*>(is_second ? operands.second : operands.first) +
                        static_cast<std::int64_t>(image) * norm.pixels * step + channel -
                        (is_second ? norm.first_channels : 0);
  const std::int64_t made = static_cast<std::int64_t>(image) * norm.pixels * norm.channels + channel;
  const int begin = block * norm.chunk + row;
  const int end = row < norm.rows ? min((block + 1) * norm.chunk, norm.pixels) : 0;
  const int turn = norm.rows * kPacks;
  const int group = column * kWidth / norm.width;  // of the bundle, that the first elements belong to
  const int split = min(kWidth, (group + 1) * norm.width - column * kWidth);

  Raw raw[kPacks];
  const auto read = [&](int first) {
    int valid = 0;
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pixel = first + p * norm.rows;
      if (pixel >= end) continue;
      raw[p] = Packs<T, kWidth>::read(from + static_cast<std::int64_t>(pixel) * step);
      valid = p + 1;
    }
    return valid;
  };
  float center[kWidth];
  Moments moments[2] = {};
  {
    int valid = read(begin);
    load_vector<T>(norm.shift, operands.shift, image, channel, 0.0F, center);
    take<T, kWidth>(raw, valid, center, split, moments);
    if constexpr (!kIsKept) {
      for (int first = begin + turn; first < end; first += turn) {
        valid = read(first);
        take<T, kWidth>(raw, valid, center, split, moments);
      }
    }
  }
  shared.of_thread[0][thread] = moments[0];
  shared.of_thread[1][thread] = moments[1];
  float factor[kWidth], term[kWidth];
  load_side<T>(operands.weight, norm.side == DType::kF32, channel, 1.0F, factor);
  load_side<T>(operands.bias, norm.side == DType::kF32, channel, 0.0F, term);
  if (operands.scale != nullptr) {
    float scale[kWidth], offset[kWidth];
    load_vector<T>(norm.scale, operands.scale, image, channel, 0.0F, scale);
    load_vector<T>(norm.offset, operands.offset, image, channel, 0.0F, offset);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) {
      factor[i] *= scale[i] + norm.more;
      term[i] = fmaf(term[i], scale[i] + norm.more, offset[i]);
    }
  }
  __syncthreads();
  join_block<kWidth>(norm, shared);
  join_all(norm, shared);
  const Scaling near = shared.scaling[group], far = shared.scaling[min(group + 1, norm.groups - 1)];
#pragma unroll
  for (int i = 0; i < kWidth; ++i) {
    const Scaling& scaling = i < split ? near : far;
    factor[i] *= scaling.inverse;
    term[i] -= scaling.below * factor[i];
    center[i] = scaling.mean - center[i];
  }

  T* const to = static_cast<T*>(operands.y) + made;
  T* const whole = operands.whole == nullptr ? nullptr : static_cast<T*>(operands.whole) + made;
  const auto write = [&](int first) {
#pragma unroll
    for (int p = 0; p < kPacks; ++p) {
      const int pixel = first + p * norm.rows;
      if (pixel >= end) continue;
      const std::int64_t place = static_cast<std::int64_t>(pixel) * norm.channels;
      if (whole != nullptr) *reinterpret_cast<Raw*>(whole + place) = raw[p];
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[p], values);
      finish(values, center, factor, term, norm.activation);
      Packs<T, kWidth>::store(values, to + place);
    }
  };
  if constexpr (kIsKept) {
    write(begin);
  } else {
    for (int first = begin; first < end; first += turn) {
      read(first);
      write(first);
    }
  }
  leave_cluster(norm);
}

template <class T, bool kIsKept>
void submit(cudaStream_t stream, const GroupNormOnce& norm, const GroupNormOperands& operands) {
  const std::int64_t bundles = norm.channels / kFullPack<T> / norm.columns;
  launch_early(norm_once<T, kFullPack<T>, kIsKept>,
               {.blocks = blocks_along_x(norm.images * bundles * norm.cluster),
                .threads = dim3(static_cast<unsigned>(norm.threads)),
                .stream = stream,
                .cluster = norm.cluster > 1 ? norm.cluster : 0},
               norm, operands);
}

}  // namespace

GroupNormOnce shared_among_blocks(GroupNormOnce norm, int compute_capability) {
  const int pack = norm.dtype == DType::kF32 ? 4 : 8;
  norm.columns = norm.width / std::gcd(norm.width, pack);
  norm.groups = norm.columns * pack / norm.width;
  const int most_rows = std::min(kMostThreads / norm.columns, norm.pixels);
  const int most_blocks = compute_capability >= 90 ? kMostCluster : 1;
  while (norm.cluster < most_blocks && norm.pixels > std::int64_t{norm.cluster} * most_rows * kPacks) norm.cluster *= 2;
  norm.chunk = divide_up(norm.pixels, norm.cluster);
  const int turns = divide_up(norm.chunk, most_rows);
  norm.is_kept = turns <= kPacks;
  norm.rows = divide_up(norm.chunk, turns);  // no more threads than have as much to do
  norm.threads = divide_up(norm.rows * norm.columns, kWarp) * kWarp;
  norm.parts = std::clamp(norm.threads / kWarp / norm.groups, 1, kMostParts);
  return norm;
}

void launch_group_norm_once(void* stream, const GroupNormOnce& norm, const GroupNormOperands& operands) {
  with_type_of(norm.dtype, [&](auto type) {
    using T = decltype(type);
    auto* const queue = static_cast<cudaStream_t>(stream);
    norm.is_kept ? submit<T, true>(queue, norm, operands) : submit<T, false>(queue, norm, operands);
  });
  check_launched("cuda group_norm kernel in one launch");
}

}  // namespace headroom::cuda
