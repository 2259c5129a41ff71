#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace headroom::cuda {

/// Copies from pageable host memory at the rate of the link: each thread of an OpenMP team fills its own page-locked
/// buffers and sends them, filling one while others transfer. The buffers are made at first use. One caller at a
/// time.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// `host` may be changed once this returns; the last transfers may still be running.
  void copy(cudaStream_t stream, void* device, const void* host, std::size_t bytes);

 private:
  struct Slot {
    std::byte* buffer = nullptr;
    cudaEvent_t sent = nullptr;  ///< recorded when its bytes are sent
  };
  /// The buffers of one thread, used in rotation.
  struct Lane {
    std::vector<Slot> slots;
    std::size_t next = 0;
  };

  void make_lanes();

  int device_ = 0;          // the current one when the lanes were made
  void* memory_ = nullptr;  // of all slots
  std::vector<Lane> lanes_;
};

}  // namespace headroom::cuda
