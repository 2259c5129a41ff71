#pragma once

#include <cuda_runtime_api.h>

#include <mutex>
#include <vector>

namespace headroom::cuda {

/// The streams that memory is used on: those that freed memory must wait for, and that wait for memory taken. What they
/// record runs later, and is neither.
class StreamList {
 public:
  void add(cudaStream_t stream);
  void remove(cudaStream_t stream);

  /// What `stream` is given from now on comes after all that these have been given; `event` is used on the way.
  void put_before(cudaStream_t stream, cudaEvent_t event) noexcept;
  /// What these are given from now on comes after `event`.
  void put_behind(cudaEvent_t event);

 private:
  std::mutex mutex_;
  std::vector<cudaStream_t> streams_;
};

}  // namespace headroom::cuda
