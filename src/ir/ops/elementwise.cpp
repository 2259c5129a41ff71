#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <string_view>
#include <type_traits>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/ops/families.hpp"
#include "ir/ops/gradient_parts.hpp"
#include "ir/test_cases/op_cases.hpp"

// Elementwise ops: the rows of elementwise.def, and cast.

namespace headroom::ops {
namespace {

/// The type with `dtype`, the broadcast shape of the operands, and the layout of the operands of that shape.
TensorType broadcast_type(const TypeQuery& given, DType dtype) {
  TensorType result{dtype, given.in[0].shape};
  for (const TensorType& operand : given.in.subspan(1)) result.shape = broadcast_shapes(result.shape, operand.shape);
  for (const TensorType& operand : given.in) {
    if (operand.shape == result.shape && operand.layout != Layout::kRowMajor) result.layout = operand.layout;
  }
  return result;
}

std::vector<TensorType> binary_types(const TypeQuery& given) {
  given.require(given.in[0].dtype == given.in[1].dtype, "two operands of one dtype");
  given.require(given.in[0].dtype != DType::kBool, "numbers");
  return {broadcast_type(given, given.in[0].dtype)};
}

std::vector<TensorType> real_binary_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype) && given.in[0].dtype == given.in[1].dtype,
                "two operands of one floating-point dtype");
  return {broadcast_type(given, given.in[0].dtype)};
}

std::vector<TensorType> comparison_types(const TypeQuery& given) {
  given.require(given.in[0].dtype == given.in[1].dtype, "two operands of one dtype");
  return {broadcast_type(given, DType::kBool)};
}

std::vector<TensorType> select_types(const TypeQuery& given) {
  given.require(given.in[0].dtype == DType::kBool && given.in[1].dtype == given.in[2].dtype,
                "a bool condition and two operands of one dtype");
  return {broadcast_type(given, given.in[1].dtype)};
}

/// The operand's type, if these attributes are valid for its dtype.
std::vector<TensorType> types_with(const TypeQuery& given, std::initializer_list<AttributeKey<double>> attributes) {
  given.require(given.in[0].dtype != DType::kBool, "numbers");
  for (const AttributeKey<double> key : attributes) {
    const double value = given.attributes[key];
    const bool integral = std::trunc(value) == value && std::fabs(value) < 0x1p53;
    given.require(is_float(given.in[0].dtype) || integral, "an integral value with integers");
  }
  return {given.in[0]};
}

std::vector<TensorType> scalar_types(const TypeQuery& given) { return types_with(given, {attr::kValue}); }
std::vector<TensorType> range_types(const TypeQuery& given) { return types_with(given, {attr::kLow, attr::kHigh}); }

std::vector<TensorType> float_types(const TypeQuery& given) {
  given.require(is_float(given.in[0].dtype), "a floating-point dtype");
  return {given.in[0]};
}

std::vector<TensorType> cast_types(const TypeQuery& given) {
  return {{given.attributes[attr::kDType], given.in[0].shape, given.in[0].layout}};
}

/// The element strides for reading an operand of `shape` over `out`: 0 along axes that it is broadcast along.
Shape broadcast_strides(const Shape& shape, const Shape& out) {
  const Shape dense = row_major_strides(shape);
  Shape strides = out;
  for (int axis = 1; axis <= out.rank(); ++axis) {
    strides.set(-axis, axis <= shape.rank() && shape[-axis] != 1 ? dense[-axis] : 0);
  }
  return strides;
}

/// Calls visit(out index, index of each operand) for each element of `out`, in row-major order.
template <std::size_t N, typename Visit>
void for_each_broadcast(const std::array<const OracleTensor*, N>& in, const Shape& out, Visit visit) {
  std::array<Shape, N> strides;
  std::ranges::transform(in, strides.begin(), [&](const auto* x) { return broadcast_strides(x->type.shape, out); });
  const Shape out_strides = row_major_strides(out);
  for (std::int64_t i = 0; i < out.numel(); ++i) {
    std::array<std::size_t, N> indices{};
    std::int64_t rest = i;
    for (int axis = 0; axis < out.rank(); ++axis) {
      const std::int64_t position = rest / out_strides[axis];
      rest %= out_strides[axis];
      for (std::size_t k = 0; k < N; ++k) indices[k] += static_cast<std::size_t>(position * strides[k][axis]);
    }
    visit(static_cast<std::size_t>(i), indices);
  }
}

