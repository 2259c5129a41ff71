#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/backend.hpp"
#include "backends/caching_allocator.hpp"
#include "plan/program.hpp"

namespace headroom {

/// Where the storages of a program lie while a session runs it. Inputs, states, counters and outputs that are apart
/// have buffers of their own, or memory of the caller's; weights are somebody else's. Activations lie in an arena, or
/// are taken when first written and given back after their last use.
class SessionMemory {
 public:
  /// Both must outlive it. An arena that may leave has addresses of its own, which the memory of a session that lives
  /// for a moment is not worth.
  enum class Arena : std::uint8_t { kStays, kMayLeave };
  SessionMemory(const Program& program, Backend& backend, Arena arena);

  /// Where a storage begins now; null where it has no memory.
  [[nodiscard]] DevicePointer base(int storage) const { return bases_[static_cast<std::size_t>(storage)]; }
  [[nodiscard]] DevicePointer at(const Place& place) const;
  void set_weight(int storage, DevicePointer weight) { bases_[static_cast<std::size_t>(storage)] = weight; }

  /// An activation of a program without an arena.
  void take(int storage);
  void give(int storage);
  /// What was taken and given back keeps its addresses, for recordings hold them.
  void keep_segments() { allocator_.keep_segments(); }

  /// Lets an input, a state or an output lie at `memory`; its own buffer is freed.
  void bind(int storage, DevicePointer memory);
  /// Gives it a buffer of its own again, of which nothing is known.
  void unbind(int storage);
  [[nodiscard]] bool is_bound(int storage) const;
  /// Where inputs, states and outputs lie that can be bound.
  [[nodiscard]] std::vector<DevicePointer> bindable_memory() const;

  /// Whether an input or a state has been given its content.
  [[nodiscard]] bool is_given(int storage) const { return is_given_[static_cast<std::size_t>(storage)]; }
  void set_given(int storage) { is_given_[static_cast<std::size_t>(storage)] = true; }

  void release_inputs();

  /// Gives the memory of the arena back, and takes it again with contents undefined; its places stay.
  void unload_arena();
  void reload_arena();
  [[nodiscard]] bool is_arena_loaded() const noexcept { return is_arena_loaded_; }

  /// Of activations, scratch and outputs that are apart and have buffers of their own.
  [[nodiscard]] std::size_t activation_peak_bytes() const;
  [[nodiscard]] std::size_t activation_reserved_bytes() const;

 private:
  [[nodiscard]] std::size_t own_output_bytes() const;
  void allocate(std::size_t storage);

  const Program& program_;
  Backend& backend_;
  CachingAllocator allocator_;
  Buffer arena_;
  std::vector<Buffer> buffers_;                  // by storage: inputs, states, counters, outputs that are apart
  std::vector<CachingAllocator::Block> blocks_;  // by storage: activations in use, without an arena
  std::vector<DevicePointer> bases_;             // by storage: where it begins now, or null
  std::vector<bool> is_given_;                   // by storage
  bool is_arena_loaded_ = true;
};

}  // namespace headroom
