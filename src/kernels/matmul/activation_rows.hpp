#pragma once

#include <cstdint>
#include <optional>
#include <type_traits>

#include "base/tensors/dtype.hpp"
#include "ir/op_code.hpp"

namespace headroom {

/// Calls f with the activation as a std::integral_constant.
template <class F>
void with_activation(Activation activation, const F& f) {
  switch (activation) {
    case Activation::kNone:
      return f(std::integral_constant<Activation, Activation::kNone>());
    case Activation::kGeluTanh:
      return f(std::integral_constant<Activation, Activation::kGeluTanh>());
    case Activation::kGeluErf:
      return f(std::integral_constant<Activation, Activation::kGeluErf>());
    case Activation::kSilu:
      return f(std::integral_constant<Activation, Activation::kSilu>());
    case Activation::kRelu:
      return f(std::integral_constant<Activation, Activation::kRelu>());
  }
}

/// The epilogue that finish_rows() applies to the sums of a GEMM.
struct RowFinish {
  Activation activation = Activation::kNone;
  std::optional<DType> bias;    ///< f32 or that of y
  DType y_dtype = DType::kF32;  ///< f32 or bf16
  std::int64_t columns = 0;     ///< of x and y, n
  std::int64_t y_stride = 0;    ///< elements from one row of y to the next
};

/// Scales of a GEMM of quantized rows: rows[rows], columns[n].
struct GemmScales {
  const float* rows = nullptr;
  const float* columns = nullptr;
};

/// y[r, i] = activation(x[r, i] * scales.rows[r] * scales.columns[i] + bias[i]) for `rows` rows of n, on the calling
/// thread, in f32 with one rounding. x is f32[rows, n], dense, and may be y if y is f32 and dense. `bias` is not
/// read if the form has none. Scales require no bias or one in f32.
void finish_rows(const RowFinish& form, std::int64_t rows, const float* x, const void* bias, void* y,
                 GemmScales scales = {});

}  // namespace headroom
