// A separate pool, so that other users of the device's default pool in this process neither see nor pay for the
// memory kept here. The pool keeps freed memory: taking 8 GiB again costs 5 us instead of 6 ms (H200).
//
// Allocations and frees go through one stream, and the host never waits for it. A block is usable on every stream of
// the backend once allocate() returns, because those streams wait for that one. A freed block returns to the pool
// after all work submitted so far to those streams, because that stream waits for them first.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/pool.cuh"
#include "base/out_of_memory.hpp"
#include "base/text/format.hpp"

namespace headroom::cuda {

void fail_out_of_memory(std::size_t bytes) {
  std::size_t available = 0, installed = 0;
  check(cudaMemGetInfo(&available, &installed));
  throw OutOfMemory(fmt::format("the GPU is out of memory: {} are needed in one block and {} of its {} are available",
                                format_bytes(bytes), format_bytes(available), format_bytes(installed)));
}

Pool::Pool(std::shared_ptr<StreamList> users) : users_(std::move(users)) {
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  check(cudaEventCreateWithFlags(&passed_, cudaEventDisableTiming));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location.type = cudaMemLocationTypeDevice;
  check(cudaGetDevice(&properties.location.id));
  check(cudaMemPoolCreate(&pool_, &properties));
  std::uint64_t keep = UINT64_MAX;
  check(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
}

Pool::~Pool() {
  report(cudaStreamSynchronize(stream_));
  report(cudaMemPoolDestroy(pool_));
  report(cudaEventDestroy(passed_));
  report(cudaStreamDestroy(stream_));
}

void* Pool::allocate(std::size_t bytes) {
  void* data = try_allocate(bytes);
  if (data == nullptr) {  // freed memory may still be in use or fragmented
    release_unused();
    data = try_allocate(bytes);
  }
  if (data == nullptr) fail_out_of_memory(bytes);
  check(cudaEventRecord(passed_, stream_));
  users_->put_behind(passed_);
  return data;
}

void Pool::free(void* data) noexcept {
  users_->put_before(stream_, passed_);
  report(cudaFreeAsync(data, stream_));
}

void Pool::order_behind_allocations(cudaStream_t stream) {
  check(cudaEventRecord(passed_, stream_));
  check(cudaStreamWaitEvent(stream, passed_, 0));
}

void Pool::release_unused() {
  check(cudaStreamSynchronize(stream_));
  check(cudaMemPoolTrimTo(pool_, 0));
}

std::size_t Pool::reserved_bytes() const {
  std::uint64_t bytes = 0;
  check(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrReservedMemCurrent, &bytes));
  return bytes;
}

void* Pool::try_allocate(std::size_t bytes) {
  void* data = nullptr;
  const cudaError_t status = cudaMallocFromPoolAsync(&data, std::max<std::size_t>(bytes, 1), pool_, stream_);
  if (status != cudaErrorMemoryAllocation) {
    check(status);
    return data;
  }
  static_cast<void>(cudaGetLastError());
  return nullptr;
}

}  // namespace headroom::cuda
