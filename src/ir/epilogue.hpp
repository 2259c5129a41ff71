#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/op_code.hpp"

namespace headroom {

/// What a matmul or a convolution does to each element of its result before it is rounded and stored: a tree of
/// elementwise ops, as `gelu_tanh(sum)` or `add(e0, mul(e1, sum))`. `sum` is the sum of products with the bias. e0, e1,
/// ... are the operands that the node has after its own, each of the result's type, or, of a matmul of rows, [n] in its
/// dtype: one number per column. Nothing inside is rounded, as in the body of a fused op.
class Epilogue {
 public:
  /// A term of the tree, in postfix order: the sum, an operand, or an op on the terms before it.
  struct Term {
    enum Kind : std::uint8_t { kSum, kOperand, kOp };
    Kind kind = kSum;
    std::uint8_t operand = 0;  ///< its number
    Op op{};
    friend bool operator==(const Term&, const Term&) = default;
  };

  /// The sum itself.
  Epilogue() = default;
  /// Activation::kNone is the sum itself.
  explicit Epilogue(Activation activation);
  /// The inverse of to_text. Throws Error for anything else.
  [[nodiscard]] static Epilogue parse(std::string_view text);
  /// Whether an epilogue may contain the op: elementwise, without attributes, and no fused op.
  [[nodiscard]] static bool may_contain(Op op);

  /// This epilogue followed by an op, of which it is operand `position`; the others are the next operands of the node.
  [[nodiscard]] Epilogue then(Op op, std::size_t position = 0) const;

  [[nodiscard]] bool is_empty() const noexcept { return terms_.empty(); }
  /// How many operands the node has for it.
  [[nodiscard]] std::size_t operand_count() const noexcept;
  /// In postfix order; none if it is the sum itself.
  [[nodiscard]] std::span<const Term> terms() const noexcept { return terms_; }
  /// "sum", "add(e0, sum)"
  [[nodiscard]] std::string to_text() const;

  /// Computes it bottom-up: `sum` and `operands` are the values of the leaves, and apply(op, args) that of an op.
  template <class T, class Apply>
  [[nodiscard]] T evaluate(T sum, std::span<const T> operands, const Apply& apply) const;

  friend bool operator==(const Epilogue&, const Epilogue&) = default;

 private:
  std::vector<Term> terms_;
};

/// The number of operands of an op that may be part of an epilogue.
[[nodiscard]] std::size_t arity_in_epilogue(Op op);

template <class T, class Apply>
T Epilogue::evaluate(T sum, std::span<const T> operands, const Apply& apply) const {
  std::vector<T> stack;
  if (terms_.empty()) stack.push_back(sum);
  for (const Term& term : terms_) {
    if (term.kind == Term::kSum) stack.push_back(sum);
    if (term.kind == Term::kOperand) stack.push_back(operands[term.operand]);
    if (term.kind != Term::kOp) continue;
    const std::size_t first = stack.size() - arity_in_epilogue(term.op);
    T made = apply(term.op, std::span<const T>(stack).subspan(first));
    stack.resize(first, sum);
    stack.push_back(std::move(made));
  }
  return std::move(stack.back());
}

/// activation(sum + operand): the form of the epilogues of libraries and of our kernels.
struct EpilogueForm {
  Activation activation = Activation::kNone;
  bool adds_operand = false;
};

/// The epilogue in that form; nothing if it has another.
[[nodiscard]] std::optional<EpilogueForm> form_of(const Epilogue& epilogue);

}  // namespace headroom
