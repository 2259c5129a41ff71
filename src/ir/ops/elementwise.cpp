#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/ops/families.hpp"

// Elementwise ops.

namespace headroom::ops {
namespace {

std::vector<TensorType> binary_types(const TypeQuery& given) {
  given.require(given.in[0].dtype == given.in[1].dtype, "two operands of one dtype");
  given.require(given.in[0].dtype != DType::kBool, "numbers");
  TensorType result{given.in[0].dtype, broadcast_shapes(given.in[0].shape, given.in[1].shape)};
  for (const TensorType& operand : given.in) {
    if (operand.shape == result.shape && operand.layout != Layout::kRowMajor) result.layout = operand.layout;
  }
  return {result};
}

std::vector<TensorType> scalar_types(const TypeQuery& given) {
  const double value = given.attributes.get_float("value");
  const bool integral = std::trunc(value) == value && std::fabs(value) < 0x1p53;
  given.require(given.in[0].dtype != DType::kBool, "numbers");
  given.require(is_float(given.in[0].dtype) || integral, "an integral value with integers");
  return {given.in[0]};
}

std::vector<TensorType> activation_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype), "a floating-point dtype");
  return {given.in[0]};
}

std::vector<TensorType> gelu_types(const TypeQuery& given) {
  const std::string& approximate = given.attributes.get_text("approximate");
  if (approximate != "tanh" && approximate != "none") {
    fail("gelu: approximate must be \"tanh\" or \"none\", but was given \"{}\"", approximate);
  }
  return activation_types(given);
}

std::vector<TensorType> cast_types(const TypeQuery& given) {
  return {{given.attributes.get_dtype("dtype"), given.in[0].shape, given.in[0].layout}};
}

/// The element strides with which an operand of `shape` is read over `out`: 0 along axes that it is broadcast along.
Shape broadcast_strides(const Shape& shape, const Shape& out) {
  const Shape dense = row_major_strides(shape);
  Shape strides = out;
  for (int axis = 1; axis <= out.rank(); ++axis) {
    strides.set(-axis, axis <= shape.rank() && shape[-axis] != 1 ? dense[-axis] : 0);
  }
  return strides;
}

/// Calls visit(out index, a index, b index) for each element of `out`, in row-major order.
template <typename Visit>
void for_each_broadcast(const Shape& a, const Shape& b, const Shape& out, Visit visit) {
  const Shape a_strides = broadcast_strides(a, out);
  const Shape b_strides = broadcast_strides(b, out);
  const Shape out_strides = row_major_strides(out);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    std::int64_t a_index = 0;
    std::int64_t b_index = 0;
    std::int64_t rest = i;
    for (int axis = 0; axis < out.rank(); ++axis) {
      const std::int64_t position = rest / out_strides[axis];
      rest %= out_strides[axis];
      a_index += position * a_strides[axis];
      b_index += position * b_strides[axis];
    }
    visit(static_cast<std::size_t>(i), static_cast<std::size_t>(a_index), static_cast<std::size_t>(b_index));
  }
}

double silu(double x) { return x / (1.0 + std::exp(-x)); }

/// Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2: exact, and its tanh approximation.
double gelu_exact(double x) { return 0.5 * x * std::erfc(-x / std::numbers::sqrt2); }

double gelu_tanh(double x) {
  const double inner = std::sqrt(2.0 / std::numbers::pi) * (x + 0.044715 * x * x * x);
  return 0.5 * x * (1.0 + std::tanh(inner));
}

std::int64_t round_to_integer(DType dtype, double value) {
  if (dtype != DType::kI64) return static_cast<std::int64_t>(round_to(dtype, value));
  std::int64_t integer = 0;  // not through round_to: a double cannot hold what i64 saturates to
  store_from_double(&integer, dtype, value);
  return integer;
}

/// `value` as the integer dtype holds it; saturates as casts from floats do.
std::int64_t saturate(DType dtype, std::int64_t value) {
  const auto clamp_to = [&](auto limits) {
    return std::clamp<std::int64_t>(value, decltype(limits)::min(), decltype(limits)::max());
  };
  if (dtype == DType::kI64) return value;
  if (dtype == DType::kI32) return clamp_to(std::numeric_limits<std::int32_t>{});
  if (dtype == DType::kI8) return clamp_to(std::numeric_limits<std::int8_t>{});
  if (dtype == DType::kU8) return clamp_to(std::numeric_limits<std::uint8_t>{});
  HR_CHECK_EQ(dtype, DType::kBool);
  return value != 0 ? 1 : 0;
}

