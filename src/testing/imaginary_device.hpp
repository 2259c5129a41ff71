#pragma once

#include <cstddef>
#include <memory>

#include "backends/backend.hpp"

namespace headroom {

/// A kind of device that does not exist: the CPU's kernels under another name, with limits that neither real kind has.
/// Code that asks profiles, capabilities and rules runs on it; code that takes what is not a CPU for a GPU fails.
///
/// - It launches work that runs later, in several lanes, but records none. It has memory of its own.
/// - No switch that lowers precision applies.
/// - Convolutions read channels in vectors of 12, and prefer row-major images where channels do not fill them.
/// - A block has 64 threads, each of which ends one column: epilogues take results of up to so many columns.
/// - Rows begin at multiples of 128 bytes, and no result overwrites an operand.
extern const DeviceProfile kImaginaryProfile;
inline constexpr DeviceKind kImaginary{kImaginaryProfile};

/// Opens one, and lists its kernels. `threads` as for a CPU; `memory_bytes` is what can be allocated.
[[nodiscard]] std::unique_ptr<Backend> make_imaginary_backend(int threads = 0,
                                                              std::size_t memory_bytes = std::size_t{4} << 30);

}  // namespace headroom
