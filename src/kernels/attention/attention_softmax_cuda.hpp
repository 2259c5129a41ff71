#pragma once

#include <cstdint>

#include "base/tensors/dtype_code.hpp"
#include "kernels/core/cuda/grid_rows.hpp"

/// Between the two halves of what cublaslt.attention does between its products: what is prepared and what is launched.
namespace headroom::cuda {

/// Rows of scores, of `queries` queries of each head from `first_query` on; operands scores, bias, logsumexp, of which
/// the last two have strides of 0 where a node has none.
struct ScoreRows {
  enum class Bias : std::uint8_t { kNone, kAdded, kMask };  ///< as in AttentionProblem

  DType dtype = DType::kF32;  ///< of the scores, and of a bias that is added
  float scale = 1;
  Bias bias = Bias::kNone;
  bool causal = false;
  std::int64_t queries = 0, first_query = 0;
  GridRows<3> grid;
};

/// Makes scores probabilities where they lie. `bias` and `logsumexp`, null where there is none, are those of query 0 of
/// the rows.
void launch_attention_softmax(void* stream, const ScoreRows& rows, void* scores, const void* bias, float* logsumexp);

}  // namespace headroom::cuda
