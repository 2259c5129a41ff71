#pragma once

#include <functional>

#include "kernels/vendor/onednn/linear_gemm.hpp"

namespace headroom::onednn {

/// Some rows of a product, when its sums are made.
struct Piece {
  std::int64_t rows;
  RowPlan::Offsets at;  ///< of its first row in x and y, in elements
  float* sums;          ///< [rows, n]: what oneDNN wrote, in the core's cache
  void* y;              ///< its first row
};

/// How a product is made in pieces.
struct Pieces {
  int weight;                ///< the input that is the weight
  GemmEpilogue end;          ///< what oneDNN does to the sums
  DType y_dtype;             ///< of the whole op's result
  std::int64_t rows;         ///< of a piece; the last of each product may have fewer
  std::int64_t layout_rows;  ///< of a product that likes best the layout of the weight
  std::int64_t grain = 1;    ///< pieces worth waking a team for
  bool is_staged = false;    ///< oneDNN writes into scratch, not y
  std::function<void(const LaunchArguments&, const Piece&)> finish = {};  ///< what follows, on the same thread
};

/// A linear made in pieces of a few dozen rows. Each thread takes pieces of its own: oneDNN, on one thread, writes a
/// product into y, or as f32 into scratch that stays in the core's cache, and our row kernel finishes it from there.
///
/// Why: oneDNN's own activations take 20 (f32) to 33 (bf16) cycles for 16 elements, on AMX twice the time of the
/// product before them; a product for each of 20 short stretches of rows costs a fork and join each time; and oneDNN
/// gives each thread an equal part beforehand, so that a product takes as long as the slowest core needs for that. A
/// forward pass of a small transformer in fp32, all launches in shared parts, takes 370 ms in place of 450 on two cores one of
/// which a busy loop takes too, and the same 190 ms where none does.
[[nodiscard]] KernelPlan plan_pieces(const LinearProblem& problem, const RowPlan& rows, const Pieces& pieces,
                                     int threads);

}  // namespace headroom::onednn
