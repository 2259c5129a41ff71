#include "run/session/session_memory.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "run/session/buffer_schedule.hpp"

namespace headroom {
namespace {

MemoryCategory category_of(StorageKind kind) {
  if (kind == StorageKind::kOutput) return MemoryCategory::kActivations;
  return kind == StorageKind::kState ? MemoryCategory::kState : MemoryCategory::kInputs;
}

bool can_be_bound(StorageKind kind) {
  return kind == StorageKind::kInput || kind == StorageKind::kState || kind == StorageKind::kOutput;
}

bool has_own_buffer(StorageKind kind) { return can_be_bound(kind) || kind == StorageKind::kCounter; }

}  // namespace

SessionMemory::SessionMemory(const Program& program, Backend& backend, Arena arena)
    : program_(program),
      backend_(backend),
      allocator_(backend, MemoryCategory::kActivations),
      buffers_(program.storages.size()),
      blocks_(program.storages.size()),
      bases_(program.storages.size()),
      is_given_(program.storages.size(), false) {
  if (program.has_arena && program.arena_bytes > 0)
    arena_ = arena == Arena::kMayLeave ? backend.reserve(program.arena_bytes, MemoryCategory::kActivations)
                                       : backend.allocate(program.arena_bytes, MemoryCategory::kActivations);
  for (std::size_t s = 0; s < bases_.size(); ++s) {
    const Storage& storage = program.storages[s];
    if (has_own_buffer(storage.kind)) {
      if (!is_elsewhere(storage)) allocate(s);
    } else if (program.has_arena && is_activation(storage)) {
      bases_[s] = arena_.at(storage.arena_offset);
    }
  }
}

bool SessionMemory::is_elsewhere(const Storage& storage) const {
  return program_.outputs_elsewhere && storage.kind == StorageKind::kOutput;
}

void SessionMemory::allocate(std::size_t storage) {
  const Storage& of = program_.storages[storage];
  buffers_[storage] = backend_.allocate(std::max<std::size_t>(of.bytes, 1), category_of(of.kind));
  bases_[storage] = buffers_[storage].at();
}

DevicePointer SessionMemory::at(const Place& place) const {
  const DevicePointer begin = base(place.storage);
  HR_CHECK(begin);
  return begin + place.offset_bytes;
}

void SessionMemory::take(int storage) {
  const auto s = static_cast<std::size_t>(storage);
  if (bases_[s]) return;  // an output kept from the previous run, or written in an earlier iteration
  blocks_[s] = allocator_.allocate(program_.storages[s].bytes);
  bases_[s] = blocks_[s].at;
}

void SessionMemory::give(int storage) {
  const auto s = static_cast<std::size_t>(storage);
  if (!bases_[s]) return;  // from a branch that did not run
  allocator_.free(blocks_[s]);
  bases_[s] = {};
}

void SessionMemory::bind(int storage, DevicePointer memory) {
  const auto s = static_cast<std::size_t>(storage);
  HR_CHECK(can_be_bound(program_.storages[s].kind));
  buffers_[s] = Buffer();
  bases_[s] = memory;
  is_given_[s] = true;
}

void SessionMemory::unbind(int storage) {
  if (!is_bound(storage)) return;
  const auto s = static_cast<std::size_t>(storage);
  allocate(s);
  is_given_[s] = false;
}

bool SessionMemory::is_bound(int storage) const {
  const auto s = static_cast<std::size_t>(storage);
  return can_be_bound(program_.storages[s].kind) && bases_[s] && !buffers_[s].at();
}

std::vector<DevicePointer> SessionMemory::bindable_memory() const {
  std::vector<DevicePointer> memory;
  for (std::size_t s = 0; s < bases_.size(); ++s)
    if (can_be_bound(program_.storages[s].kind)) memory.push_back(bases_[s]);
  return memory;
}

void SessionMemory::release_inputs() {
  for (std::size_t s = 0; s < buffers_.size(); ++s) {
    if (program_.storages[s].kind != StorageKind::kInput) continue;
    buffers_[s] = Buffer();
    bases_[s] = {};
    is_given_[s] = false;
  }
}

void SessionMemory::unload_arena() {
  if (is_arena_loaded_ && arena_.can_unload()) arena_.unload();
  is_arena_loaded_ = false;
}

void SessionMemory::reload_arena() {
  if (!is_arena_loaded_ && arena_.can_unload()) arena_.reload();
  is_arena_loaded_ = true;
}

std::size_t SessionMemory::own_output_bytes() const {
  std::size_t bytes = 0;
  for (std::size_t s = 0; s < buffers_.size(); ++s)
    if (program_.storages[s].kind == StorageKind::kOutput) bytes += buffers_[s].bytes();
  return bytes;
}

std::size_t SessionMemory::activation_peak_bytes() const {
  return own_output_bytes() + (program_.has_arena ? program_.arena_bytes : allocator_.peak_used_bytes());
}

std::size_t SessionMemory::activation_reserved_bytes() const {
  return own_output_bytes() + (program_.has_arena ? arena_.bytes() : allocator_.reserved_bytes());
}

}  // namespace headroom
