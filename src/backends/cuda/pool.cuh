#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>

#include "backends/cuda/stream_list.cuh"

namespace headroom::cuda {

/// A memory pool of the current device that keeps freed memory, and the stream that orders its allocations.
class Pool {
 public:
  /// A pool whose memory the streams `users` use.
  explicit Pool(std::shared_ptr<StreamList> users);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  /// Throws OutOfMemory.
  [[nodiscard]] void* allocate(std::size_t bytes);
  void free(void* data) noexcept;
  /// Makes a new stream wait for the blocks allocated so far.
  void order_behind_allocations(cudaStream_t stream);

  /// Returns memory not in use to the system, and waits for work that still uses it.
  void release_unused();
  [[nodiscard]] std::size_t reserved_bytes() const;

 private:
  [[nodiscard]] void* try_allocate(std::size_t bytes);

  std::shared_ptr<StreamList> users_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t passed_ = nullptr;
  cudaMemPool_t pool_ = nullptr;
};

/// Throws OutOfMemory with what was needed and what is available.
[[noreturn]] void fail_out_of_memory(std::size_t bytes);

}  // namespace headroom::cuda
