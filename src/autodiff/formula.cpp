#include "autodiff/formula.hpp"

#include <cmath>
#include <numbers>
#include <optional>
#include <utility>

#include "autodiff/term.hpp"
#include "ir/ops/gradient_parts.hpp"

namespace headroom {
namespace {

/// A number with its derivative with respect to one operand of a formula.
struct Dual {
  TermBuilder* terms;
  Term value;
  Term slope = 0.0;
};

Dual operator+(const Dual& a, const Dual& b) {
  return {a.terms, a.terms->add(a.value, b.value), a.terms->add(a.slope, b.slope)};
}
Dual operator-(const Dual& a, const Dual& b) {
  return {a.terms, a.terms->sub(a.value, b.value), a.terms->sub(a.slope, b.slope)};
}
Dual operator*(const Dual& a, const Dual& b) {
  TermBuilder& t = *a.terms;
  return {&t, t.mul(a.value, b.value), t.add(t.mul(a.slope, b.value), t.mul(a.value, b.slope))};
}
/// (a' - (a / b) b') / b
Dual operator/(const Dual& a, const Dual& b) {
  TermBuilder& t = *a.terms;
  const Term quotient = t.div(a.value, b.value);
  return {&t, quotient, t.div(t.sub(a.slope, t.mul(quotient, b.slope)), b.value)};
}

/// The functions used by formulas. Each is given the values of its operands, which are no plain numbers: those are
/// attributes, and functions of attributes alone are not in the table.
struct DualMath {
  TermBuilder* terms;

  /// 0 at 0; NaN passes its gradient on.
  [[nodiscard]] Dual positive(const Dual& a) const {
    return {terms, terms->apply(Op::kRelu, a.value),
            terms->choose(terms->apply(Op::kLessEqual, a.value, 0.0), 0.0, a.slope)};
  }
  /// s + a s (1 - s) (c + 3 d a^2) for s = sigmoid(c a + d a^3)
  [[nodiscard]] Dual swish(const Dual& a, double /*tail*/, double c, double d) const {
    const Term square = d == 0 ? Term(0.0) : terms->mul(a.value, a.value);
    const Term inner = terms->mul(a.value, terms->add(c, terms->mul(d, square)));
    const Term s = terms->apply(Op::kSigmoid, inner);
    const Term value = terms->mul(a.value, s);
    const Term steep = terms->mul(terms->mul(value, terms->sub(1.0, s)), terms->add(c, terms->mul(3 * d, square)));
    return along(a, value, terms->add(s, steep));
  }
  /// Phi(a) + a phi(a)
  [[nodiscard]] Dual normal(const Dual& a) const {
    const Term twice = terms->add(terms->apply(Op::kErf, terms->mul(a.value, 1 / std::numbers::sqrt2)), 1.0);
    const Term below = terms->mul(twice, 0.5);
    const Term power = terms->apply(Op::kExp, terms->mul(terms->mul(a.value, a.value), -0.5));
    const Term density = terms->mul(power, std::numbers::inv_sqrtpi / std::numbers::sqrt2);
    return along(a, terms->mul(a.value, below), terms->add(below, terms->mul(a.value, density)));
  }

  [[nodiscard]] Dual neg(const Dual& a) const { return {terms, terms->neg(a.value), terms->neg(a.slope)}; }
  /// 0 at 0
  [[nodiscard]] Dual abs(const Dual& a) const {
    const Term below = terms->choose(terms->apply(Op::kLess, a.value, 0.0), -1.0, 0.0);
    return along(a, terms->apply(Op::kAbs, a.value), terms->choose(terms->apply(Op::kLess, 0.0, a.value), 1.0, below));
  }
  [[nodiscard]] Dual exp(const Dual& a) const {
    const Term power = terms->apply(Op::kExp, a.value);
    return along(a, power, power);
  }
  [[nodiscard]] Dual log(const Dual& a) const {
    return along(a, terms->apply(Op::kLog, a.value), terms->div(1.0, a.value));
  }
  /// infinite at 0
  [[nodiscard]] Dual sqrt(const Dual& a) const {
    const Term root = terms->apply(Op::kSqrt, a.value);
    return along(a, root, terms->div(0.5, root));
  }
  [[nodiscard]] Dual rsqrt(const Dual& a) const {
    const Term root = terms->apply(Op::kRsqrt, a.value);
    return along(a, root, terms->mul(terms->mul(terms->mul(root, root), root), -0.5));
  }
  [[nodiscard]] Dual tanh(const Dual& a) const {
    const Term value = terms->apply(Op::kTanh, a.value);
    return along(a, value, terms->sub(1.0, terms->mul(value, value)));
  }
  [[nodiscard]] Dual sigmoid(const Dual& a) const {
    const Term s = terms->apply(Op::kSigmoid, a.value);
    return along(a, s, terms->mul(s, terms->sub(1.0, s)));
  }
  [[nodiscard]] Dual erf(const Dual& a) const {
    const Term power = terms->apply(Op::kExp, terms->neg(terms->mul(a.value, a.value)));
    return along(a, terms->apply(Op::kErf, a.value), terms->mul(power, 2 * std::numbers::inv_sqrtpi));
  }
  [[nodiscard]] Dual sin(const Dual& a) const {
    return along(a, terms->apply(Op::kSin, a.value), terms->apply(Op::kCos, a.value));
  }
  [[nodiscard]] Dual cos(const Dual& a) const {
    return along(a, terms->apply(Op::kCos, a.value), terms->neg(terms->apply(Op::kSin, a.value)));
  }
  /// An exponent of 0 has the derivative 0 in a, and a base of 0 with an exponent that is not negative in b.
  [[nodiscard]] Dual pow(const Dual& a, const Dual& b) const {
    const Term value = terms->apply(Op::kPow, a.value, b.value);
    Term slope = 0.0;
    if (!a.slope.is(0)) {
      const Term steep = terms->mul(b.value, terms->apply(Op::kPow, a.value, terms->add(b.value, -1.0)));
      slope = terms->mul(a.slope, terms->choose(terms->apply(Op::kEqual, b.value, 0.0), 0.0, steep));
    }
    if (!b.slope.is(0)) {
      const Term flat = terms->choose(terms->apply(Op::kLessEqual, 0.0, b.value), 0.0, log_of_base(value, a.value));
      const Term steep = terms->choose(terms->apply(Op::kEqual, a.value, 0.0), flat, log_of_base(value, a.value));
      slope = terms->add(slope, terms->mul(b.slope, steep));
    }
    return {terms, value, slope};
  }

