// cumsum on a GPU: y[..., i] = x[..., 0] + ... + x[..., i]
//
// Dtypes     f32, bf16 or f16 in memory, f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      x read and y written once; 1 FLOP an element: bound by memory.
//
// The threads of a row take neighbouring packs, tile by tile. A thread sums its own pack. The sum of earlier packs
// of the tile comes from the lanes of its warp in five steps (Hillis and Steele 1986), and from earlier warps
// through shared memory.

#include <algorithm>

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr unsigned kMostThreads = 512;   // of a row
constexpr unsigned kLeastThreads = 128;  // of a block

/// The sum of `value` over the threads of a row, and over those before this thread.
struct Sums {
  float before;
  float all;
};
/// blockDim.x threads, whole warps, are a row; every thread of the block must call it.
__device__ __forceinline__ Sums sum_in_order(float value) {
  __shared__ float partial[32];  // one a warp of the block
  const auto lane = static_cast<int>(threadIdx.x) % 32;
  float sum = value;  // over the lanes up to this one
#pragma unroll
  for (int step = 1; step < 32; step *= 2) {
    const float below = __shfl_up_sync(0xFFFFFFFFU, sum, step);
    if (lane >= step) sum += below;
  }
  const int warps = static_cast<int>(blockDim.x) / 32;
  const int first = static_cast<int>(threadIdx.y) * warps;
  const int own = static_cast<int>(threadIdx.x) / 32;
  __syncthreads();  // the partials of the previous call have been read
  if (lane == 31) partial[first + own] = sum;
  __syncthreads();
  const float of_lanes = __shfl_up_sync(0xFFFFFFFFU, sum, 1);
  Sums sums{lane == 0 ? 0.0F : of_lanes, 0.0F};
  for (int warp = 0; warp < warps; ++warp) {
    if (warp == own) sums.before += sums.all;
    sums.all += partial[first + warp];
  }
  return sums;
}

template <class T, int kWidth>
__global__ void __launch_bounds__(kMostThreads) cumsum_kernel(GridRows<2> grid, std::int64_t packs, const T* x, T* y) {
  wait_for_previous();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const bool exists = row < grid.rows;  // all threads of a block reach the barriers
  std::int64_t offsets[2];
  find_row(grid, exists ? row : 0, offsets);
  float before = 0;
  for (std::int64_t tile = 0; tile < packs; tile += blockDim.x) {
    const std::int64_t pack = tile + threadIdx.x;
    const bool has_pack = exists && pack < packs;
    float values[kWidth] = {};
    if (has_pack) load(x + offsets[0] + pack * kWidth, values);
#pragma unroll
    for (int i = 1; i < kWidth; ++i) values[i] += values[i - 1];
    const Sums sums = sum_in_order(values[kWidth - 1]);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) values[i] += before + sums.before;
    if (has_pack) Packs<T, kWidth>::store(values, y + offsets[1] + pack * kWidth);
    before += sums.all;
  }
}

template <class T>
void launch(cudaStream_t stream, const GridRows<2>& grid, const T* x, T* y) {
  if (grid.rows * grid.length == 0) return;
  constexpr int kFull = kFullPack<T>;
  const bool is_wide = grid.length % kFull == 0 && is_aligned(grid, kFull, {x, y});
  const std::int64_t packs = is_wide ? grid.length / kFull : grid.length;
  const auto across = static_cast<unsigned>(std::min<std::int64_t>(kMostThreads, 32 * divide_up(packs, 32)));
  const dim3 threads(across, std::max(1U, kLeastThreads / across));
  const dim3 blocks = blocks_along_x(divide_up(grid.rows, threads.y));
  if (is_wide)
    launch_early(cumsum_kernel<T, kFull>, {blocks, threads, stream}, grid, packs, x, y);
  else
    launch_early(cumsum_kernel<T, 1>, {blocks, threads, stream}, grid, packs, x, y);
  check_launched("cuda cumsum kernel");
}

KernelPlan plan(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const GridRows<2> grid = to_grid(rows_of<2>(x.type.shape, {x.strides, y.strides}));
  return {[grid, dtype = x.type.dtype](const LaunchArguments& arguments) {
    with_type_of(dtype, [&](auto type) {
      using T = decltype(type);
      launch(static_cast<cudaStream_t>(arguments.stream.native_handle()), grid, arguments.input<T>(0),
             arguments.output<T>(0));
    });
  }};
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_cumsum() {
  static const cuda::CudaKernel kernel({.name = "cuda.cumsum",
                                        .op = Op::kCumsum,
                                        .supports = cuda::supports_rows,
                                        .in_place = true,
                                        .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
