#pragma once

#include <cstdint>

#include "base/tensors/dtype.hpp"

namespace headroom::onednn {

/// relu in place over f32 or bf16, shared by `threads`: NaN stays NaN, where oneDNN's own relu makes 0 of it. It
/// may follow the rounding to bf16, which keeps signs.
void relu_in_place(DType dtype, void* elements, std::int64_t count, int threads);
/// The same for `rows` rows of `columns` elements, `stride` elements apart.
void relu_in_place(DType dtype, void* elements, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                   int threads);

}  // namespace headroom::onednn
