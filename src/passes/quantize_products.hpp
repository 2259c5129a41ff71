#pragma once

#include <cstdint>

#include "passes/pass.hpp"

namespace headroom {

/// A narrow dtype for products of tokens with weights, and for which of them it pays.
struct QuantizedForm {
  DType dtype = DType::kI8;  ///< i8 or f8e4m3
  bool bias_is_f32 = true;   ///< or of the result's dtype
  bool takes_f16 = true;     ///< quantizes a checkpoint's f16; otherwise what it is cast to
  std::int64_t least_rows = 1;
  std::int64_t least_columns = 1;
  std::int64_t least_sum = 1;         ///< input channels
  std::int64_t channel_multiple = 1;  ///< that the numbers of input and of output channels must be of
};

/// linear(x, w, b) -> scaled_linear(quantize(x), quantize(w), b) inside the model; what is left as it is, and why, is
/// in the outcome's notes.
[[nodiscard]] PassOutcome quantize_products(Graph& graph, const QuantizedForm& form);

}  // namespace headroom
