#pragma once

#include "plan/storage_index.hpp"

namespace headroom {

/// In place: a result is written over an operand that nobody needs any more, where the kernel allows it.
void overwrite_operands(const Draft& draft, StorageIndex& index);

}  // namespace headroom
