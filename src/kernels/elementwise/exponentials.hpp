#pragma once

#include <cstdint>
#include <span>

#include "base/tensors/dtype.hpp"

namespace headroom {

/// x = e^-x of each of `numbers`, from 0 to 1 and a multiple of 16, so many times, on the calling thread: the exponential of
/// softmax and of the activations, as short as results in `dtype` allow, and nothing else. It tends to the x that is
/// its own, 0.5671, and never to a number that takes longer than others. A CPU's rate is measured with it.
void repeat_exponentials(DType dtype, std::span<float> numbers, std::int64_t times);

}  // namespace headroom
