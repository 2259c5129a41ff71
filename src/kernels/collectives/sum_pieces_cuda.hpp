#pragma once

#include <cstdint>

namespace headroom::cuda {

inline constexpr int kMostPieces = 8;

struct Pieces {
  int count = 0;
  const float* at[kMostPieces] = {};
};

/// y[i] is the sum of the pieces' elements i in double, in their order, or the largest of them; NaN if one is NaN.
void sum_pieces(void* stream, const Pieces& pieces, std::int64_t elements, bool largest, float* y);

}  // namespace headroom::cuda
