#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "backends/device_memory.hpp"
#include "base/target.hpp"

namespace headroom {

/// What a session can be given memory for.
enum class Bound : std::uint8_t { kInput, kOutput, kState };
[[nodiscard]] std::string_view name_of(Bound what);

/// Memory of the caller's in which inputs, outputs and states of a session lie.
class Bindings {
 public:
  /// Throws Error naming it where the memory is not of that many bytes, or is not aligned as buffers of the device are.
  void add(Bound what, std::string_view name, const DeviceMemory& memory, std::size_t bytes, DeviceKind device);
  void remove(Bound what, std::string_view name);

  /// Throws Error naming two of which one is written to and overlaps the other.
  void require_apart() const;

 private:
  std::map<std::pair<Bound, std::string>, DeviceMemory> memory_;
};

}  // namespace headroom
