#pragma once

#include "plan/draft.hpp"

namespace headroom {

/// Places inside: the kernels that produce the parts of a concatenation, or the operand of a reshape or transpose,
/// write them directly into the result if they can; that node then needs no launch. Joined rows: if the parts of
/// another concatenation are views of several results, and these results, stored contiguously, contain the
/// concatenation as a view, they share one storage, each of them dense. An example is the values of a text's and an
/// image's merged QKV.
void place_inside(Draft& draft);

/// Views: a reshape, and with `arena` a slice or transpose too, only changes the strides over its operand if all
/// readers accept these strides.
void place_views(Draft& draft, bool arena);

}  // namespace headroom
