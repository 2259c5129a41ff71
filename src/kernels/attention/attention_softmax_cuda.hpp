#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// The softmax of cublaslt.attention between its two GEMMs: its preparation and its launch.
namespace headroom::cuda {

/// Rows of scores, of `queries` queries of each head from `first_query` on. Operands: scores, bias, logsumexp. The
/// last two have strides of 0 if they are absent.
struct ScoreRows {
  enum class Bias : std::uint8_t { kNone, kAdded, kMask };  ///< as in AttentionProblem

  DType dtype = DType::kF32;  ///< of the scores, and of a bias that is added
  float scale = 1;
  Bias bias = Bias::kNone;
  bool may_see_none = false;  ///< a row whose scores are all hidden gives probabilities of 0
  std::int64_t diagonal = 0;  ///< query i sees keys 0..i + diagonal
  std::int64_t queries = 0, first_query = 0;
  GridRows<3> grid;
};

/// Converts scores into probabilities in place. `bias` and `logsumexp` point to query 0 of the rows, and are null if
/// absent.
void launch_attention_softmax(void* stream, const ScoreRows& rows, void* scores, const void* bias, float* logsumexp);

}  // namespace headroom::cuda
