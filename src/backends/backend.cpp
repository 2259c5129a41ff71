#include "backends/backend.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"

namespace headroom {

std::string_view name_of(MemoryCategory category) {
  switch (category) {
    case MemoryCategory::kWeights:
      return "weights";
    case MemoryCategory::kActivations:
      return "activations";
    case MemoryCategory::kWorkspace:
      return "workspace";
    case MemoryCategory::kState:
      return "state";
    case MemoryCategory::kInputs:
      return "inputs";
  }
  return "unknown";
}

Buffer::~Buffer() {
  if (backend_ != nullptr) backend_->release(handle_, bytes_, category_);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  if (backend_ != nullptr) backend_->release(handle_, bytes_, category_);
  backend_ = std::exchange(other.backend_, nullptr);
  handle_ = std::exchange(other.handle_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  category_ = other.category_;
  return *this;
}

Buffer Backend::allocate(std::size_t bytes, MemoryCategory category) {
  void* const buffer = allocate_bytes(bytes);
  HR_CHECK(buffer != nullptr);
  use_.used[static_cast<std::size_t>(category)] += bytes;
  use_.total += bytes;
  use_.peak = std::max(use_.peak, use_.total);
  ++use_.allocations;
  return {*this, buffer, bytes, category};
}

std::unique_ptr<Recording> Backend::record(Stream& /*stream*/, const std::function<void()>& /*submit*/) {
  throw std::logic_error("this device runs work where it is submitted: there is nothing to record");
}

std::unique_ptr<DeviceTrace> Backend::make_trace() {
  fail("only what a GPU does can be traced on the device; a CPU's launches are timed one by one");
}

std::shared_ptr<void> Backend::find_context(std::type_index type, std::shared_ptr<void> (*make)(Backend&)) {
  const std::scoped_lock lock(contexts_mutex_);
  if (const auto found = contexts_.find(type); found != contexts_.end()) return found->second;
  std::shared_ptr<void> made = make(*this);  // before it is kept: it may throw
  contexts_.emplace(type, made);
  return made;
}

void Backend::release(void* buffer, std::size_t bytes, MemoryCategory category) noexcept {
  free_bytes(buffer, bytes);
  use_.used[static_cast<std::size_t>(category)] -= bytes;
  use_.total -= bytes;
}

}  // namespace headroom
