#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

namespace headroom::cuda {

/// The streams that use memory: a free must wait for them, and they must wait for an allocation. Recorded work runs
/// later, and does not count.
class StreamList {
 public:
  void add(cudaStream_t stream);
  void remove(cudaStream_t stream);

  /// Orders future work of `stream` after all work of these streams; `event` is overwritten.
  void put_before(cudaStream_t stream, cudaEvent_t event) noexcept;
  /// Orders future work of these streams after `event`.
  void put_behind(cudaEvent_t event);

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> streams_;
};

}  // namespace headroom::cuda
