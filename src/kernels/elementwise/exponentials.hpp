#pragma once

#include <cstdint>
#include <span>

#include "base/tensors/dtype.hpp"

namespace headroom {

/// Repeats x = e^-x on each of `numbers`, from 0 to 1 and a multiple of 16 in count, `times` times, on the calling
/// thread. It runs only the exponential of softmax and of the activations, as short as results in `dtype` allow. It
/// converges to the fixed point 0.5671, and never meets a number that takes longer than others. It measures a CPU's
/// rate of exponentials.
void repeat_exponentials(DType dtype, std::span<float> numbers, std::int64_t times);

}  // namespace headroom
