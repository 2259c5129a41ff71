// scatter_add on a GPU: y[n, :] = x[n, :] + the sum of updates[i, :] over the i for which ids[i] is n
//
// Dtypes     f32, bf16 or f16 in memory, f32 arithmetic, one rounding; ids of i32 or i64. One outside takes the nearest
//            row.
// Strides    dense.
// Bytes      x and updates read and y written once, and the ids once for each row, from the cache.
//
// A block computes kThreads columns of one row and scans all ids for that row's updates, a tile of them at a time in
// shared memory. Every row is summed in the order of its updates, without atomics, and has the same bits in every
// run.

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

struct Scatter {
  std::int64_t rows, length, updates;
  bool has_wide_ids;
};

template <class T>
__global__ void __launch_bounds__(kThreads)
    scatter_add_kernel(Scatter scatter, const T* x, const void* ids, const T* updates, T* y) {
  wait_for_previous();
  __shared__ std::int64_t tile[kThreads];
  const std::int64_t row = blockIdx.x;
  const std::int64_t column = static_cast<std::int64_t>(blockIdx.y) * kThreads + threadIdx.x;
  const bool exists = column < scatter.length;
  float sum = exists ? to_float(x[row * scatter.length + column]) : 0.0F;
  for (std::int64_t first = 0; first < scatter.updates; first += kThreads) {
    const std::int64_t own = first + threadIdx.x;
    __syncthreads();  // the tile before has been read
    if (own < scatter.updates) {
      const std::int64_t id = scatter.has_wide_ids ? static_cast<const std::int64_t*>(ids)[own]
                                                   : std::int64_t{static_cast<const std::int32_t*>(ids)[own]};
      tile[threadIdx.x] = id < 0 ? 0 : id < scatter.rows ? id : scatter.rows - 1;
    }
    __syncthreads();
    const auto count = static_cast<int>(min(std::int64_t{kThreads}, scatter.updates - first));
    for (int i = 0; i < count; ++i)
      if (tile[i] == row && exists) sum += to_float(updates[(first + i) * scatter.length + column]);
  }
  if (exists) y[row * scatter.length + column] = from_float<T>(sum);
}

KernelPlan plan(const KernelBinding& binding) {
  const TensorType& type = binding.outputs[0].type;
  const Scatter scatter{.rows = type.shape[0],
                        .length = type.shape.numel() / type.shape[0],
                        .updates = binding.inputs[1].type.shape[0],
                        .has_wide_ids = binding.inputs[1].type.dtype == DType::kI64};
  const dim3 blocks(static_cast<unsigned>(scatter.rows), static_cast<unsigned>(divide_up(scatter.length, kThreads)));
  return {[=, dtype = type.dtype](const LaunchArguments& arguments) {
    with_type_of(dtype, [&](auto element) {
      using T = decltype(element);
      launch_early(scatter_add_kernel<T>,
                   {blocks, kThreads, static_cast<cudaStream_t>(arguments.stream.native_handle())}, scatter,
                   arguments.input<T>(0), arguments.input(1), arguments.input<T>(2), arguments.output<T>(0));
    });
    check_launched("cuda scatter_add kernel");
  }};
}

Support supports(const OpSpec& spec) {
  constexpr std::int64_t kMostBlocks = 65535;  // along y
  const TensorType& x = spec.inputs[0];
  if (!is_element(x.dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", x.dtype)};
  if (x.shape.numel() == 0 || x.shape.numel() / x.shape[0] > kMostBlocks * kThreads)
    return Rejection{fmt::format("takes rows of up to {} elements", kMostBlocks * kThreads)};
  return supports_row_major(spec);
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_scatter_add() {
  static const cuda::CudaKernel kernel({.name = "cuda.scatter_add",
                                        .op = Op::kScatterAdd,
                                        .supports = cuda::supports,
                                        .strides = StrideRule::kDense,
                                        .in_place = true,
                                        .kept = 0b110,
                                        .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
