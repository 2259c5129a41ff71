// sum, mean, amax, amin over axes on a GPU: y[kept...] of x[kept..., reduced...], in whatever order these are
//
// Dtypes     f32, bf16 or f16 in memory; sums in double, rounded once. A NaN wins.
// Alignment  none.
// Bytes      x read and y written once.
//
// If the contiguous axis is reduced, a block, or a warp for short ones, reduces the elements of one result. If it is
// kept, as for a channels-last image that is reduced to its channels, a block computes 32 contiguous results, and
// its warps share the reduced positions.

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/reduce/reduced_axes.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
constexpr std::int64_t kShort = 1024;  // elements that a warp joins by itself

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

/// blockDim.x threads, a warp or the whole block, for each result.
template <class How, class T>
__global__ void __launch_bounds__(kThreads) reduce_rows(Reduction bound, const T* x, T* y) {
  wait_for_previous();
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool exists = result < bound.kept.rows;  // all threads of a block meet at the barrier
  std::int64_t at[2];
  find_row(bound.kept, exists ? result : 0, at);
  const std::int64_t count = exists ? bound.reduced.rows * bound.reduced.length : 0;
  auto joined = join_own<How>(bound.reduced, count, x + at[0], threadIdx.x, blockDim.x);
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2) joined = How::join(joined, __shfl_down_sync(0xFFFFFFFFU, joined, lane));
  if (blockDim.x > 32) {
    __shared__ typename How::Number partial[kWarps];
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = joined;
    __syncthreads();
    joined = How::neutral();
    for (int warp = 0; warp < kWarps; ++warp) joined = How::join(joined, partial[warp]);
  }
  if (exists && threadIdx.x == 0) y[at[1]] = result_of<How, T>(joined, bound.factor);
}

/// 32 columns a block.
template <class How, class T>
__global__ void __launch_bounds__(kThreads) reduce_columns(Reduction bound, std::int64_t tiles, const T* x, T* y) {
  wait_for_previous();
  const Division place = divide(blockIdx.x, tiles);
  const std::int64_t column = place.remainder * 32 + threadIdx.x;
  std::int64_t at[2];
  find_row(bound.kept, place.quotient, at);
  const bool exists = column < bound.columns;
  const std::int64_t count = exists ? bound.reduced.rows * bound.reduced.length : 0;
  __shared__ typename How::Number partial[kWarps][32];
  partial[threadIdx.y][threadIdx.x] = join_own<How>(bound.reduced, count, x + at[0] + column, threadIdx.y, kWarps);
  __syncthreads();
  if (!exists || threadIdx.y != 0) return;
  typename How::Number joined = How::neutral();
  for (int warp = 0; warp < kWarps; ++warp) joined = How::join(joined, partial[warp][threadIdx.x]);
  y[at[1] + column * bound.column_stride] = result_of<How, T>(joined, bound.factor);
}

template <class How, class T>
void launch(cudaStream_t stream, const Reduction& bound, const T* x, T* y) {
  if (bound.columns > 0) {
    const std::int64_t tiles = divide_up(bound.columns, 32);
    launch_early(reduce_columns<How, T>, {blocks_along_x(bound.kept.rows * tiles), dim3(32, kWarps), stream}, bound,
                 tiles, x, y);
  } else if (bound.reduced.rows * bound.reduced.length <= kShort) {
    launch_early(reduce_rows<How, T>, {blocks_along_x(divide_up(bound.kept.rows, kWarps)), dim3(32, kWarps), stream},
                 bound, x, y);
  } else {
    launch_early(reduce_rows<How, T>, {blocks_along_x(bound.kept.rows), dim3(kThreads, 1), stream}, bound, x, y);
  }
  check_launched("cuda reduction kernel");
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
  return {[bound](const LaunchArguments& arguments) {
    auto* const stream = static_cast<cudaStream_t>(arguments.stream.native_handle());
    with_type_of(bound.dtype, [&](auto type) {
      using T = decltype(type);
      const auto* const from = arguments.input<T>(0);
      auto* const to = arguments.output<T>(0);
      if (bound.op == Op::kAmax) return launch<Largest>(stream, bound, from, to);
      if (bound.op == Op::kAmin) return launch<Smallest>(stream, bound, from, to);
      launch<Add>(stream, bound, from, to);
    });
  }};
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
