#include "autodiff/term.hpp"

#include <algorithm>
#include <utility>

namespace headroom {

void TermBuilder::know(Op op, const std::vector<ValueId>& operands, const Attributes& attributes, ValueId result) {
  known_[{op, operands, attributes.has(attr::kValue) ? attributes[attr::kValue] : 0}] = result;
}

ValueId TermBuilder::widened(ValueId value) {
  const DType dtype = builder_.dtype(value);
  if (dtype == working_ || dtype == DType::kBool) return value;
  const auto [known, is_new] = known_.try_emplace({Op::kCast, {value}, 0.0});
  if (is_new) known->second = builder_.cast(value, working_);
  return known->second;
}

ValueId TermBuilder::as_value(Term term) {
  if (!term.is_number()) return term.value();
  const auto [known, is_new] = known_.try_emplace({Op::kConstant, {}, term.number()});
  if (is_new) known->second = builder_.constant({term.number()}, Shape{}, working_);
  return known->second;
}

ValueId TermBuilder::emit(Op op, std::vector<ValueId> operands, double number) {
  if (const auto known = known_.find({op, operands, number}); known != known_.end()) return known->second;
  std::vector<ValueId> wide(operands.size());
  std::ranges::transform(operands, wide.begin(), [&](ValueId operand) { return widened(operand); });
  const auto [known, is_new] = known_.try_emplace({op, wide, number});
  if (!is_new) return known->second;
  NamedAttributes attributes;
  if (schema_of(op).has(attr::kValue)) attributes.emplace_back(attr::kValue, number);
  known->second = builder_.emit(op, std::move(wide), std::move(attributes))[0];
  return known->second;
}

Term TermBuilder::add(Term a, Term b) {
  if (a.is_number() && b.is_number()) return a.number() + b.number();
  if (a.is(0)) return b;
  if (b.is(0)) return a;
  if (a.is_number()) std::swap(a, b);
  if (b.is_number()) return emit(Op::kAddScalar, {a.value()}, b.number());
  return emit(Op::kAdd, {a.value(), b.value()});
}

Term TermBuilder::sub(Term a, Term b) {
  if (a.is_number() || b.is_number()) return add(a, neg(b));
  return emit(Op::kSub, {a.value(), b.value()});
}

Term TermBuilder::neg(Term a) {
  if (a.is_number()) return -a.number();
  return emit(Op::kNeg, {a.value()});
}

Term TermBuilder::mul(Term a, Term b) {
  if (a.is_number() && b.is_number()) return a.number() * b.number();
  if (a.is(0) || b.is(0)) return 0.0;
  if (a.is_number()) std::swap(a, b);
  if (b.is(1)) return a;
  if (b.is(-1)) return neg(a);
  if (b.is_number()) return emit(Op::kMulScalar, {a.value()}, b.number());
  return emit(Op::kMul, {a.value(), b.value()});
}

Term TermBuilder::div(Term a, Term b) {
  if (a.is_number() && b.is_number()) return a.number() / b.number();
  if (a.is(0) || b.is(1)) return a;
  return emit(Op::kDiv, {as_value(a), as_value(b)});
}

Term TermBuilder::choose(ValueId condition, Term a, Term b) {
  if (a.is_number() && b.is(a.number())) return a;
  return emit(Op::kSelect, {condition, as_value(a), as_value(b)});
}

}  // namespace headroom
