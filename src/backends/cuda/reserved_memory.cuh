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

/// Address ranges whose memory can be unmapped and mapped again. Memory is unmapped once all work submitted before
/// to its users is done; the host waits for that only if memory is short.
class ReservedMemory {
 public:
  /// Memory of the current device, used by the streams `users`. If memory is short, unused memory of `pool` is
  /// released.
  ReservedMemory(std::shared_ptr<StreamList> users, Pool& pool);
  ~ReservedMemory();
  ReservedMemory(const ReservedMemory&) = delete;
  ReservedMemory& operator=(const ReservedMemory&) = delete;

  /// Sizes are multiples of this; 0 if the device does not support such memory.
  [[nodiscard]] std::size_t granularity() const noexcept { return granularity_; }

  /// An address range with memory. Throws OutOfMemory, like reload().
  [[nodiscard]] void* reserve(std::size_t bytes);
  void unload(void* address);
  void reload(void* address);
  void free(void* address) noexcept;

  /// Waits until all unloaded or freed memory is unmapped. Returns whether there was any.
  bool finish_leaving();
  /// Bytes mapped now, including memory that is yet to be unmapped.
  [[nodiscard]] std::size_t mapped_bytes() const noexcept { return mapped_bytes_; }

 private:
  struct Range {
    std::size_t bytes = 0;
    CUmemGenericAllocationHandle memory = 0;
    cudaEvent_t last_use = nullptr;  ///< recorded when unmapping is requested
    bool is_mapped = false;
    bool leaves = false;
    bool is_freed = false;  ///< its addresses are freed after its memory
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
  cudaStream_t stream_ = nullptr;  // ordered after the users' work
  cudaEvent_t passed_ = nullptr;
  CUmemAllocationProp properties_{};
  std::size_t granularity_ = 0;
  std::size_t mapped_bytes_ = 0;
  Ranges ranges_;
  std::deque<void*> leaving_;  // in order of last use; reloaded ranges may still be listed
};

}  // namespace headroom::cuda
