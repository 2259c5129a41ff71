// Kernels of one thread that set the handle of a conditional node, and so decide whether its body runs. An observing
// host shares words in its own memory: a time for each iteration, written by one store, and one that stops the loop.
// Reading the latter over the link takes longer than all else here (1.3 us on an H200), so a loop of short
// iterations does not read it after each.

#include <cstdint>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/early_launch.cuh"
#include "backends/cuda/region_control.cuh"

namespace headroom::cuda {
namespace {

/// The longest delay, or one iteration, until a stopped loop ends.
constexpr std::uint64_t kNanosecondsBetweenLooks = 1000000;

__device__ std::uint64_t clock_ns() {
  std::uint64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

__device__ bool is_stopped(const LoopControl& loop, std::uint64_t now) {
  *loop.looked_ns = now;
  return *static_cast<const volatile std::uint32_t*>(loop.is_stopped) != 0;
}

__device__ void note_end(const LoopControl& loop, std::int32_t iterations, std::uint64_t now) {
  static_cast<volatile std::uint64_t*>(loop.ends_ns)[iterations] = now;
}

__global__ void begin_loop_kernel(LoopControl loop) {
  wait_for_previous();
  bool goes_on = loop.trip_count > 0;
  if (loop.ends_ns != nullptr) {
    const std::uint64_t now = clock_ns();
    note_end(loop, 0, now);
    if (is_stopped(loop, now)) goes_on = false;
  }
  *loop.counter = 0;
  cudaGraphSetConditional(loop.goes_on, goes_on ? 1 : 0);
}

__global__ void end_iteration_kernel(LoopControl loop) {
  wait_for_previous();
  const bool is_watched = loop.ends_ns != nullptr;
  const std::uint64_t looked = is_watched ? *loop.looked_ns : 0;  // its load overlaps that of the counter
  const std::int32_t iterations = *loop.counter + 1;
  bool goes_on = iterations < loop.trip_count;
  if (is_watched) {
    const std::uint64_t now = clock_ns();
    note_end(loop, iterations, now);
    if (now - looked >= kNanosecondsBetweenLooks && is_stopped(loop, now)) goes_on = false;
  }
  if (goes_on) *loop.counter = iterations;
  cudaGraphSetConditional(loop.goes_on, goes_on ? 1 : 0);
}

__global__ void choose_kernel(cudaGraphConditionalHandle taken, const bool* predicate, bool is_inverted) {
  wait_for_previous();
  cudaGraphSetConditional(taken, *predicate != is_inverted ? 1 : 0);
}

}  // namespace

void launch_begin_loop(cudaStream_t stream, const LoopControl& loop) {
  launch_early(begin_loop_kernel, {1, 1, stream}, loop);
  check(cudaGetLastError());
}

void launch_end_iteration(cudaStream_t stream, const LoopControl& loop) {
  launch_early(end_iteration_kernel, {1, 1, stream}, loop);
  check(cudaGetLastError());
}

void launch_choose(cudaStream_t stream, cudaGraphConditionalHandle taken, const bool* predicate, bool is_inverted) {
  launch_early(choose_kernel, {1, 1, stream}, taken, predicate, is_inverted);
  check(cudaGetLastError());
}

}  // namespace headroom::cuda