/// The functions used by formulas, for reals and for 64-bit integers. Integers add and multiply as unsigned.
struct Math {
  static double positive(double a) { return a < 0 ? 0 : a; }
  static double swish(double a, double /*tail*/, double c, double d) {
    const double slope = d == 0 ? c : c + d * a * a;  // avoids 0 times infinity, which is NaN
    return a / (1 + std::exp(-a * slope));
  }
  static double normal(double a) { return 0.5 * a * std::erfc(-a / std::numbers::sqrt2); }

  static double neg(double a) { return -a; }
  static double abs(double a) { return std::fabs(a); }
  static double exp(double a) { return std::exp(a); }
  static double log(double a) { return std::log(a); }
  static double sqrt(double a) { return std::sqrt(a); }
  static double rsqrt(double a) { return 1 / std::sqrt(a); }
  static double tanh(double a) { return std::tanh(a); }
  static double sigmoid(double a) { return 1 / (1 + std::exp(-a)); }
  static double erf(double a) { return std::erf(a); }
  static double sin(double a) { return std::sin(a); }
  static double cos(double a) { return std::cos(a); }
  static double pow(double a, double b) { return std::pow(a, b); }

  static double min(double a, double b) { return a < b || std::isnan(a) ? a : b; }
  static double max(double a, double b) { return a > b || std::isnan(a) ? a : b; }
  static double mod(double a, double b) {
    const double rest = std::fmod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
  }
  static bool less(double a, double b) { return a < b; }
  static bool less_equal(double a, double b) { return a <= b; }
  static bool equal(double a, double b) { return a == b; }

  using Word = std::uint64_t;
  static std::int64_t number(Word a) { return static_cast<std::int64_t>(a); }
  static Word min(Word a, Word b) { return less(a, b) ? a : b; }
  static Word max(Word a, Word b) { return less(a, b) ? b : a; }
  static Word mod(Word a, Word b) {
    if (b == 0 || number(b) == -1) return 0;
    const std::int64_t rest = number(a) % number(b);
    return static_cast<Word>(rest != 0 && (rest < 0) != (number(b) < 0) ? rest + number(b) : rest);
  }
  static bool less(Word a, Word b) { return number(a) < number(b); }
  static bool less_equal(Word a, Word b) { return number(a) <= number(b); }
  static bool equal(Word a, Word b) { return a == b; }
};

/// The op's formula, for reals or for 64-bit integers: overflow wraps, as on all supported integer units.
template <Op kOp, class T>
auto formula(T a, [[maybe_unused]] T b = {}, [[maybe_unused]] T c = {}) {
  [[maybe_unused]] constexpr Math m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
#define HR_TERNARY(...)
#include "ir/elementwise.def"
}

std::int64_t round_to_integer(DType dtype, double value) {
  if (dtype != DType::kI64) return static_cast<std::int64_t>(round_to(dtype, value));
  std::int64_t integer = 0;  // not through round_to: a double cannot hold the saturated values of i64
  store_from_double(&integer, dtype, value);
  return integer;
}

/// `value` in the integer dtype; saturates as casts from floats do.
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

/// Applies the formula to these operands, which broadcast. For a comparison kReals refers to the operands, else to
/// the result.
template <Op kOp, bool kReals, std::size_t N>
void apply(const std::array<const OracleTensor*, N>& in, OracleTensor& out) {
  using Number = std::conditional_t<kReals, double, std::uint64_t>;
  const auto operand = [&](std::size_t k, const std::array<std::size_t, N>& at) -> Number {
    if constexpr (kReals) return in[k]->reals[at[k]];
    return static_cast<Number>(in[k]->integers[at[k]]);
  };
  for_each_broadcast(in, out.type.shape, [&](std::size_t i, const std::array<std::size_t, N>& at) {
    auto result = [&] {
      if constexpr (N == 2) return formula<kOp, Number>(operand(0, at), operand(1, at));
      if constexpr (N == 3) return formula<kOp, Number>(operand(0, at), operand(1, at), operand(2, at));
    }();
    if constexpr (std::is_same_v<decltype(result), double>)
      out.reals[i] = result;
    else
      out.integers[i] = static_cast<std::int64_t>(result);
  });
}

template <Op kOp>
void real_binary(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  apply<kOp, true, 2>({in[0], in[1]}, out[0]);
}

template <Op kOp>
void binary(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  if (is_float(in[0]->type.dtype)) return apply<kOp, true, 2>({in[0], in[1]}, out[0]);
  apply<kOp, false, 2>({in[0], in[1]}, out[0]);
}

