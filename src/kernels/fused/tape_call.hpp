#pragma once

#include <array>
#include <cstdint>

#include "base/tensors/dtype.hpp"
#include "kernels/core/row_loop.hpp"
#include "kernels/fused/row_tape.hpp"

namespace headroom {

/// An instruction on rows of a block.
struct TapeCall {
  struct Operand {
    const char* at;
    std::int64_t row_bytes;  ///< to the next row
    std::int64_t step;       ///< bytes to the next column
    DType dtype;
  };
  std::array<Operand, kMostTapeArguments> x;
  char* y;
  std::int64_t y_row_bytes;
  DType dtype;              ///< of y
  bool past_cache;          ///< y uses non-temporal stores
  bool asks_ahead;          ///< prefetch the operands kAheadBytes ahead
  const char* ahead;        ///< memory of later chunks to prefetch meanwhile, if ahead_step is not 0
  std::int64_t ahead_step;  ///< bytes to prefetch per two vectors, kMostAheadStep at most
  std::int64_t rows, columns;
  char* reduced;           ///< of row 0; kTapeLanes of f32 for each
  bool is_first, is_last;  ///< block of the row
  char* also;              ///< a second destination of y, or null
  std::int64_t also_row_bytes;
  DType also_dtype;
  bool also_past_cache;
};
using TapeLoop = void (*)(const TapeCall& call);

inline constexpr std::int64_t kMostAheadStep = 2 * kCacheLine;

}  // namespace headroom
