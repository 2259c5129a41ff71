#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "ir/op_code.hpp"

namespace headroom::differential {

namespace detail {
struct UnaryFormula {
  Op op;
  std::string_view formula;
};
inline constexpr std::array kUnaryFormulas = {
#define HR_UNARY(enumerator, name, flops, formula) UnaryFormula{Op::enumerator, #formula},
#define HR_ANY(...)
#include "ir/elementwise.def"
};
/// Whether the formula uses no function with a restricted domain or fast growth.
constexpr bool takes_any_number(const UnaryFormula& row) {
  return std::ranges::none_of(
      std::array<std::string_view, 4>{"m.exp(", "m.log(", "m.sqrt(", "m.rsqrt("},
      [&](std::string_view function) { return row.formula.find(function) != std::string_view::npos; });
}
}  // namespace detail

/// Functions of any number, with results not much larger than the operand: the rows of elementwise.def.
inline constexpr auto kUnary = [] {
  std::array<Op, static_cast<std::size_t>(std::ranges::count_if(detail::kUnaryFormulas, detail::takes_any_number))>
      ops{};
  std::size_t count = 0;
  for (const detail::UnaryFormula& row : detail::kUnaryFormulas)
    if (detail::takes_any_number(row)) ops[count++] = row.op;
  return ops;
}();

}  // namespace headroom::differential
