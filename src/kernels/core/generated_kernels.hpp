#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace headroom {

class Backend;

/// The cost of a device's generated kernels so far: Backend::context. All stays 0 where none are generated.
struct GeneratedKernels {
  GeneratedKernels() = default;
  explicit GeneratedKernels(Backend& /*backend*/) {}

  std::atomic<std::size_t> compiled = 0;     ///< those that failed not counted
  std::atomic<std::size_t> from_disk = 0;    ///< compiled before, by this process or another
  std::atomic<std::int64_t> compile_ns = 0;  ///< summed over threads
  std::atomic<std::int64_t> busy_ns = 0;     ///< while any was compiled
  std::atomic<std::int64_t> disk_ns = 0;     ///< looking for them on the disk
};

}  // namespace headroom
