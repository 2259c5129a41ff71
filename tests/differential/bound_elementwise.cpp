// Elementwise sums, activations and other functions, quotients and powers, remainders, comparisons, and selections by
// them.

#include <algorithm>
#include <cmath>

#include "differential/bound_parts.hpp"
#include "ir/infer.hpp"

namespace headroom::differential {
namespace {

// cuBLASLt does not document the tanh in its gelu epilogue, x / 2 * (1 + tanh(u)). Its measured error is 5e-6,
// rounded up here (docs/gpu_facts.md). That is far better than PTX's tanh.approx.f32 (2^-11), and worse than the tanh
// in CUDA's table of functions (2 ulp).
constexpr double kCublasltTanhUnit = 0x1p-17;

/// An operand's element for each result: its value, and its error bound.
struct Element {
  double value, off;
};

/// Operand k, broadcast to the results.
class BroadcastOperand {
 public:
  BroadcastOperand(const Site& site, std::size_t k) : operand_(*site.operands[k]), out_(site.results[0].type.shape) {}

  [[nodiscard]] Element operator[](std::size_t i) const {
    const Shape& shape = operand_.value.type.shape;
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t at = 0, stride = 1;
    for (int axis = 1; axis <= out_.rank(); ++axis) {
      const std::int64_t position = rest % out_[-axis];
      rest /= out_[-axis];
      if (axis > shape.rank()) continue;
      if (shape[-axis] != 1) at += position * stride;
      stride *= shape[-axis];
    }
    const auto index = static_cast<std::size_t>(at);
    return {value_at(operand_.value, index), operand_.error[index]};
  }

 private:
  const Bounded& operand_;
  const Shape& out_;
};

/// The error of each result, computed from its operands' elements and the oracle's result.
template <typename Rule>
Errors pairwise(const Site& site, const Rule& rule) {
  const BroadcastOperand a(site, 0), b(site, 1);
  Field error(static_cast<std::size_t>(site.results[0].type.shape.numel()));
  for (std::size_t i = 0; i < error.size(); ++i) error[i] = rule(a[i], b[i], value_at(site.results[0], i));
  return {error};
}

/// The maximum distance of y from the given ends; infinite if one of them is NaN.
double reach_of(double y, std::initializer_list<double> ends) {
  double reach = 0;
  for (const double end : ends) {
    if (!std::isfinite(end)) return kInfinity;
    reach = std::max(reach, std::fabs(end - y));
  }
  return reach;
}

double of(Op op, double x) {
  const OracleTensor number{{DType::kF64, Shape{}}, {x}, {}};
  return interpret_node(op, Attributes(op, {}), {number})[0].reals[0];
}

/// Sine, cosine, sign and magnitude have slopes of at most 1; the other functions are monotonic.
Errors function_errors(const Site& site) {
  const Bounded& x = *site.operands[0];
  const bool is_periodic = site.op == Op::kSin || site.op == Op::kCos;
  const bool is_exact = site.op == Op::kNeg || site.op == Op::kAbs;
  const double unit = is_exact ? 0 : function_unit(site);
  Field error = x.error;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double at = x.value.reals[i], y = site.results[0].reals[i];
    if (!std::isfinite(error[i]))
      continue;
    else if (is_periodic)
      error[i] = std::min(error[i], 2.0);
    else if (!is_exact && error[i] > 0)
      error[i] = reach_of(y, {of(site.op, at - error[i]), of(site.op, at + error[i])});
    if (std::isfinite(y)) error[i] += unit * std::fabs(y);
  }
  return {error};
}

/// Activations: none is steeper than this anywhere: relu, silu (1.100), gelu (1.129).
Errors activation(const Site& site) {
  Field error = site.operands[0]->error;
  double unit = function_unit(site);
  if (site.op == Op::kGeluTanh && site.within.is_cublaslt) unit += kCublasltTanhUnit / 2;
  for (std::size_t i = 0; i < error.size(); ++i) {
    const double x = std::fabs(site.operands[0]->value.reals[i]);
    error[i] = site.op == Op::kRelu ? error[i] : kSteepestUnary * error[i] + unit * x;
  }
  return {error};
}

}  // namespace

