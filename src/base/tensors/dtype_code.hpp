#pragma once

#include <cstdint>

// Only the enum, because device code includes it too.

namespace headroom {

/// Element types, generated from dtypes.def.
enum class DType : std::uint8_t {
#define HR_DTYPE(enumerator, ...) enumerator,
#include "base/tensors/dtypes.def"
#undef HR_DTYPE
};

}  // namespace headroom
