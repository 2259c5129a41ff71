#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/backend.hpp"
#include "backends/caching_allocator.hpp"
#include "plan/program.hpp"

namespace headroom {

/// Addresses of a program's storages while a session runs it. Inputs, states, counters and outputs with their own
/// memory have buffers here, or memory of the caller. Weights belong to the store. Activations are in an arena, or
/// are allocated at their first write and freed after their last use.
class SessionMemory {
 public:
  /// Both arguments must outlive it. An arena that can be unloaded reserves its own address range, which is not
  /// worthwhile for a short-lived session.
  enum class Arena : std::uint8_t { kStays, kMayLeave };
  SessionMemory(const Program& program, Backend& backend, Arena arena);

  /// The current start of a storage; null if it has no memory.
  [[nodiscard]] DevicePointer base(int storage) const { return bases_[static_cast<std::size_t>(storage)]; }
  [[nodiscard]] DevicePointer at(const Place& place) const;
  void set_weight(int storage, DevicePointer weight) { bases_[static_cast<std::size_t>(storage)] = weight; }

  /// Allocates an activation of a program without an arena.
  void take(int storage);
  void give(int storage);
  /// Freed activations keep their addresses, because recordings contain them.
  void keep_segments() { allocator_.keep_segments(); }

  /// Binds an input, state or output to `memory`; its own buffer is freed.
  void bind(int storage, DevicePointer memory);
  /// Gives it its own buffer again, with undefined contents.
  void unbind(int storage);
  [[nodiscard]] bool is_bound(int storage) const;
  /// Addresses of the inputs, states and outputs that can be bound.
  [[nodiscard]] std::vector<DevicePointer> bindable_memory() const;

  /// Whether an input or state has been set.
  [[nodiscard]] bool is_given(int storage) const { return is_given_[static_cast<std::size_t>(storage)]; }
  void set_given(int storage) { is_given_[static_cast<std::size_t>(storage)] = true; }

  void release_inputs();

  /// Frees the memory of the arena, and allocates it again with undefined contents; addresses stay the same.
  void unload_arena();
  void reload_arena();
  [[nodiscard]] bool is_arena_loaded() const noexcept { return is_arena_loaded_; }

  /// Bytes of activations, scratch and outputs with their own buffers.
  [[nodiscard]] std::size_t activation_peak_bytes() const;
  [[nodiscard]] std::size_t activation_reserved_bytes() const;

 private:
  [[nodiscard]] std::size_t own_output_bytes() const;
  void allocate(std::size_t storage);
  [[nodiscard]] bool is_elsewhere(const Storage& storage) const;

  const Program& program_;
  Backend& backend_;
  CachingAllocator allocator_;
  Buffer arena_;
  std::vector<Buffer> buffers_;                  // by storage: inputs, states, counters, outputs that are apart
  std::vector<CachingAllocator::Block> blocks_;  // by storage: activations in use, without an arena
  std::vector<DevicePointer> bases_;             // by storage: its current start, or null
  std::vector<bool> is_given_;                   // by storage
  bool is_arena_loaded_ = true;
};

}  // namespace headroom
