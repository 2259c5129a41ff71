#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace headroom::cuda {

/// The control state of a loop on the device.
struct LoopControl {
  cudaGraphConditionalHandle goes_on = 0;
  std::int32_t trip_count = 0;
  std::int32_t* counter = nullptr;  ///< on the device
  // Non-null if the host observes the loop:
  std::uint64_t* ends_ns = nullptr;           ///< mapped: when the loop began, and when each iteration ended
  const std::uint32_t* is_stopped = nullptr;  ///< mapped: non-zero asks the loop to end
  std::uint64_t* looked_ns = nullptr;         ///< on the device: when it last read is_stopped
};

/// Before a loop: starts iteration 0, if there is one.
void launch_begin_loop(cudaStream_t stream, const LoopControl& loop);
/// Last in a loop's body: starts the next iteration, if there is one.
void launch_end_iteration(cudaStream_t stream, const LoopControl& loop);
/// Before a branch: decides whether it is taken, or with `is_inverted` whether it is not.
void launch_choose(cudaStream_t stream, cudaGraphConditionalHandle taken, const bool* predicate, bool is_inverted);

}  // namespace headroom::cuda
