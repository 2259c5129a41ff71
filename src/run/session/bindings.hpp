#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "backends/device_memory.hpp"

namespace headroom {

/// The kinds of session values that can be bound to caller memory.
enum class Bound : std::uint8_t { kInput, kOutput, kState };
[[nodiscard]] std::string_view name_of(Bound what);

/// Memory of the caller that is bound to inputs, outputs and states of a session.
class Bindings {
 public:
  /// Throws Error with the name if the memory has another size, or lacks the alignment of the device's buffers.
  void add(Bound what, std::string_view name, const DeviceMemory& memory, std::size_t bytes, std::size_t alignment);
  void remove(Bound what, std::string_view name);

  /// Throws Error that names two overlapping bindings, if one of them is written to.
  void require_apart() const;

 private:
  std::map<std::pair<Bound, std::string>, DeviceMemory> memory_;
};

}  // namespace headroom
