#pragma once

#include "measure/result.hpp"

namespace headroom {

/// What must hold across the members of a file, on writing and on reading; throws Error naming the result.
void check_results(const ResultFile& file);

}  // namespace headroom
