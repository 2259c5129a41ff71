#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/ops/families.hpp"

// Elementwise ops: the rows of elementwise.def, and cast.

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

std::vector<TensorType> float_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype), "a floating-point dtype");
  return {given.in[0]};
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

/// What formulas are made of, for reals.
struct Math {
  static double positive(double a) { return a < 0 ? 0 : a; }
  static double swish(double a, double /*tail*/, double c, double d) {
    return a / (1 + std::exp(-a * (c + d * a * a)));
  }
  static double normal(double a) { return 0.5 * a * std::erfc(-a / std::numbers::sqrt2); }
};

/// The op's formula, of reals, or of integers in 64 bits: overflow wraps, as it does in every integer unit we run on.
template <Op kOp, class T>
T formula(T a, [[maybe_unused]] T b = {}) {
  [[maybe_unused]] constexpr Math m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
#define HR_TERNARY(...)
#include "ir/elementwise.def"
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

template <Op kOp>
void unary(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  std::ranges::transform(in[0]->reals, out[0].reals.begin(), [](double a) { return formula<kOp>(a); });
}

template <Op kOp>
void apply(const OracleTensor& a, const OracleTensor& b, OracleTensor& out) {
  for_each_broadcast(a.type.shape, b.type.shape, out.type.shape, [&](std::size_t i, std::size_t ia, std::size_t ib) {
    if (is_float(out.type.dtype))
      out.reals[i] = formula<kOp>(a.reals[ia], b.reals[ib]);
    else
      out.integers[i] = static_cast<std::int64_t>(
          formula<kOp>(static_cast<std::uint64_t>(a.integers[ia]), static_cast<std::uint64_t>(b.integers[ib])));
  });
}

template <Op kOp>
void binary(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  apply<kOp>(*in[0], *in[1], out[0]);
}

template <Op kOp>
void scalar(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  const double value = attributes.get_float("value");
  OracleTensor b{{out[0].type.dtype, Shape{}}, {value}, {}};
  if (!is_float(b.type.dtype)) b.integers = {static_cast<std::int64_t>(value)};  // infer() admits integral ones only
  apply<kOp>(*in[0], b, out[0]);
}

constexpr OpDefinition each(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                            double flops) {
  return {.op = op,
          .kind = OpKind::kElementwise,
          .infer = infer,
          .evaluate = evaluate,
          .flops = flops,
          .samples = Samples::kFirst,
          .inner_axes = 0,
          .any_layout = true};
}

constexpr OpDefinition each_pair(Op op, decltype(OpDefinition::evaluate) evaluate, double flops, bool commutative) {
  OpDefinition row = each(op, binary_types, evaluate, flops);
  row.samples = Samples::kBroadcast;
  row.commutative = commutative;
  return row;
}

constexpr OpDefinition each_cast() {
  OpDefinition row = each(Op::kCast, cast_types, cast, 0);
  row.narrow_operands = 0;
  return row;
}

constexpr std::array kElementwise = {
#define HR_UNARY(enumerator, name, flops, ...) each(Op::enumerator, float_types, unary<Op::enumerator>, flops),
#define HR_SCALAR(enumerator, name, flops, ...) each(Op::enumerator, scalar_types, scalar<Op::enumerator>, flops),
#define HR_BINARY(enumerator, name, flops, formula, commutative) \
  each_pair(Op::enumerator, binary<Op::enumerator>, flops, commutative),
#define HR_TERNARY(...)
#include "ir/elementwise.def"
    each_cast(),
};

}  // namespace

std::span<const OpDefinition> elementwise() { return kElementwise; }

}  // namespace headroom::ops
