#include <utility>

#include "backends/cuda/cuda_check.cuh"
#include "backends/cuda/driver.cuh"
#include "backends/cuda/reserved_memory.cuh"
#include "base/error.hpp"

namespace headroom::cuda {
namespace {

CUdeviceptr driver_address(void* address) { return reinterpret_cast<CUdeviceptr>(address); }

}  // namespace

ReservedMemory::ReservedMemory(std::shared_ptr<StreamList> users, Pool& pool) : users_(std::move(users)), pool_(pool) {
  int device = 0, is_supported = 0;
  check(cudaGetDevice(&device));
  check(driver().DeviceGetAttribute(&is_supported, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, device));
  if (is_supported == 0) return;
  properties_.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties_.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = device};
  check(driver().MemGetAllocationGranularity(&granularity_, &properties_, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  check(cudaEventCreateWithFlags(&passed_, cudaEventDisableTiming));
}

ReservedMemory::~ReservedMemory() {
  if (stream_ == nullptr) return;
  take_away_unused(true);
  report(cudaEventDestroy(passed_));
  report(cudaStreamDestroy(stream_));
}

void* ReservedMemory::reserve(std::size_t bytes) {
  CUdeviceptr start = 0;
  check(driver().MemAddressReserve(&start, bytes, 0, 0, 0));
  auto* const address = reinterpret_cast<void*>(start);
  const auto range = ranges_.emplace(address, Range{.bytes = bytes}).first;
  try {
    check(cudaEventCreateWithFlags(&range->second.last_use, cudaEventDisableTiming));
    map(address, range->second);
  } catch (...) {
    erase(range);
    throw;
  }
  return address;
}

void ReservedMemory::unload(void* address) {
  begin_leaving(address, ranges_.at(address));
  take_away_unused(false);
}

/// Memory that has not been unmapped yet is kept: the next writer is ordered after its last user.
void ReservedMemory::reload(void* address) {
  take_away_unused(false);
  Range& range = ranges_.at(address);
  if (!range.is_mapped) return map(address, range);
  users_->put_behind(range.last_use);
  range.leaves = false;
}

void ReservedMemory::free(void* address) noexcept {
  const auto range = ranges_.find(address);
  if (!range->second.is_mapped) return erase(range);
  range->second.is_freed = true;
  if (!range->second.leaves) begin_leaving(address, range->second);
  take_away_unused(false);
}

bool ReservedMemory::finish_leaving() { return take_away_unused(true); }

void ReservedMemory::map(void* address, Range& range) {
  const CUmemGenericAllocationHandle memory = create(range.bytes);
  const CUresult mapped = driver().MemMap(driver_address(address), range.bytes, 0, memory, 0);
  if (mapped != CUDA_SUCCESS) report(driver().MemRelease(memory));
  check(mapped);
  range.memory = memory;
  range.is_mapped = true;
  mapped_bytes_ += range.bytes;
  const CUmemAccessDesc access{.location = properties_.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  const CUresult opened = driver().MemSetAccess(driver_address(address), range.bytes, &access, 1);
  if (opened != CUDA_SUCCESS) unmap(address, range);
  check(opened);
}

/// If memory is short, waits for unmapping, and releases unused memory of the pool.
CUmemGenericAllocationHandle ReservedMemory::create(std::size_t bytes) {
  CUmemGenericAllocationHandle memory = 0;
  if (try_create(memory, bytes)) return memory;
  if (take_away_unused(true) && try_create(memory, bytes)) return memory;
  pool_.release_unused();
  if (!try_create(memory, bytes)) fail_out_of_memory(bytes);
  return memory;
}

bool ReservedMemory::try_create(CUmemGenericAllocationHandle& memory, std::size_t bytes) const {
  const CUresult status = driver().MemCreate(&memory, bytes, &properties_, 0);
  if (status == CUDA_ERROR_OUT_OF_MEMORY) return false;
  check(status);
  return true;
}

void ReservedMemory::begin_leaving(void* address, Range& range) {
  users_->put_before(stream_, passed_);
  report(cudaEventRecord(range.last_use, stream_));
  range.leaves = true;
  leaving_.push_back(address);
}

/// Unmaps memory that is to leave and is no longer used; with `waits`, waits for its users. Returns whether there
/// was any.
bool ReservedMemory::take_away_unused(bool waits) noexcept {
  bool any = false;
  for (; !leaving_.empty(); leaving_.pop_front()) {
    const auto range = ranges_.find(leaving_.front());
    if (range == ranges_.end() || !range->second.leaves) continue;
    if (waits) report(cudaEventSynchronize(range->second.last_use));
    if (!waits && cudaEventQuery(range->second.last_use) == cudaErrorNotReady) {
      static_cast<void>(cudaGetLastError());  // so that no later launch reports this error
      break;
    }
    unmap(range->first, range->second);
    any = true;
    if (range->second.is_freed) erase(range);
  }
  return any;
}

void ReservedMemory::unmap(void* address, Range& range) noexcept {
  report(driver().MemUnmap(driver_address(address), range.bytes));
  report(driver().MemRelease(range.memory));
  mapped_bytes_ -= range.bytes;
  range.is_mapped = false;
  range.leaves = false;
}

void ReservedMemory::erase(Ranges::iterator range) noexcept {
  if (range->second.last_use != nullptr) report(cudaEventDestroy(range->second.last_use));
  report(driver().MemAddressFree(driver_address(range->first), range->second.bytes));
  ranges_.erase(range);
}

}  // namespace headroom::cuda
