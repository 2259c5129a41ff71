// rope_table:          cos, sin of ids[s, a] * theta^(-2i / axes[a]), i < axes[a]/2, the axes side by side -> [s, d/2]
// each timestep_embedding:  [cos, sin] of scale * t[b] * max_period^(-i / (dim/2)) -> [b, dim]  (DDPM, Ho et al. 2020,
// appendix B)
//
// Both run once a request or a step, on little data, and the angles reach thousands of radians, where f32 has lost the
// digits that matter: so double throughout, f32 out, any number dtype in. 4608 x 64 angles take a few microseconds.

#include "kernels/core/cuda/as_double.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/elementwise/cast_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 128;

__global__ void rope_table_kernel(RopeTable table, const void* ids, float* cos_out, float* sin_out) {
  wait_for_previous();
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(element, table.half);
  if (at.quotient >= table.positions) return;
  int axis = 0;
  auto column = static_cast<int>(at.remainder);
  while (column >= table.extents[axis]) column -= table.extents[axis++];
  const double frequency = pow(table.theta, -static_cast<double>(column) / table.extents[axis]);
  const double id = load_double(ids, table.ids, at.quotient * table.ids_strides[0] + axis * table.ids_strides[1]);
  double sine, cosine;
  sincos(id * frequency, &sine, &cosine);
  cos_out[at.quotient * table.cos_row + at.remainder] = static_cast<float>(cosine);
  sin_out[at.quotient * table.sin_row + at.remainder] = static_cast<float>(sine);
}

__global__ void timestep_embedding_kernel(TimestepEmbedding embedding, const void* time, float* y) {
  wait_for_previous();
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(element, embedding.half);
  if (at.quotient >= embedding.batch) return;
  const double frequency =
      embedding.scale * pow(embedding.max_period, -static_cast<double>(at.remainder) / embedding.half);
  double sine, cosine;
  sincos(load_double(time, embedding.time, at.quotient * embedding.time_stride) * frequency, &sine, &cosine);
  float* const to = y + at.quotient * embedding.row + at.remainder;
  to[0] = static_cast<float>(cosine);
  to[embedding.half] = static_cast<float>(sine);
}

}  // namespace

void launch_rope_table(void* stream, const RopeTable& table, const void* ids, float* cos, float* sin) {
  const std::int64_t elements = table.positions * table.half;
  if (elements == 0) return;
  launch_early(rope_table_kernel,
               {blocks_along_x(divide_up(elements, kThreads)), kThreads, static_cast<cudaStream_t>(stream)}, table, ids,
               cos, sin);
  check_launched("cuda rope_table kernel");
}

void launch_timestep_embedding(void* stream, const TimestepEmbedding& embedding, const void* time, float* y) {
  const std::int64_t elements = embedding.batch * embedding.half;
  if (elements == 0) return;
  launch_early(timestep_embedding_kernel,
               {blocks_along_x(divide_up(elements, kThreads)), kThreads, static_cast<cudaStream_t>(stream)}, embedding,
               time, y);
  check_launched("cuda timestep_embedding kernel");
}

}  // namespace headroom::cuda
