#pragma once

#include "plan/draft.hpp"

namespace headroom {

/// Views: a reshape, and with `arena` a slice or transpose too, is only other strides over its operand where all that
/// read it accept them.
void place_views(Draft& draft, bool arena);

}  // namespace headroom
