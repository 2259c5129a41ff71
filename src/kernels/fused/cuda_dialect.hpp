#pragma once

#include <string>
#include <string_view>

#include "base/tensors/dtype.hpp"
#include "ir/op.hpp"
#include "lower/row_program.hpp"

/// Translates the steps of a row program into the language of generated kernels: CUDA C++, after a prelude
/// (cuda_prelude_inl.cuh), because the compiler has no headers.
namespace headroom::cuda::dialect {

/// The prelude of every kernel's text, one statement per line, so that compiler messages are readable.
[[nodiscard]] std::string prelude();

/// The formula of an elementwise op on its operands a, b and c.
[[nodiscard]] std::string_view formula_of(Op op);
/// The struct of a dtype in memory, which reads and writes elements.
[[nodiscard]] std::string_view type_of(DType dtype);
/// The struct of a reduction, which joins two numbers.
[[nodiscard]] std::string_view reduction_of(RowProgram::Do what);
/// A number as a literal of f32.
[[nodiscard]] std::string number(double value);

}  // namespace headroom::cuda::dialect