/// Passes attributes in place of the operands after the first.
template <Op kOp, std::size_t N>
void with_numbers(const Attributes& attributes, Operands in, std::span<OracleTensor> out,
                  std::array<AttributeKey<double>, N> keys) {
  std::array<OracleTensor, N> numbers;
  std::array<const OracleTensor*, N + 1> operands{in[0]};
  for (std::size_t i = 0; i < N; ++i) {
    const double value = attributes[keys[i]];
    numbers[i] = {{out[0].type.dtype, Shape{}}, {value}, {}};
    // infer() admits integral ones only
    if (!is_float(out[0].type.dtype)) numbers[i].integers = {static_cast<std::int64_t>(value)};
    operands[i + 1] = &numbers[i];
  }
  if (is_float(out[0].type.dtype)) return apply<kOp, true, N + 1>(operands, out[0]);
  apply<kOp, false, N + 1>(operands, out[0]);
}

template <Op kOp>
void scalar(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  with_numbers<kOp, 1>(attributes, in, out, {attr::kValue});
}
template <Op kOp>
void range(const Attributes& attributes, Operands in, std::span<OracleTensor> out) {
  with_numbers<kOp, 2>(attributes, in, out, {attr::kLow, attr::kHigh});
}

void select(const Attributes& /*attributes*/, Operands in, std::span<OracleTensor> out) {
  for_each_broadcast<3>({in[0], in[1], in[2]}, out[0].type.shape, [&](std::size_t i, const auto& at) {
    const std::size_t chosen = in[0]->integers[at[0]] != 0 ? 1 : 2;
    if (is_float(out[0].type.dtype))
      out[0].reals[i] = in[chosen]->reals[at[chosen]];
    else
      out[0].integers[i] = in[chosen]->integers[at[chosen]];
  });
}

/// What was not chosen gets 0.
std::vector<ValueId> derive_select(Builder& builder, const Derivation& node) {
  const ValueId zero = builder.constant({0}, Shape{}, builder.dtype(node.gradient()));
  std::vector<ValueId> gradients(3, kNoValue);
  for (const std::size_t i : {1, 2}) {
    if (!node.wanted[i]) continue;
    const ValueId chosen = builder.where(node.in[0], i == 1 ? node.gradient() : zero, i == 1 ? zero : node.gradient());
    gradients[i] = sum_to(builder, chosen, builder.graph().type(node.in[i]));
  }
  return gradients;
}

std::vector<ValueId> derive_cast(Builder& builder, const Derivation& node) {
  return {builder.cast(node.gradient(), builder.dtype(node.in[0]))};
}

const Shape kOddExtents{3, 5, 33}, kOddImages{2, 3, 5, 7};

/// Cases of an op of one tensor.
void add_cases_of_one(CaseList& list, const NamedAttributes& attributes) {
  list.add("odd extents", {list.data(kOddExtents)}, attributes);
  list.add("channels last", {list.data(kOddImages, Layout::kChannelsLast)}, attributes);
}
void unary_cases(CaseList& list) { add_cases_of_one(list, {}); }
void scalar_cases(CaseList& list) { add_cases_of_one(list, {{attr::kValue, is_float(list.types().data) ? 1.5 : 3.0}}); }
void range_cases(CaseList& list) {
  const bool is_real = is_float(list.types().data);
  NamedAttributes attributes;
  attributes.emplace_back(attr::kLow, is_real ? -0.5 : -20.0);
  attributes.emplace_back(attr::kHigh, is_real ? 0.75 : 30.0);
  add_cases_of_one(list, attributes);
}

void pair_cases(CaseList& list) {
  const TensorType x = list.data(kOddExtents), images = list.data(kOddImages, Layout::kChannelsLast);
  list.add("equal shapes", {x, x});
  list.add("broadcast columns", {x, list.data({5, 1})});
  list.add("channels last", {images, images});
}

void select_cases(CaseList& list) {
  const TensorType x = list.data(kOddExtents), images = list.data(kOddImages, Layout::kChannelsLast);
  list.add("broadcast row", {{DType::kBool, kOddExtents}, x, list.data({33})});
  list.add("broadcast condition", {{DType::kBool, {5, 1}}, x, x});
  list.add("channels last", {{DType::kBool, kOddImages, Layout::kChannelsLast}, images, images});
}

void cast_cases(CaseList& list) {
  const std::array operands = {list.data(kOddExtents), list.data(kOddImages, Layout::kChannelsLast)};
  for (const DType to : {DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kI64, DType::kU8, DType::kBool})
    for (const TensorType& x : operands) {
      const std::string_view suffix = x.layout == Layout::kChannelsLast ? ", channels last" : "";
      OpCase& added = list.add(fmt::format("to {}{}", to, suffix), {x}, {{attr::kDType, to}});
      if (!is_float(to))
        added.leaves_open = [](std::size_t /*input*/, Special special) { return special != Special::kZeros; };
    }
}

