#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

namespace headroom::cuda {

/// Copies from ordinary host memory at the rate of the link: each thread of an OpenMP team fills page-locked buffers of
/// its own and sends them off, one while the others travel. The buffers are made at the first use. One caller at a
/// time.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// `host` may be changed once this returns; the last pieces are then still on their way.
  void copy(cudaStream_t stream, void* device, const void* host, std::size_t bytes);

 private:
  struct Slot {
    std::byte* buffer = nullptr;
    cudaEvent_t sent = nullptr;  ///< recorded when its bytes have left
  };
  /// What one thread sends through, in turn.
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
