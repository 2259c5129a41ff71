#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/stream_list.cuh"

namespace headroom::cuda {
namespace {

bool is_recording(cudaStream_t stream) noexcept {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  report(cudaStreamIsCapturing(stream, &status));
  return status != cudaStreamCaptureStatusNone;
}

}  // namespace

void StreamList::add(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  streams_.push_back(stream);
}

void StreamList::remove(cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);
  std::erase(streams_, stream);
}

void StreamList::put_before(cudaStream_t stream, cudaEvent_t event) noexcept {
  const std::scoped_lock lock(mutex_);
  for (const cudaStream_t user : streams_) {
    if (is_recording(user)) continue;
    report(cudaEventRecord(event, user));
    report(cudaStreamWaitEvent(stream, event, 0));
  }
}

void StreamList::put_behind(cudaEvent_t event) {
  const std::scoped_lock lock(mutex_);
  bool is_ordered = true;
  for (const cudaStream_t user : streams_) {
    if (is_recording(user))
      is_ordered = false;  // a capture would record the wait, and repeat it at each replay
    else
      check(cudaStreamWaitEvent(user, event, 0));
  }
  if (!is_ordered) check(cudaEventSynchronize(event));
}

}  // namespace headroom::cuda