Errors sum_errors(const Site& site) {
  return {evaluate(site, Op::kAdd, Attributes(Op::kAdd, {}), operand_errors(site))};
}

Errors scalar_errors(const Site& site) {
  const double value = site.attributes[attr::kValue];
  Field error = site.operands[0]->error;
  for (std::size_t i = 0; i < error.size(); ++i) {
    if (site.op == Op::kMulScalar)
      error[i] *= std::fabs(value);
    else
      error[i] += arithmetic_unit(site.covers) * std::fabs(value);
  }
  return {error};
}

Errors unary_errors(const Site& site) {
  for (const Op op : {Op::kRelu, Op::kSilu, Op::kGeluTanh, Op::kQuickGelu, Op::kGeluErf})
    if (site.op == op) return activation(site);
  return function_errors(site);
}

/// Its limits are rounded to f32.
Errors clamp_errors(const Site& site) {
  const double low = site.attributes[attr::kLow], high = site.attributes[attr::kHigh];
  Field error = site.operands[0]->error;
  if (!is_float(site.results[0].type.dtype)) return {error};
  for (double& off : error) off += arithmetic_unit(site.covers) * std::max(std::fabs(low), std::fabs(high));
  return {error};
}

Errors div_errors(const Site& site) {
  const double unit = 2 * arithmetic_unit(site.covers);
  return pairwise(site, [&](Element a, Element b, double y) {
    const double least = std::fabs(b.value) - b.off;
    if (a.off == 0 && b.off == 0 && !std::isfinite(y)) return 0.0;
    return least > 0 ? (a.off + std::fabs(y) * b.off) / least + unit * std::fabs(y) : kInfinity;
  });
}

/// For positive numbers, pow is monotonic in both operands.
Errors pow_errors(const Site& site) {
  const double unit = 2 * function_unit(site);
  return pairwise(site, [&](Element a, Element b, double y) {
    if (a.off == 0 && b.off == 0) return std::isfinite(y) ? unit * std::fabs(y) : 0.0;
    const double low = a.value - a.off, high = a.value + a.off;
    if (!(low > 0)) return kInfinity;
    const double down = b.value - b.off, up = b.value + b.off;
    return reach_of(y, {std::pow(low, down), std::pow(low, up), std::pow(high, down), std::pow(high, up)}) +
           unit * std::fabs(y);
  });
}

/// The error of the quotient's floor times b, if that floor is certain; otherwise anything between 0 and b.
Errors mod_errors(const Site& site) {
  const double unit = is_float(site.results[0].type.dtype) ? arithmetic_unit(site.covers) : 0.0;
  return pairwise(site, [&](Element a, Element b, double y) {
    if (a.off == 0 && b.off == 0) return std::isfinite(y) ? unit * std::fabs(b.value) : 0.0;
    const double size = std::fabs(b.value);
    const double off = a.off + std::fabs(std::floor(a.value / b.value)) * b.off + unit * size;
    if (!(size > b.off) || !std::isfinite(off)) return kInfinity;
    const bool is_certain = std::fabs(y) > off && std::fabs(y) + off < size - b.off;
    return is_certain ? off : size + b.off;
  });
}

Errors extreme_errors(const Site& site) {
  return pairwise(site, [](Element a, Element b, double) { return std::max(a.off, b.off); });
}

Errors comparison_errors(const Site& site) {
  return pairwise(site, [](Element a, Element b, double) {
    const double off = a.off + b.off;
    return off > 0 && !(std::fabs(a.value - b.value) > off) ? 1.0 : 0.0;
  });
}

Errors select_errors(const Site& site) {
  const BroadcastOperand condition(site, 0), a(site, 1), b(site, 2);
  Field error(static_cast<std::size_t>(site.results[0].type.shape.numel()));
  for (std::size_t i = 0; i < error.size(); ++i) {
    error[i] = condition[i].value != 0 ? a[i].off : b[i].off;
    if (condition[i].off == 0) continue;
    error[i] = std::fabs(a[i].value - b[i].value) + std::max(a[i].off, b[i].off);
    if (!std::isfinite(error[i])) error[i] = kInfinity;
  }
  return {error};
}

}  // namespace headroom::differential
