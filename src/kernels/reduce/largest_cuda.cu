// argmax and topk on a GPU: the indices of the largest elements, equal ones in their order
//
// NaN is larger than any number. Dtypes f32, bf16 or f16. A warp reduces an axis for argmax, reading x once. For
// topk a block scans its row once for each of the k, and finds the largest element after the previous one in the
// order. k is small in models (top_k of a sampler), and a row stays in cache.

#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/reduce/reduced_axes.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

/// An element and its index; a negative index means none.
struct Candidate {
  float value;
  std::int32_t place;
};

/// Whether `a` comes before `b` in descending order.
__device__ __forceinline__ bool comes_first(Candidate a, Candidate b) {
  if (a.place < 0 || b.place < 0) return b.place < 0 && a.place >= 0;
  const bool a_is_nan = a.value != a.value, b_is_nan = b.value != b.value;
  if (a_is_nan != b_is_nan) return a_is_nan;
  if (!a_is_nan && a.value != b.value) return a.value > b.value;
  return a.place < b.place;
}
__device__ __forceinline__ Candidate first_of(Candidate a, Candidate b) { return comes_first(b, a) ? b : a; }

__device__ __forceinline__ Candidate first_of_warp(Candidate own) {
#pragma unroll
  for (int lane = 16; lane > 0; lane /= 2)
    own = first_of(own, {__shfl_xor_sync(0xFFFFFFFFU, own.value, lane), __shfl_xor_sync(0xFFFFFFFFU, own.place, lane)});
  return own;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    argmax_kernel(GridRows<2> places, std::int64_t count, std::int64_t step, const T* x, std::int32_t* y) {
  wait_for_previous();
  const std::int64_t result = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.y;
  if (result >= places.rows) return;  // the whole warp
  std::int64_t at[2];
  find_row(places, result, at);
  Candidate own{0, -1};
  for (std::int64_t i = threadIdx.x; i < count; i += 32)
    own = first_of(own, {to_float(x[at[0] + i * step]), static_cast<std::int32_t>(i)});
  own = first_of_warp(own);
  if (threadIdx.x == 0) y[at[1]] = own.place;
}

template <class T>
__global__ void __launch_bounds__(kThreads)
    topk_kernel(GridRows<3> rows, int k, const T* x, T* values, std::int32_t* places) {
  wait_for_previous();
  std::int64_t at[3];
  find_row(rows, blockIdx.x, at);
  __shared__ Candidate shared[kWarps];
  Candidate before{0, -1};
  for (int j = 0; j < k; ++j) {
    Candidate own{0, -1};
    for (std::int64_t i = threadIdx.x; i < rows.length; i += kThreads) {
      const Candidate here{to_float(x[at[0] + i]), static_cast<std::int32_t>(i)};
      if (j == 0 || comes_first(before, here)) own = first_of(own, here);
    }
    own = first_of_warp(own);
    __syncthreads();  // those of the previous iteration have been read
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = own;
    __syncthreads();
    before = shared[0];
    for (int warp = 1; warp < kWarps; ++warp) before = first_of(before, shared[warp]);
    if (threadIdx.x == 0) {
      values[at[1] + j] = x[at[0] + before.place];
      places[at[2] + j] = before.place;
    }
  }
}

KernelPlan plan_argmax(const KernelBinding& binding) {
  const Operand &x = binding.inputs[0], &y = binding.outputs[0];
  const auto axis = static_cast<int>(binding.spec.attributes[attr::kAxis]);
  const GridRows<2> places = to_grid(places_without(axis, x, y));
  const std::int64_t count = x.type.shape[axis], step = x.strides[axis];
  return {[=, dtype = x.type.dtype](const LaunchArguments& arguments) {
    if (places.rows == 0) return;
    with_type_of(dtype, [&](auto type) {
      using T = decltype(type);
      launch_early(argmax_kernel<T>,
                   {blocks_along_x(divide_up(places.rows, kWarps)), dim3(32, kWarps),
                    static_cast<cudaStream_t>(arguments.stream.native_handle())},
                   places, count, step, arguments.input<T>(0), arguments.output<std::int32_t>(0));
    });
    check_launched("cuda argmax kernel");
  }};
}

KernelPlan plan_topk(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const GridRows<3> rows =
      to_grid(rows_of<3>(x.type.shape, {x.strides, binding.outputs[0].strides, binding.outputs[1].strides}));
  const auto k = static_cast<int>(binding.spec.attributes[attr::kK]);
  return {[=, dtype = x.type.dtype](const LaunchArguments& arguments) {
    if (rows.rows == 0) return;
    with_type_of(dtype, [&](auto type) {
      using T = decltype(type);
      launch_early(topk_kernel<T>,
                   {blocks_along_x(rows.rows), kThreads, static_cast<cudaStream_t>(arguments.stream.native_handle())},
                   rows, k, arguments.input<T>(0), arguments.output<T>(0), arguments.output<std::int32_t>(1));
    });
    check_launched("cuda topk kernel");
  }};
}

Support supports_argmax(const OpSpec& spec) {
  const TensorType& x = spec.inputs[0];
  if (!is_element(x.dtype)) return Rejection{fmt::format("takes f32, bf16 or f16, not {}", x.dtype)};
  return std::nullopt;
}

Support supports_topk(const OpSpec& spec) {
  if (Support rejection = supports_row_major(spec)) return rejection;
  if (spec.inputs[0].shape[-1] > kMostRowLength)
    return Rejection{fmt::format("takes rows of up to {} elements, not {}", kMostRowLength, spec.inputs[0].shape[-1])};
  return supports_argmax(spec);
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_argmax() {
  static const cuda::CudaKernel kernel({.name = "cuda.argmax",
                                        .op = Op::kArgmax,
                                        .supports = cuda::supports_argmax,
                                        .strides = StrideRule::kAny,
                                        .plan = cuda::plan_argmax});
  return kernel;
}

const Kernel& cuda_topk() {
  static const cuda::CudaKernel kernel(
      {.name = "cuda.topk", .op = Op::kTopk, .supports = cuda::supports_topk, .plan = cuda::plan_topk});
  return kernel;
}

}  // namespace headroom
