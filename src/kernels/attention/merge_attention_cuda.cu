// merge_attention on a GPU: y = sum_p(w[p] x[p]) / sum_p(w[p]),  w[p] = exp(logsumexp[p] - max)   for each row
//
// Shapes     x[a..., p, c..., e], logsumexp[a..., p, c...] -> y[a..., c..., e], logsumexp[a..., c...] or none.
// Dtypes     x and y f32, bf16 or f16 in memory, logarithms f32; f32 arithmetic, one rounding.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      each part read once, y written once: bound by memory. FLOPs 2 for each element of x.
//
// A thread has a pack of a row's result and goes over the parts in their order, so that the bits are the same in every
// run. Each thread computes the weights of its row itself: an exponential of 16 a clock for each pack of x, of which
// memory delivers one a clock. The logarithms come from the first-level cache, where the threads of a row share them.

#include "kernels/attention/merge_problem.hpp"
#include "kernels/core/cuda/cuda_kernel.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr int kMergeThreads = 256;
constexpr int kPartsAtOnce = 4;  // whose loads are in flight

/// The parts of each row.
struct Parts {
  std::int64_t count, x_step, logsumexp_step;
};

template <class T, int kWidth>
__global__ void __launch_bounds__(kMergeThreads)
    merge_attention_kernel(GridRows<4> grid, Parts parts, std::int64_t packs, const T* x, const float* logs,
                           float* logsumexp, T* y) {
  wait_for_previous();
  const Division at = divide(static_cast<std::int64_t>(blockIdx.x) * kMergeThreads + threadIdx.x, packs);
  if (at.quotient >= grid.rows) return;
  std::int64_t offsets[4];
  find_row(grid, at.quotient, offsets);
  const T* const from = x + offsets[0] + at.remainder * kWidth;
  const float* const log_of = logs + offsets[1];
  float most = Max::kNeutral;
#pragma unroll 4
  for (std::int64_t part = 0; part < parts.count; ++part) most = fmaxf(most, log_of[part * parts.logsumexp_step]);
  const float reference = most == Max::kNeutral ? 0.0F : most;
  float total = 0, sums[kWidth] = {};
  for (std::int64_t first = 0; first < parts.count; first += kPartsAtOnce) {
    typename Packs<T, kWidth>::Raw raw[kPartsAtOnce];
    float log[kPartsAtOnce];
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      const std::int64_t part = first + i < parts.count ? first + i : parts.count - 1;
      log[i] = first + i < parts.count ? log_of[part * parts.logsumexp_step] : Max::kNeutral;
      raw[i] = Packs<T, kWidth>::read(from + part * parts.x_step);
    }
#pragma unroll
    for (int i = 0; i < kPartsAtOnce; ++i) {
      if (log[i] == Max::kNeutral) continue;  // it saw no key, or there is no such part
      const float weight = expf(log[i] - reference);
      float values[kWidth];
      Packs<T, kWidth>::expand(raw[i], values);
      total += weight;
#pragma unroll
      for (int j = 0; j < kWidth; ++j) sums[j] = fmaf(weight, values[j], sums[j]);
    }
  }
  const float inverse = total == 0 ? 0.0F : 1.0F / total;
#pragma unroll
  for (float& sum : sums) sum *= inverse;
  Packs<T, kWidth>::store(sums, y + offsets[3] + at.remainder * kWidth);
  if (logsumexp != nullptr && at.remainder == 0) logsumexp[offsets[2]] = reference + logf(total);
}

template <class T>
void merge(cudaStream_t stream, const GridRows<4>& grid, const Parts& parts, const T* x, const float* logs,
           float* logsumexp, T* y) {
  if (grid.rows * grid.length == 0) return;
  constexpr int kFull = kFullPack<T>;
  const bool is_wide = grid.length % kFull == 0 && parts.x_step % kFull == 0 && is_aligned(grid, kFull, {x, y});
  const std::int64_t packs = is_wide ? grid.length / kFull : grid.length;
  const dim3 blocks = blocks_along_x(divide_up<std::int64_t>(grid.rows * packs, kMergeThreads));
  const auto launch = [&](auto kernel) {
    launch_early(kernel, {blocks, dim3(kMergeThreads), stream}, grid, parts, packs, x, logs, logsumexp, y);
  };
  if (is_wide)
    launch(merge_attention_kernel<T, kFull>);
  else
    launch(merge_attention_kernel<T, 1>);
  check_launched("cuda merge_attention kernel");
}

KernelPlan plan(const KernelBinding& binding) {
  const MergeProblem problem = merge_problem(binding.spec, binding.inputs, binding.outputs);
  const Parts parts{problem.parts, problem.x_step, problem.logsumexp_step};
  return {[problem, parts, grid = to_grid(problem.rows)](const LaunchArguments& arguments) {
    with_type_of(problem.dtype, [&](auto type) {
      using T = decltype(type);
      merge(static_cast<cudaStream_t>(arguments.stream.native_handle()), grid, parts, arguments.input<T>(0),
            arguments.input<float>(1), problem.has_logsumexp ? arguments.output<float>(1) : nullptr,
            arguments.output<T>(0));
    });
  }};
}

}  // namespace
}  // namespace headroom::cuda

namespace headroom {

const Kernel& cuda_merge_attention() {
  static const cuda::CudaKernel kernel(
      {.name = "cuda.merge_attention", .op = Op::kMergeAttention, .supports = cuda::supports_rows, .plan = cuda::plan});
  return kernel;
}

}  // namespace headroom
