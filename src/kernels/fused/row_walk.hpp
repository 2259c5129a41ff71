#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/kernel.hpp"
#include "lower/row_program.hpp"

namespace headroom {

/// How the operands of a row program lie in memory, axis by axis: rows placed by outer axes, and the columns of a row.
/// Axes of one element are left out, and those merged that lie one behind the other in every operand. Where nothing
/// belongs together along a row (RowProgram::needs_rows), rows are as long as the operands allow, with the axes in the
/// order in which they lie in the first result, so that dense tensors are one row in any layout; elsewhere rows that read
/// the same of a large operand follow one another, so that it comes from a cache, unless it does so anyway.
///
/// Operands are the program's loads and behind them its results. Strides are in elements, 0 where an operand has one
/// element for the whole axis. An axis along which a load repeats its elements is two, the inner one with stride 0; only
/// columns are kept whole, with strides that count from one repeated element to the next.
struct RowWalk {
  struct Axis {
    std::int64_t extent = 1;
    std::vector<std::int64_t> strides;  ///< by operand
    std::vector<int> repeats;           ///< by operand: neighbours that share an element, 1 but for columns
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> outer;  ///< outermost first
  Axis columns;             ///< strides are 1 or 0 where the kernel asked for StrideRule::kInnerDense

  [[nodiscard]] std::int64_t rows() const;
};

/// A row program bound to operands: all that its kernel depends on.
struct BoundProgram {
  RowProgram program;
  RowWalk walk;
  std::vector<DType> loads;    ///< dtypes of program.loads
  std::vector<DType> results;  ///< of program.results
};

/// The row program of a fused op, which it must have, bound to its operands as they lie. What is read again within `cache_bytes` of other
/// traffic is taken to come from a cache that all threads share.
[[nodiscard]] BoundProgram bound_program(const OpSpec& spec, std::span<const Operand> inputs,
                                         std::span<const Operand> outputs, std::int64_t cache_bytes = 0);
/// The same with dense operands.
[[nodiscard]] BoundProgram densely_bound_program(const OpSpec& spec, std::int64_t cache_bytes = 0);

}  // namespace headroom
