#pragma once

#include <functional>

#include "kernels/vendor/onednn/linear_gemm.hpp"

namespace headroom::onednn {

/// Some rows of a GEMM, once its sums are computed.
struct Piece {
  std::int64_t rows;
  RowPlan::Offsets at;  ///< of its first row in x and y, in elements
  float* sums;          ///< [rows, n], written by oneDNN, in the core's cache
  void* y;              ///< its first row
};

/// How a GEMM is computed in pieces.
struct Pieces {
  int weight;                ///< the input that is the weight
  GemmEpilogue end;          ///< that oneDNN applies to the sums
  DType y_dtype;             ///< of the whole op's result
  std::int64_t rows;         ///< of a piece; the last of each GEMM may have fewer
  std::int64_t layout_rows;  ///< of a GEMM that prefers the layout of the weight
  std::int64_t grain = 1;    ///< pieces worth waking a team for
  bool is_staged = false;    ///< oneDNN writes into scratch, not y
  std::function<void(const LaunchArguments&, const Piece&)> finish = {};  ///< the rest, on the same thread
};

/// A linear computed in pieces of a few dozen rows. Each thread takes pieces of its own. oneDNN, on one thread,
/// writes a GEMM's result into y, or as f32 into scratch that stays in the core's cache, and Headroom's row kernel
/// finishes it from there.
///
/// Why: oneDNN's own activations take 20 (f32) to 33 (bf16) cycles for 16 elements, on AMX twice the time of the
/// GEMM before them. A GEMM for each of 20 short stretches of rows costs a fork and join each time. oneDNN gives
/// each thread an equal part beforehand, so that a GEMM takes as long as the slowest core needs. A forward pass of
/// a small transformer in fp32, all launches in shared parts, takes 370 ms in place of 450 on two cores, one of
/// which also runs a busy loop. Without the busy loop both take the same 190 ms.
[[nodiscard]] KernelPlan plan_pieces(const LinearProblem& problem, const RowPlan& rows, const Pieces& pieces,
                                     int threads);

}  // namespace headroom::onednn
