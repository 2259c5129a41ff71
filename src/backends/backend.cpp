#include "backends/backend.hpp"

#include <algorithm>
#include <stdexcept>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"

namespace headroom {
namespace {

[[noreturn]] void refuse_to_reserve() {
  throw std::logic_error("this device has no memory that can leave its addresses");
}

}  // namespace

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

Buffer::~Buffer() { free(); }

void Buffer::free() noexcept {
  if (backend_ == nullptr) return;
  if (can_unload_)
    backend_->free_reserved_bytes(handle_, bytes_);
  else
    backend_->free_bytes(handle_, bytes_);
  if (is_loaded_) backend_->unbook(bytes_, category_);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  free();
  backend_ = std::exchange(other.backend_, nullptr);
  handle_ = std::exchange(other.handle_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  category_ = other.category_;
  can_unload_ = std::exchange(other.can_unload_, false);
  is_loaded_ = std::exchange(other.is_loaded_, false);
  return *this;
}

void Buffer::unload() {
  HR_CHECK(can_unload_ && is_loaded_);
  backend_->unload_bytes(handle_, bytes_);
  backend_->unbook(bytes_, category_);
  is_loaded_ = false;
}

void Buffer::reload() {
  HR_CHECK(can_unload_ && !is_loaded_);
  backend_->reload_bytes(handle_, bytes_);
  backend_->book(bytes_, category_);
  is_loaded_ = true;
}

Buffer Backend::allocate(std::size_t bytes, MemoryCategory category) {
  return make_buffer(allocate_bytes(bytes), bytes, category, false);
}

Buffer Backend::reserve(std::size_t bytes, MemoryCategory category) {
  const std::size_t granularity = reserve_granularity();
  if (granularity == 0 || bytes < granularity) return allocate(bytes, category);
  const std::size_t size = reserved_size(bytes);
  return make_buffer(reserve_bytes(size), size, category, true);
}

std::size_t Backend::reserved_size(std::size_t bytes) const {
  const std::size_t granularity = reserve_granularity();
  // A size that would wrap around when rounded fits no device; the device reports it.
  if (granularity == 0 || bytes < granularity || bytes > SIZE_MAX - granularity) return bytes;
  return divide_up(bytes, granularity) * granularity;
}

Buffer Backend::make_buffer(void* handle, std::size_t bytes, MemoryCategory category, bool can_unload) {
  HR_CHECK(handle != nullptr);
  book(bytes, category);
  {
    const std::scoped_lock lock(use_mutex_);
    ++use_.allocations;
  }
  return {*this, handle, bytes, category, can_unload};
}

void* Backend::reserve_bytes(std::size_t /*bytes*/) { refuse_to_reserve(); }
void Backend::unload_bytes(void* /*buffer*/, std::size_t /*bytes*/) { refuse_to_reserve(); }
void Backend::reload_bytes(void* /*buffer*/, std::size_t /*bytes*/) { refuse_to_reserve(); }

std::unique_ptr<Recording> Backend::record(Stream& /*stream*/, const std::function<void()>& /*submit*/) {
  throw std::logic_error("this device runs work where it is submitted: there is nothing to record");
}

std::unique_ptr<DeviceTrace> Backend::make_trace() {
  fail("only what a GPU does can be traced on the device; a CPU's launches are timed one by one");
}

std::shared_ptr<void> Backend::find_context(std::type_index type, std::shared_ptr<void> (*make)(Backend&)) {
  const std::scoped_lock lock(contexts_mutex_);
  if (const auto found = contexts_.find(type); found != contexts_.end()) return found->second;
  std::shared_ptr<void> made = make(*this);  // before it is inserted: it may throw
  contexts_.emplace(type, made);
  return made;
}

MemoryUse Backend::memory_use() const noexcept {
  const std::scoped_lock lock(use_mutex_);
  return use_;
}

void Backend::reset_peak() noexcept {
  const std::scoped_lock lock(use_mutex_);
  use_.peak = use_.total;
}

void Backend::book(std::size_t bytes, MemoryCategory category) noexcept {
  const std::scoped_lock lock(use_mutex_);
  use_.used[static_cast<std::size_t>(category)] += bytes;
  use_.total += bytes;
  use_.peak = std::max(use_.peak, use_.total);
}

void Backend::unbook(std::size_t bytes, MemoryCategory category) noexcept {
  const std::scoped_lock lock(use_mutex_);
  use_.used[static_cast<std::size_t>(category)] -= bytes;
  use_.total -= bytes;
}

}  // namespace headroom
