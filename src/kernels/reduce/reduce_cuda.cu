// sum, mean, amax, amin over axes on a GPU: y[kept...] of x[kept..., reduced...], in whatever order these are
//
// Dtypes     f32, bf16 or f16 in memory; sums in double, rounded once. A NaN wins.
// Alignment  none.
// Bytes      x read and y written once.
//
// If the contiguous axis is reduced, a block, or a warp for short ones, reduces the elements of one result. If it is
// kept, as for the bias of a linear or a channels-last image that is reduced to its channels, a block computes 32
// contiguous results, or as many packs of 16 bytes, and its warps share the reduced positions. Few results would leave
// most multiprocessors idle: then each has several blocks, which write parts to scratch memory, and a second kernel
// joins these in their order. The same bits come out in every run.

#include <algorithm>
#include <type_traits>

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/reduce/reduced_axes.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr std::int64_t kShort = 1024;  // elements that a warp joins by itself
constexpr int kMostParts = 1024;       // of a result

struct Add {
  using Number = double;
  static __device__ __forceinline__ double neutral() { return 0.0; }
  static __device__ __forceinline__ double join(double a, double b) { return a + b; }
};
struct Largest {
  using Number = float;
  static __device__ __forceinline__ float neutral() { return -__builtin_huge_valf(); }
  static __device__ __forceinline__ float join(float a, float b) { return a > b || a != a ? a : b; }
};
struct Smallest {
  using Number = float;
  static __device__ __forceinline__ float neutral() { return __builtin_huge_valf(); }
  static __device__ __forceinline__ float join(float a, float b) { return a < b || a != a ? a : b; }
};

/// A reduction, all but its addresses.
struct Reduction {
  Op op = Op::kSum;
  DType dtype = DType::kF32;
  double factor = 1;    ///< of a sum
  GridRows<2> kept;     ///< of x and y; rows of one element
  GridRows<1> reduced;  ///< of x, from where a result begins
  std::int64_t columns = 0, column_stride = 0;
  std::int64_t results = 0;
  int multiprocessors = 1;
  bool has_packs = false;  ///< of 16 bytes along the columns
};

/// The offset of element `i` of a result's elements.
__device__ __forceinline__ std::int64_t place_of(const GridRows<1>& reduced, std::int64_t i) {
  if (reduced.rank == 0) return i;
  const Division at = divide(i, reduced.length);
  std::int64_t offset[1];
  find_row(reduced, at.quotient, offset);
  return offset[0] + at.remainder;
}

/// The join of those of `count` elements that are a thread's: every `step`th from `first` on. Four are read at a time.
template <class How, class T>
__device__ __forceinline__ typename How::Number join_own(const GridRows<1>& reduced, std::int64_t count, const T* x,
                                                         std::int64_t first, std::int64_t step) {
  constexpr int kAtOnce = 4;
  typename How::Number joined = How::neutral();
  for (std::int64_t i = first; i < count; i += kAtOnce * step) {
    float values[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k * step < count) values[k] = to_float(x[place_of(reduced, i + k * step)]);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k * step < count) joined = How::join(joined, values[k]);
  }
  return joined;
}

template <class How, class T>
__device__ __forceinline__ T result_of(typename How::Number joined, double factor) {
  return from_float<T>(static_cast<float>(joined * static_cast<typename How::Number>(factor)));
}

/// A block's share of `count` reduced positions, by its number along y.
__device__ __forceinline__ std::int64_t part_begin(std::int64_t count, unsigned part) {
  return count * part / gridDim.y;
}

/// Writes a result, or this block's part of it.
template <class How, class T>
__device__ __forceinline__ void give(const Reduction& bound, std::int64_t result, std::int64_t place,
                                     typename How::Number joined, typename How::Number* parts, T* y) {
  if (gridDim.y > 1)
    parts[blockIdx.y * bound.results + result] = joined;
  else
    y[place] = result_of<How, T>(joined, bound.factor);
}

/// blockDim.x threads, a warp or the whole block, for each result.
template <class How, class T>
__global__ void __launch_bounds__(kThreads)
    reduce_rows(Reduction bound, const T* x, typename How::Number* parts, T* y) {
  wait_for_previous();
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool exists = result < bound.kept.rows;  // all threads of a block meet at the barrier
  std::int64_t at[2];
  find_row(bound.kept, exists ? result : 0, at);
  const std::int64_t count = exists ? bound.reduced.rows * bound.reduced.length : 0;
  auto joined = join_own<How>(bound.reduced, part_begin(count, blockIdx.y + 1), x + at[0],
                              part_begin(count, blockIdx.y) + threadIdx.x, blockDim.x);
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) joined = How::join(joined, __shfl_down_sync(0xFFFFFFFFU, joined, lane));
  if (blockDim.x > 32) {
    __shared__ typename How::Number partial[kWarps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = joined;
    __syncthreads();
    joined = How::neutral();
    for (int warp = 0; warp < kWarps; ++warp) joined = How::join(joined, partial[warp]);
  }
  if (exists && threadIdx.x == 0) give<How>(bound, result, at[1], joined, parts, y);
}

