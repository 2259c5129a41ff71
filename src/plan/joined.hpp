#pragma once

#include "plan/draft.hpp"

namespace headroom {

/// Rows joined: where the parts of a concatenation are views of several results, and these laid one behind the other
/// hold it as a view, they share one storage, each dense: the values of a text's and an image's merged QKV.
void join_rows(Draft& draft, int concat);

}  // namespace headroom