void cast(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  const OracleTensor& x = *in[0];
  const DType to = out[0].type.dtype;
  if (is_float(x.type.dtype) && is_float(to)) {
    std::ranges::transform(x.reals, out[0].reals.begin(), [to](double value) { return round_to(to, value); });
  } else if (is_float(x.type.dtype)) {
    std::ranges::transform(x.reals, out[0].integers.begin(),
                           [to](double value) { return round_to_integer(to, value); });
  } else if (is_float(to)) {
    std::ranges::transform(x.integers, out[0].reals.begin(),
                           [to](std::int64_t value) { return round_to(to, static_cast<double>(value)); });
  } else {
    std::ranges::transform(x.integers, out[0].integers.begin(),
                           [to](std::int64_t value) { return saturate(to, value); });
  }
}

/// Both on reals and on integers, in 64 bits: overflow wraps, as it does in every integer unit we run on.
template <class F>
void map(const OracleTensor& a, const OracleTensor& b, OracleTensor& out, F f) {
  const auto each = [&](auto visit) { for_each_broadcast(a.type.shape, b.type.shape, out.type.shape, visit); };
  using Size = std::size_t;
  if (is_float(out.type.dtype))
    return each([&](Size i, Size ia, Size ib) { out.reals[i] = f(a.reals[ia], b.reals[ib]); });
  each([&](Size i, Size ia, Size ib) {
    out.integers[i] = static_cast<std::int64_t>(
        f(static_cast<std::uint64_t>(a.integers[ia]), static_cast<std::uint64_t>(b.integers[ib])));
  });
}

template <class F>
void binary(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  map(*in[0], *in[1], out[0], F());
}

template <class F>
void scalar(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const double value = attributes.get_float("value");
  const bool real = is_float(out[0].type.dtype);  // elsewhere infer() admits integral values only
  const OracleTensor second{{out[0].type.dtype, Shape{}}, {value}, {real ? 0 : static_cast<std::int64_t>(value)}};
  map(*in[0], second, out[0], F());
}

template <double (*kFunction)(double)>
void unary(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  std::ranges::transform(in[0]->reals, out[0].reals.begin(), kFunction);
}

double relu(double x) { return x < 0.0 ? 0.0 : x; }  // a NaN stays one

void gelu(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const bool approximate = attributes.get_text("approximate") == "tanh";
  std::ranges::transform(in[0]->reals, out[0].reals.begin(), approximate ? gelu_tanh : gelu_exact);
}

double gelu_flops(const Attributes& attributes, Types /*in*/, Types out) {
  return static_cast<double>(out[0].shape.numel()) * (attributes.get_text("approximate") == "tanh" ? 8 : 5);
}

constexpr OpDefinition each(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                            Flops flops, Samples samples = Samples::kFirst) {
  return {.op = op,
          .kind = OpKind::kElementwise,
          .infer = infer,
          .evaluate = evaluate,
          .flops = flops,
          .samples = samples,
          .inner_axes = 0,
          .commutative = op == Op::kAdd || op == Op::kMul,
          .narrow_operands = op == Op::kCast ? 0 : OpDefinition::kEveryOperand};
}

constexpr std::array kElementwise = {
    each(Op::kAdd, binary_types, binary<std::plus<>>, 1.0, Samples::kBroadcast),
    each(Op::kSub, binary_types, binary<std::minus<>>, 1.0, Samples::kBroadcast),
    each(Op::kMul, binary_types, binary<std::multiplies<>>, 1.0, Samples::kBroadcast),
    each(Op::kAddScalar, scalar_types, scalar<std::plus<>>, 1.0),
    each(Op::kMulScalar, scalar_types, scalar<std::multiplies<>>, 1.0),
    each(Op::kRelu, activation_types, unary<relu>, 1.0),
    each(Op::kSilu, activation_types, unary<silu>, 4.0),
    each(Op::kGelu, gelu_types, gelu, gelu_flops),
    each(Op::kCast, cast_types, cast, 0.0),
};

}  // namespace

std::span<const OpDefinition> elementwise() { return kElementwise; }

}  // namespace headroom::ops
