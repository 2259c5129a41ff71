#pragma once

#include <cstdint>

namespace headroom::cuda {

inline constexpr int kMaxGridAxes = 8;

/// How a GPU walks N operands together: rows of `length` elements, contiguous in each operand or one repeated element,
/// `rows` of them in all, placed by outer axes with the strides of every operand (elements, outermost axis first).
/// Plain data, passed to kernels by value.
template <int N>
struct GridRows {
  int rank = 0;  ///< of the outer axes
  std::int64_t extents[kMaxGridAxes] = {};
  std::int64_t strides[kMaxGridAxes][N] = {};
  std::int64_t rows = 1;
  std::int64_t length = 1;
  bool repeats[N] = {};  ///< the operand has one element for the whole row
};

}  // namespace headroom::cuda