/// 32 packs of kWidth columns a block.
template <class How, class T, int kWidth>
__global__ void __launch_bounds__(kThreads)
    reduce_columns(Reduction bound, std::int64_t tiles, const T* x, typename How::Number* parts, T* y) {
  wait_for_previous();
  constexpr int kAtOnce = 4, kColumns = 32 * kWidth;
  const Division place = divide(blockIdx.x, tiles);
  const std::int64_t column = place.remainder * kColumns + threadIdx.x * kWidth;
  std::int64_t at[2];
  find_row(bound.kept, place.quotient, at);
  const std::int64_t count = bound.reduced.rows * bound.reduced.length;
  const std::int64_t end = column < bound.columns ? part_begin(count, blockIdx.y + 1) : 0;
  typename How::Number joined[kWidth];
#pragma unroll
  for (auto& each : joined) each = How::neutral();
  for (std::int64_t i = part_begin(count, blockIdx.y) + threadIdx.y; i < end; i += kAtOnce * kWarps) {
    typename Packs<T, kWidth>::Raw raw[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      if (i + k * kWarps < end)
        raw[k] = Packs<T, kWidth>::read(x + at[0] + column + place_of(bound.reduced, i + k * kWarps));
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      if (i + k * kWarps >= end) continue;
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[k], values);
#pragma unroll
      for (int j = 0; j < kWidth; ++j) joined[j] = How::join(joined[j], values[j]);
    }
  }
  __shared__ typename How::Number partial[kWarps][kColumns];
#pragma unroll
  for (int j = 0; j < kWidth; ++j) partial[threadIdx.y][threadIdx.x * kWidth + j] = joined[j];
  __syncthreads();
  for (int own = static_cast<int>(threadIdx.y * 32 + threadIdx.x); own < kColumns; own += kThreads) {
    const std::int64_t to = place.remainder * kColumns + own;
    if (to >= bound.columns) break;
    typename How::Number all = How::neutral();
    for (int warp = 0; warp < kWarps; ++warp) all = How::join(all, partial[warp][own]);
    give<How>(bound, place.quotient * bound.columns + to, at[1] + to * bound.column_stride, all, parts, y);
  }
}

/// 32 results a block, whose warps share the parts: they join these in a fixed order.
template <class How, class T>
__global__ void __launch_bounds__(kThreads)
    join_parts(Reduction bound, int count, const typename How::Number* parts, T* y) {
  wait_for_previous();
  constexpr int kAtOnce = 8;
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * 32 + threadIdx.x;
  const bool exists = result < bound.results;
  typename How::Number joined = How::neutral();
  for (int part = static_cast<int>(threadIdx.y); part < count && exists; part += kAtOnce * kWarps) {
    typename How::Number read[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k)
      read[k] = part + k * kWarps < count ? parts[(part + k * kWarps) * bound.results + result] : How::neutral();
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) joined = How::join(joined, read[k]);
  }
  __shared__ typename How::Number partial[kWarps][32];
  partial[threadIdx.y][threadIdx.x] = joined;
  __syncthreads();
  if (!exists || threadIdx.y != 0) return;
  joined = How::neutral();
  for (int warp = 0; warp < kWarps; ++warp) joined = How::join(joined, partial[warp][threadIdx.x]);
  const Division place = bound.columns > 0 ? divide(result, bound.columns) : Division{result, 0};
  std::int64_t at[2];
  find_row(bound.kept, place.quotient, at);
  y[at[1] + place.remainder * bound.column_stride] = result_of<How, T>(joined, bound.factor);
}

/// The blocks of a reduction along x, and how many parts of each result they compute.
struct Blocks {
  std::int64_t along_x = 0;
  int parts = 1;
};

/// As many parts as fill the multiprocessors, each of `least` reduced positions or more.
Blocks share(const Reduction& bound, int multiprocessors, int columns_of_block) {
  constexpr std::int64_t kBlocksEach = 8;       // of a multiprocessor
  constexpr std::int64_t kLeastOfColumns = 64;  // positions: two rounds of loads of a block's warps
  constexpr std::int64_t kLeastOfRow = std::int64_t{8} * kThreads;
  const std::int64_t count = bound.reduced.rows * bound.reduced.length;
  const bool keeps_columns = bound.columns > 0, is_short = count <= kShort;
  Blocks blocks;
  blocks.along_x = keeps_columns ? bound.kept.rows * divide_up<std::int64_t>(bound.columns, columns_of_block)
                   : is_short    ? divide_up(bound.kept.rows, kWarps)
                                 : bound.kept.rows;
  if (!keeps_columns && is_short) return blocks;
  const std::int64_t wanted = multiprocessors * kBlocksEach / blocks.along_x;
  const std::int64_t most = count / (keeps_columns ? kLeastOfColumns : kLeastOfRow);
  blocks.parts = static_cast<int>(std::clamp<std::int64_t>(std::min(wanted, most), 1, kMostParts));
  return blocks;
}