/// One sum and two activations are benchmarked; other elementwise ops differ from them in their formula alone.
constexpr bool is_benchmarked(Op op) { return op == Op::kAdd || op == Op::kGeluTanh || op == Op::kSilu; }
void large_elementwise_cases(CaseList& list) {
  const std::string_view name = list.op() == Op::kGeluTanh ? "gelu" : name_of(list.op());
  for (const DType dtype : {DType::kF32, DType::kBF16})
    list.add(fmt::format("{} {}", name, name_of(dtype)),
             std::vector<TensorType>(operands_of(list.op()).least(), large_tokens(dtype)));
}
void large_cast_cases(CaseList& list) {
  const Shape shape{large_rows(sizeof(float)), kLargeWidth};
  list.add("cast f32 to bf16", {{DType::kF32, shape}}, {{attr::kDType, DType::kBF16}});
}

constexpr OpDefinition each(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                            double flops, decltype(OpDefinition::cases) cases, bool takes_integers = true) {
  return {.op = op,
          .kind = OpKind::kElementwise,
          .infer = infer,
          .evaluate = evaluate,
          .flops = flops,
          .samples = Samples::kBatched,
          .inner_axes = 0,
          .any_layout = true,
          .cases = cases,
          .benchmarks = is_benchmarked(op) ? large_elementwise_cases : nullptr,
          .takes_integers = takes_integers};
}

/// Functions in formulas that a CPU computes from e^x; those of the C library, such as erf and pow, do not count.
constexpr double exponentials_in(std::string_view formula) {
  double count = 0;
  for (const std::string_view function : {"m.exp(", "m.swish(", "m.normal(", "m.tanh(", "m.sigmoid("})
    if (formula.find(function) != std::string_view::npos) ++count;
  return count;
}

constexpr OpDefinition each_function(Op op, decltype(OpDefinition::evaluate) evaluate, double flops,
                                     std::string_view formula) {
  OpDefinition row = each(op, float_types, evaluate, flops, unary_cases, /*takes_integers=*/false);
  row.exponentials = exponentials_in(formula);
  return row;
}

constexpr OpDefinition each_pair(Op op, decltype(OpDefinition::infer) infer, decltype(OpDefinition::evaluate) evaluate,
                                 double flops, bool commutative) {
  OpDefinition row = each(op, infer, evaluate, flops, pair_cases, infer != real_binary_types);
  row.samples = Samples::kBroadcast;
  row.commutative = commutative;
  return row;
}

constexpr OpDefinition comparison(Op op, decltype(OpDefinition::evaluate) evaluate, double flops, bool commutative) {
  OpDefinition row = each_pair(op, comparison_types, evaluate, flops, commutative);
  row.no_derivative = "makes truth values";
  return row;
}

constexpr OpDefinition selection() {
  OpDefinition row = each_pair(Op::kSelect, select_types, select, 0, false);
  row.derive = derive_select;
  row.cases = select_cases;
  return row;
}

constexpr OpDefinition conversion() {
  OpDefinition row = each(Op::kCast, cast_types, cast, 0, cast_cases);
  row.derive = derive_cast;
  row.benchmarks = large_cast_cases;
  return row;
}

constexpr std::array kElementwise = {
#define HR_UNARY(enumerator, name, flops, formula) \
  each_function(Op::enumerator, unary<Op::enumerator>, flops, #formula),
#define HR_SCALAR(enumerator, name, flops, ...) \
  each(Op::enumerator, scalar_types, scalar<Op::enumerator>, flops, scalar_cases),
#define HR_BINARY(enumerator, name, flops, formula, commutative) \
  each_pair(Op::enumerator, binary_types, binary<Op::enumerator>, flops, commutative),
#define HR_REAL_BINARY(enumerator, name, flops, formula, commutative) \
  each_pair(Op::enumerator, real_binary_types, real_binary<Op::enumerator>, flops, commutative),
#define HR_COMPARISON(enumerator, name, flops, formula, commutative) \
  comparison(Op::enumerator, binary<Op::enumerator>, flops, commutative),
#define HR_RANGE(enumerator, name, flops, ...) \
  each(Op::enumerator, range_types, range<Op::enumerator>, flops, range_cases),
#define HR_TERNARY(...)
#include "ir/elementwise.def"
    selection(),
    conversion(),
};

}  // namespace

std::span<const OpDefinition> elementwise() { return kElementwise; }

}  // namespace headroom::ops
