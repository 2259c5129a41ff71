#pragma once

#include "plan/draft.hpp"

namespace headroom {

/// Places inside: where the kernels that make the parts of a concatenation, or what a reshape or transpose rearranges,
/// can write them where they end up, they do, and that node needs no launch. Rows joined: where the parts of another
/// concatenation are views of several results, and these laid one behind the other hold it as a view, they share one
/// storage, each dense: the values of a text's and an image's merged QKV.
void place_inside(Draft& draft);

/// Views: a reshape, and with `arena` a slice or transpose too, is only other strides over its operand where all that
/// read it accept them.
void place_views(Draft& draft, bool arena);

}  // namespace headroom
