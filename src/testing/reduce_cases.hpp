#pragma once

#include <cstdint>
#include <vector>

#include "base/tensors/shape.hpp"

namespace headroom {

/// A shape, and the axes that are reduced.
struct ReduceCase {
  Shape shape;
  std::vector<std::int64_t> axes;
};

/// Rows, columns and both. One element, fewer than a vector, a warp's and a block's results, more columns than a block
/// or a run takes, and more than f32 adds up.
inline const std::vector<ReduceCase> kReduceCases = {{{1, 1}, {1}},
                                                     {{1, 1}, {0, 1}},
                                                     {{5, 7}, {0}},
                                                     {{5, 7}, {1}},
                                                     {{2, 3, 5, 7}, {2, 3}},
                                                     {{2, 3, 5, 7}, {0, 2}},
                                                     {{2, 3, 5, 7}, {0, 1, 2, 3}},
                                                     {{3, 70, 33}, {1}},
                                                     {{2, 200, 300}, {1}},
                                                     {{3, 30, 17, 31}, {2, 3}},
                                                     {{3, 30, 17, 31}, {1, 3}},
                                                     {{2, 4099}, {1}}};

}  // namespace headroom
