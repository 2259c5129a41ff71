#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/host_copy.cuh"

namespace headroom::cuda {
namespace {

class PageLockedCopy final : public HostCopy {
 public:
  explicit PageLockedCopy(std::size_t bytes) : bytes_(bytes) {
    check(cudaEventCreateWithFlags(&copied_, cudaEventDisableTiming));
    const cudaError_t status = cudaMallocHost(&memory_, bytes);
    if (status != cudaSuccess) report(cudaEventDestroy(copied_));  // a destructor would not run
    check(status);
  }
  ~PageLockedCopy() override {
    report(cudaEventSynchronize(copied_));
    report(cudaFreeHost(memory_));
    report(cudaEventDestroy(copied_));
  }
  PageLockedCopy(const PageLockedCopy&) = delete;
  PageLockedCopy& operator=(const PageLockedCopy&) = delete;

  void save(Stream& stream, DevicePointer from) override {
    copy(stream, memory_, from.address(), cudaMemcpyDeviceToHost);
  }
  void restore(Stream& stream, DevicePointer to) override {
    copy(stream, to.address(), memory_, cudaMemcpyHostToDevice);
  }

 private:
  void copy(Stream& stream, void* to, const void* from, cudaMemcpyKind kind) {
    auto* const handle = static_cast<cudaStream_t>(stream.native_handle());
    check(cudaMemcpyAsync(to, from, bytes_, kind, handle));
    check(cudaEventRecord(copied_, handle));
  }

  std::size_t bytes_;
  void* memory_ = nullptr;
  cudaEvent_t copied_ = nullptr;
};

}  // namespace

std::unique_ptr<HostCopy> make_host_copy(std::size_t bytes) { return std::make_unique<PageLockedCopy>(bytes); }

}  // namespace headroom::cuda
