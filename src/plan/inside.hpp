#pragma once

#include "plan/draft.hpp"

namespace headroom {

/// Places inside: where the kernels that make the parts of a concatenation, or what a reshape or transpose rearranges,
/// can write them where they end up, they do, and that node needs no launch. Other concatenations are left to
/// join_rows().
void place_inside(Draft& draft);

}  // namespace headroom
