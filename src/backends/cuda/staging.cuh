#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>

namespace headroom::cuda {

/// Copies from ordinary host memory at the rate of the link: several threads fill one page-locked buffer while the
/// buffers before it travel. The buffers are made at the first use. One thread at a time.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// `host` may be changed once this returns; the last pieces are then still on their way.
  void copy(cudaStream_t stream, void* device, const void* host, std::size_t bytes);

 private:
  static constexpr std::size_t kSlots = 4;
  static constexpr std::size_t kSlotBytes = std::size_t{16} << 20;

  struct Slot {
    std::byte* buffer = nullptr;
    cudaEvent_t sent = nullptr;  ///< recorded when its bytes have left
  };

  void make_slots();

  std::array<Slot, kSlots> slots_;
  std::size_t next_ = 0;
};

}  // namespace headroom::cuda
