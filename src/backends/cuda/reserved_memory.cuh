#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <deque>
#include <map>
#include <memory>

#include "backends/cuda/pool.cuh"
#include "backends/cuda/stream_list.cuh"

namespace headroom::cuda {

/// Memory whose addresses outlive it: ranges of addresses to which memory is mapped, from which it is taken, and to
/// which it is mapped again. It leaves when all is done that its users had been given before; the host waits for that
/// only where memory is short.
class ReservedMemory {
 public:
  /// Of the current device, that `users` use. What `pool` keeps unused is given back where memory is short.
  ReservedMemory(std::shared_ptr<StreamList> users, Pool& pool);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  /// What sizes are multiples of; 0 where the device has no such memory.
  [[nodiscard]] std::size_t granularity() const noexcept { return granularity_; }

  /// Addresses with memory. Throws OutOfMemory, as reload() does.
  [[nodiscard]] void* reserve(std::size_t bytes);
  void unload(void* address);
  void reload(void* address);
  void free(void* address) noexcept;

  /// Waits until all has left that is unloaded or freed. Returns whether there was any.
  bool finish_leaving();
  /// Mapped now, what has not left yet among it.
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return mapped_bytes_; }

 private:
  struct Range {
    std::size_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    cudaEvent_t last_use = nullptr;  ///< recorded when it begins to leave
    bool is_mapped = false;
    bool leaves = false;
    bool is_freed = false;  ///< its addresses go when its memory has left
  };
  using Ranges = std::map<void*, Range>;

  void map(void* address, Range& range);
  [[nodiscard]] CUmemGenericAllocationHandle create(std::size_t bytes);
  [[nodiscard]] bool try_create(CUmemGenericAllocationHandle& memory, std::size_t bytes) const;
  void begin_leaving(void* address, Range& range);
  bool take_away_unused(bool waits) noexcept;
  void unmap(void* address, Range& range) noexcept;
  void erase(Ranges::iterator range) noexcept;

  std::shared_ptr<StreamList> users_;
  Pool& pool_;
  cudaStream_t stream_ = nullptr;  // comes after what users have been given
  cudaEvent_t passed_ = nullptr;
  CUmemAllocationProp properties_{};
  std::size_t granularity_ = 0;
  std::size_t mapped_bytes_ = 0;
  Ranges ranges_;
  std::deque<void*> leaving_;  // in the order of their last uses; what has been reloaded may still be listed
};

}  // namespace headroom::cuda
