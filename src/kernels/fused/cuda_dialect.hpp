#pragma once

#include <string>
#include <string_view>

#include "base/tensors/dtype.hpp"
#include "ir/op.hpp"
#include "lower/row_program.hpp"

/// What the steps of a row program are called in the language that generated kernels are written in: CUDA C++, and a prelude that
/// stands in front of each (cuda_prelude_inl.cuh), as a compiler without headers needs it.
namespace headroom::cuda::dialect {

/// All that a kernel's text stands on, a line for each statement, so that what a compiler says of it can be read.
[[nodiscard]] std::string prelude();

/// The formula of an elementwise op of its operands a, b and c.
[[nodiscard]] std::string_view formula_of(Op op);
/// The struct of a dtype in memory, which reads and writes elements.
[[nodiscard]] std::string_view type_of(DType dtype);
/// The struct of a reduction, which joins two numbers.
[[nodiscard]] std::string_view reduction_of(RowProgram::Do what);
/// A number as a literal of f32.
[[nodiscard]] std::string number(double value);

}  // namespace headroom::cuda::dialect