template <class How, class T>
void launch(cudaStream_t stream, const Reduction& bound, const T* x, typename How::Number* parts, T* y) {
  const std::int64_t count = bound.reduced.rows * bound.reduced.length;
  const auto grid = [](const Blocks& blocks) {
    return dim3(static_cast<unsigned>(blocks.along_x), static_cast<unsigned>(blocks.parts));
  };
  Blocks blocks;
  if (bound.columns > 0) {
    const auto with_width = [&](auto width) {
      constexpr int kWidth = decltype(width)::value;
      blocks = share(bound, bound.multiprocessors, 32 * kWidth);
      launch_early(reduce_columns<How, T, kWidth>, {grid(blocks), dim3(32, kWarps), stream}, bound,
                   divide_up<std::int64_t>(bound.columns, 32 * kWidth), x, parts, y);
    };
    if (bound.has_packs && reinterpret_cast<std::uintptr_t>(x) % 16 == 0)
      with_width(std::integral_constant<int, kFullPack<T>>());
    else
      with_width(std::integral_constant<int, 1>());
  } else {
    blocks = share(bound, bound.multiprocessors, 1);
    const dim3 threads = count <= kShort ? dim3(32, kWarps) : dim3(kThreads, 1);
    launch_early(reduce_rows<How, T>, {grid(blocks), threads, stream}, bound, x, parts, y);
  }
  if (blocks.parts > 1)
    launch_early(join_parts<How, T>,
                 {blocks_along_x(divide_up<std::int64_t>(bound.results, 32)), dim3(32, kWarps), stream}, bound,
                 blocks.parts, parts, y);
  check_launched("cuda reduction kernel");
}

/// Whether packs of 16 bytes along the columns are whole, from an aligned address on.
bool has_packs(const Reduction& bound) {
  const auto width = static_cast<std::int64_t>(16 / size_of(bound.dtype));
  const auto is_multiple = [&](const auto& grid) {
    for (int axis = 0; axis < grid.rank; ++axis)
      if (grid.extents[axis] > 1 && grid.strides[axis][0] % width != 0) return false;
    return true;
  };
  // A row of reduced positions has the stride of its columns' axis, or 1 if there are no others.
  return bound.columns % width == 0 && is_multiple(bound.kept) && is_multiple(bound.reduced) &&
         (bound.reduced.length == 1 || bound.reduced.repeats[0]);
}

KernelPlan plan(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const ReducedAxes axes = split_axes(binding.spec.attributes[attr::kAxes], x, binding.outputs[0]);
  if (binding.outputs[0].type.shape.numel() == 0) return {[](const LaunchArguments&) {}};
  Reduction bound;
  bound.op = binding.spec.op;
  bound.dtype = x.type.dtype;
  bound.factor = bound.op == Op::kMean ? 1 / static_cast<double>(axes.reduced.numel()) : 1.0;
  bound.kept = to_grid(rows_of<2>(axes.kept, {axes.kept_from, axes.kept_to}));
  bound.reduced = longest_grid<1>(axes.reduced, {axes.reduced_from});
  bound.columns = axes.columns;
  bound.column_stride = axes.column_stride;
  bound.results = binding.outputs[0].type.shape.numel();
  bound.multiprocessors = std::max(1, binding.target.multiprocessors);
  bound.has_packs = has_packs(bound);
  // A pack's width changes the number of blocks: scratch for the most parts.
  const int parts =
      std::max(share(bound, bound.multiprocessors, 32).parts,
               share(bound, bound.multiprocessors, static_cast<int>(32 * 16 / size_of(bound.dtype))).parts);
  const std::size_t scratch = parts > 1 ? sizeof(double) * static_cast<std::size_t>(parts * bound.results) : 0;
  const auto launch_all = [bound](const LaunchArguments& arguments) {
    auto* const stream = static_cast<cudaStream_t>(arguments.stream.native_handle());
    with_type_of(bound.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* const from = arguments.input<T>(0);
      auto* const to = arguments.output<T>(0);
      if (bound.op == Op::kAmax) return launch<Largest>(stream, bound, from, arguments.scratch_memory<float>(), to);
      if (bound.op == Op::kAmin) return launch<Smallest>(stream, bound, from, arguments.scratch_memory<float>(), to);
      launch<Add>(stream, bound, from, arguments.scratch_memory<double>(), to);
    });
  };
  return {launch_all, scratch};
}

KernelTraits over_axes(std::string_view name, Op op) {
  return {.name = name, .op = op, .supports = supports_elements, .strides = StrideRule::kAny, .plan = plan};
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

std::span<const cuda::CudaKernel> cuda_reductions() {
  static const cuda::CudaKernel kernels[] = {
      cuda::CudaKernel(cuda::over_axes("cuda.sum", Op::kSum)),
      cuda::CudaKernel(cuda::over_axes("cuda.mean", Op::kMean)),
      cuda::CudaKernel(cuda::over_axes("cuda.amax", Op::kAmax)),
      cuda::CudaKernel(cuda::over_axes("cuda.amin", Op::kAmin)),
  };
  return kernels;
}

}  // namespace headroom
