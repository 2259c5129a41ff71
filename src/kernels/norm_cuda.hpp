#pragma once

#include <cstdint>

#include "kernels/cuda/grid_rows.hpp"

/// Between the two halves of norm_cuda and of softmax_cuda: what is prepared and what is launched.
namespace headroom::cuda {

enum class Norm : std::uint8_t { kLayer, kRms, kModulate };

/// Operands x, weight or scale (x again for layer_norm), shift (likewise), y; rows are what is normalized.
struct NormRows {
  Norm form = Norm::kLayer;
  bool is_bf16 = false;
  bool is_side_bf16 = false;  ///< weight, scale and shift
  float eps = 0;
  GridRows<4> grid;
};
void launch_norm(void* stream, const NormRows& rows, const void* x, const void* scale, const void* shift, void* y);

/// softmax(scale * x); operands x, y.
struct SoftmaxRows {
  bool is_bf16 = false;
  float scale = 1;
  GridRows<2> grid;
};
void launch_softmax(void* stream, const SoftmaxRows& rows, const void* x, void* y);

}  // namespace headroom::cuda
