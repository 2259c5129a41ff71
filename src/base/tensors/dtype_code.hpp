#pragma once

#include <cstdint>

// The enum alone, which device code reads too.

namespace headroom {

/// Element types, generated from dtypes.def.
enum class DType : std::uint8_t {
#define HR_DTYPE(enumerator, ...) enumerator,
#include "base/tensors/dtypes.def"
#undef HR_DTYPE
};

}  // namespace headroom