  [[nodiscard]] Dual min(const Dual& a, const Dual& b) const { return extreme(Op::kMin, a, b); }
  [[nodiscard]] Dual max(const Dual& a, const Dual& b) const { return extreme(Op::kMax, a, b); }
  /// a - floor(a / b) b
  [[nodiscard]] Dual mod(const Dual& a, const Dual& b) const {
    const Term rest = terms->apply(Op::kMod, a.value, b.value);
    Term slope = a.slope;
    if (!b.slope.is(0)) {
      const Term times = terms->div(terms->sub(a.value, rest), b.value);
      slope = terms->sub(slope, terms->mul(times, b.slope));
    }
    return {terms, rest, slope};
  }

 private:
  /// f(a) by the chain rule.
  [[nodiscard]] Dual along(const Dual& a, Term value, Term steepness) const {
    return {terms, value, terms->mul(a.slope, steepness)};
  }
  [[nodiscard]] Term log_of_base(Term power, Term base) const {
    return terms->mul(power, terms->apply(Op::kLog, base));
  }
  /// Equal operands share the derivative evenly; a bound that is a number leaves all of it to the operand on it.
  [[nodiscard]] Dual extreme(Op op, const Dual& a, const Dual& b) const {
    const Term value = terms->apply(op, a.value, b.value);
    const auto is_within = [&](const Dual& x, const Dual& bound, Op less) {
      return op == Op::kMax ? terms->apply(less, bound.value, x.value) : terms->apply(less, x.value, bound.value);
    };
    if (b.value.is_number()) return {terms, value, terms->choose(is_within(a, b, Op::kLessEqual), a.slope, 0.0)};
    const ValueId are_equal = terms->apply(Op::kEqual, a.value, b.value);
    const auto share = [&](const Dual& own, const Dual& other) {
      if (own.slope.is(0)) return Term(0.0);
      const Term all = terms->choose(is_within(other, own, Op::kLess), 0.0, 1.0);
      return terms->mul(own.slope, terms->choose(are_equal, 0.5, all));
    };
    return {terms, value, terms->add(share(a, b), share(b, a))};
  }
};

/// The formula of the op; nothing if it has none.
std::optional<Dual> evaluate(Op op, DualMath m, Dual a, Dual b, Dual c) {
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if (op == Op::enumerator) return formula;
#define HR_COMPARISON(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
  return std::nullopt;
}

/// The gradient of one operand: `made` times the derivative, summed over the axes along which it was broadcast.
ValueId times_slope(Builder& builder, ValueId made, Term slope, const TensorType& operand) {
  if (slope.is(0)) return kNoValue;
  if (slope.is_number()) {
    if (!slope.is(1)) made = slope.is(-1) ? builder.neg(made) : builder.mul_scalar(made, slope.number());
  } else {
    const DType dtype = builder.dtype(slope.value());
    const DType working = builder.shape(made) == operand.shape ? dtype : ops::summing_dtype(dtype);
    made = builder.mul(builder.cast(made, working), builder.cast(slope.value(), working));
  }
  return ops::sum_to(builder, made, operand);
}

}  // namespace

bool has_formula(Op op) {
#define HR_ANY(enumerator, ...) \
  if (op == Op::enumerator) return true;
#define HR_COMPARISON(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
  return false;
}

std::vector<ValueId> derive_formula(Builder& builder, Op op, const Derivation& node) {
  TermBuilder terms(builder, ops::summing_dtype(builder.dtype(node.gradient())));
  terms.know(op, {node.in.begin(), node.in.end()}, node.attributes, node.out[0]);
  std::vector<Term> operands(node.in.begin(), node.in.end());
  for (const AttributeKey<double> number : {attr::kValue, attr::kLow, attr::kHigh})
    if (node.attributes.has(number)) operands.emplace_back(node.attributes[number]);
  operands.resize(3, 0.0);

  std::vector<ValueId> gradients(node.in.size(), kNoValue);
  for (std::size_t i = 0; i < node.in.size(); ++i) {
    if (!node.wanted[i]) continue;
    const auto dual = [&](std::size_t k) { return Dual{&terms, operands[k], k == i ? 1.0 : 0.0}; };
    const std::optional<Dual> made = evaluate(op, DualMath{&terms}, dual(0), dual(1), dual(2));
    const TensorType type = builder.graph().type(node.in[i]);
    gradients[i] = times_slope(builder, node.gradient(), made->slope, type);
  }
  return gradients;
}

}  // namespace headroom
