#include <cuda_runtime_api.h>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/page_locked.cuh"

namespace headroom::cuda {
namespace {

class LockedPages final : public PageLockedMemory {
 public:
  explicit LockedPages(std::size_t bytes) : bytes_(bytes) { check(cudaMallocHost(&memory_, bytes)); }
  ~LockedPages() override { report(cudaFreeHost(memory_)); }
  LockedPages(const LockedPages&) = delete;
  LockedPages& operator=(const LockedPages&) = delete;

  [[nodiscard]] std::span<std::byte> bytes() const noexcept override {
    return {static_cast<std::byte*>(memory_), bytes_};
  }

 private:
  std::size_t bytes_;
  void* memory_ = nullptr;
};

}  // namespace

std::unique_ptr<PageLockedMemory> lock_pages(std::size_t bytes) { return std::make_unique<LockedPages>(bytes); }

}  // namespace headroom::cuda
