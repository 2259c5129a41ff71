// Sums or maxima of what the ranks of a collective have sent: bound by memory, and rarely more than a few numbers.

#include "kernels/collectives/sum_pieces_cuda.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;

__global__ void __launch_bounds__(kThreads)
    sum_pieces_kernel(const Pieces pieces, std::int64_t elements, bool largest, float* y) {
  wait_for_previous();
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (i >= elements) return;
  double value = pieces.at[0][i];
  for (int piece = 1; piece < pieces.count; ++piece) {
    const double next = pieces.at[piece][i];
    value = !largest ? value + next : isnan(value) || value >= next ? value : next;
  }
  y[i] = static_cast<float>(value);
}

}  // namespace

void sum_pieces(void* stream, const Pieces& pieces, std::int64_t elements, bool largest, float* y) {
  if (elements == 0) return;
  const dim3 blocks = blocks_along_x(divide_up<std::int64_t>(elements, kThreads));
  launch_early(sum_pieces_kernel, {blocks, dim3(kThreads), static_cast<cudaStream_t>(stream)}, pieces, elements,
               largest, y);
  check_launched("cuda sum_pieces kernel");
}

}  // namespace headroom::cuda
