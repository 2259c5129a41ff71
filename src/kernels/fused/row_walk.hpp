#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/core/kernel.hpp"
#include "lower/row_program.hpp"

namespace headroom {

/// The memory layout of a row program's operands: outer axes that place rows, and the columns of a row. Axes of one
/// element are dropped, and axes that are contiguous in every operand are merged. In programs without needs_rows,
/// rows are as long as the operands allow, and axes are in the memory order of the first result, so that dense
/// tensors are one row in any layout. In other programs, rows that read the same data of a large operand are
/// successive, so that the data comes from a cache, unless it does so anyway.
///
/// Operands are the program's loads, then its results. Strides are in elements, 0 if an operand has one element for
/// the whole axis. An axis along which a load repeats its elements becomes two, the inner one with stride 0. Only
/// columns are not split; their strides count from one repeated element to the next.
struct RowWalk {
  struct Axis {
    std::int64_t extent = 1;
    std::vector<std::int64_t> strides;  ///< by operand
    std::vector<int> repeats;           ///< by operand: neighbours that share an element, 1 but for columns
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  std::vector<Axis> outer;  ///< outermost first
  Axis columns;             ///< strides are 1 or 0 if the kernel asked for StrideRule::kInnerDense

  [[nodiscard]] std::int64_t rows() const;
};

/// A row program bound to operands: everything that its kernel depends on.
struct BoundProgram {
  RowProgram program;
  RowWalk walk;
  std::vector<DType> loads;    ///< dtypes of program.loads
  std::vector<DType> results;  ///< of program.results
};

/// The row program of a fused op, which must have one, bound to its operands' layout. Data reused within
/// `cache_bytes` of other traffic is assumed to come from a cache that all threads share.
[[nodiscard]] BoundProgram bound_program(const OpSpec& spec, std::span<const Operand> inputs,
                                         std::span<const Operand> outputs, std::int64_t cache_bytes = 0);
/// The same with dense operands.
[[nodiscard]] BoundProgram densely_bound_program(const OpSpec& spec, std::int64_t cache_bytes = 0);

}  // namespace headroom
