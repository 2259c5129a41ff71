#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <utility>

#include "base/dtype.hpp"
#include "base/error.hpp"
#include "ir/interpret_ops.hpp"

namespace headroom::oracle {
namespace {

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

double apply(Op op, double a, double b) {
  if (op == Op::kAdd || op == Op::kAddScalar) return a + b;
  if (op == Op::kSub) return a - b;
  HR_CHECK(op == Op::kMul || op == Op::kMulScalar);
  return a * b;
}

/// In 64 bits; overflow wraps, as it does in every integer unit we run on.
std::int64_t apply(Op op, std::int64_t a, std::int64_t b) {
  const auto left = static_cast<std::uint64_t>(a);
  const auto right = static_cast<std::uint64_t>(b);
  if (op == Op::kAdd || op == Op::kAddScalar) return static_cast<std::int64_t>(left + right);
  if (op == Op::kSub) return static_cast<std::int64_t>(left - right);
  HR_CHECK(op == Op::kMul || op == Op::kMulScalar);
  return static_cast<std::int64_t>(left * right);
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

}  // namespace

double round_to(DType dtype, double value) {
  std::uint64_t bits = 0;  // room for the widest element
  store_from_double(&bits, dtype, value);
  return load_as_double(&bits, dtype);
}

void binary(Op op, Operands in, OracleTensor& out) {
  const OracleTensor& a = *in[0];
  const OracleTensor& b = *in[1];
  if (is_float(out.type.dtype)) {
    for_each_broadcast(a.type.shape, b.type.shape, out.type.shape, [&](std::size_t i, std::size_t ia, std::size_t ib) {
      out.reals[i] = apply(op, a.reals[ia], b.reals[ib]);
    });
  } else {
    for_each_broadcast(a.type.shape, b.type.shape, out.type.shape, [&](std::size_t i, std::size_t ia, std::size_t ib) {
      out.integers[i] = apply(op, a.integers[ia], b.integers[ib]);
    });
  }
}

void scalar(Op op, double value, const OracleTensor& x, OracleTensor& out) {
  for (std::size_t i = 0; i < x.reals.size(); ++i) out.reals[i] = apply(op, x.reals[i], value);
  for (std::size_t i = 0; i < x.integers.size(); ++i) {
    out.integers[i] =
        apply(op, x.integers[i], static_cast<std::int64_t>(value));  // infer() admits integral values only
  }
}

void activate(Op op, const Attributes& attributes, const OracleTensor& x, OracleTensor& out) {
  double (*function)(double) = nullptr;
  if (op == Op::kRelu) {
    function = [](double value) { return value < 0.0 ? 0.0 : value; };  // a NaN stays one
  } else if (op == Op::kSilu) {
    function = silu;
  } else {
    HR_CHECK(op == Op::kGelu);
    function = attributes.get_text("approximate") == "tanh" ? gelu_tanh : gelu_exact;
  }
  std::ranges::transform(x.reals, out.reals.begin(), function);
}

void cast(const OracleTensor& x, OracleTensor& out) {
  const DType to = out.type.dtype;
  if (is_float(x.type.dtype) && is_float(to)) {
    std::ranges::transform(x.reals, out.reals.begin(), [to](double value) { return round_to(to, value); });
  } else if (is_float(x.type.dtype)) {
    std::ranges::transform(x.reals, out.integers.begin(), [to](double value) { return round_to_integer(to, value); });
  } else if (is_float(to)) {
    std::ranges::transform(x.integers, out.reals.begin(),
                           [to](std::int64_t value) { return round_to(to, static_cast<double>(value)); });
  } else {
    std::ranges::transform(x.integers, out.integers.begin(), [to](std::int64_t value) { return saturate(to, value); });
  }
}

}  // namespace headroom::oracle
