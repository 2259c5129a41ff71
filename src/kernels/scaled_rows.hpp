#pragma once

#include <cstdint>

#include "base/dtype.hpp"
#include "kernels/activation_rows.hpp"

namespace headroom {

/// activation(product[i, j] * x_scale[i] * w_scale[j] + bias[j]), what follows the product of quantized rows.
struct ScaledRows {
  std::int64_t columns = 0;
  Activation activation = Activation::kNone;
  DType y_dtype = DType::kF32;  ///< f32 or bf16
  std::int64_t y_stride = 0;    ///< elements from row to row
};

/// Writes `rows` rows of y, on the calling thread, from as many dense rows of `product`; `bias` may be null. y may be
/// `product` itself where it is f32 and dense.
void scale_rows(const ScaledRows& form, std::int64_t rows, const float* product, const float* x_scale,
                const float* w_scale, const float* bias, void* y);

}  // namespace headroom
