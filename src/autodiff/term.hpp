#pragma once

#include <map>
#include <tuple>
#include <variant>
#include <vector>

#include "ir/builder.hpp"

namespace headroom {

/// A number that is known when the graph is built, or a value of the graph.
class Term {
 public:
  Term(double number) : is_(number) {}  // NOLINT(google-explicit-constructor): a term is one of the two
  Term(ValueId value) : is_(value) {}   // NOLINT(google-explicit-constructor)

  [[nodiscard]] bool is_number() const { return std::holds_alternative<double>(is_); }
  [[nodiscard]] bool is(double number) const { return is_number() && this->number() == number; }
  [[nodiscard]] double number() const { return std::get<double>(is_); }
  [[nodiscard]] ValueId value() const { return std::get<ValueId>(is_); }

 private:
  std::variant<double, ValueId> is_;
};

/// Emits elementwise ops on terms, each once: the same op on the same operands is the same value. Sums with 0 and
/// products with 0, 1 and -1 emit nothing.
class TermBuilder {
 public:
  /// Ops are computed in `working`; operands of another dtype are cast to it.
  TermBuilder(Builder& builder, DType working) : builder_(builder), working_(working) {}

  /// Makes `result` known as that of the op on these operands.
  void know(Op op, const std::vector<ValueId>& operands, const Attributes& attributes, ValueId result);

  [[nodiscard]] Term add(Term a, Term b);
  [[nodiscard]] Term sub(Term a, Term b);
  [[nodiscard]] Term mul(Term a, Term b);
  [[nodiscard]] Term div(Term a, Term b);
  [[nodiscard]] Term neg(Term a);
  /// A unary op, or a binary one, of a value at least.
  [[nodiscard]] ValueId apply(Op op, Term a) { return emit(op, {as_value(a)}); }
  [[nodiscard]] ValueId apply(Op op, Term a, Term b) { return emit(op, {as_value(a), as_value(b)}); }
  /// condition ? a : b
  [[nodiscard]] Term choose(ValueId condition, Term a, Term b);

 private:
  ValueId emit(Op op, std::vector<ValueId> operands, double number = 0);
  ValueId as_value(Term term);
  ValueId widened(ValueId value);

  Builder& builder_;
  DType working_;
  std::map<std::tuple<Op, std::vector<ValueId>, double>, ValueId> known_;
};

}  // namespace headroom
