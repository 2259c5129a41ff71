// Elementwise ops that need no explicit vector code: comparisons, which make bool of any type, select, which takes
// elements of any type, and arithmetic of i32 and i64, in 64 bits that wrap.
//
// Shapes   any; operands broadcast. Axes that are contiguous in all operands are merged into one row. A row is
//          contiguous in each operand, or one repeated element.
// Bytes    each operand once.

#include <cstring>
#include <type_traits>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/stored_bf16.hpp"
#include "kernels/elementwise/elementwise_scalars.hpp"

namespace headroom {
namespace {

/// Formulas compute in floats, or in 64-bit integers, which add and multiply as unsigned.
using Word = std::uint64_t;
float number_of(float value) { return value; }
float number_of(StoredBf16 value) { return load(value); }
template <class T>
Word number_of(T value) {
  return static_cast<Word>(static_cast<std::int64_t>(value));
}

struct Math {
  static bool less(float a, float b) { return a < b; }
  static bool less_equal(float a, float b) { return a <= b; }
  static bool equal(float a, float b) { return a == b; }

  static std::int64_t signed_of(Word a) { return static_cast<std::int64_t>(a); }
  static bool less(Word a, Word b) { return signed_of(a) < signed_of(b); }
  static bool less_equal(Word a, Word b) { return signed_of(a) <= signed_of(b); }
  static bool equal(Word a, Word b) { return a == b; }
  static Word min(Word a, Word b) { return less(a, b) ? a : b; }
  static Word max(Word a, Word b) { return less(a, b) ? b : a; }
  static Word mod(Word a, Word b) {
    if (b == 0 || signed_of(b) == -1) return 0;  // a division by -1 may overflow
    const std::int64_t rest = signed_of(a) % signed_of(b);
    return static_cast<Word>(rest != 0 && (rest < 0) != (signed_of(b) < 0) ? rest + signed_of(b) : rest);
  }
};

/// The op's formula in elementwise.def.
template <Op kOp, class Number>
auto formula(Number a, Number b, [[maybe_unused]] Number c) {
  [[maybe_unused]] constexpr Math m{};
#define HR_ANY(enumerator, name, flops, formula, ...) \
  if constexpr (kOp == Op::enumerator) return formula;
#define HR_UNARY(...)
#define HR_REAL_BINARY(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
}

/// The bound parameters of a kernel. Operands of `loop`: a, b, y.
struct Rows {
  Op op;
  DType dtype;        ///< of a and b
  std::int64_t b, c;  ///< in place of operands, where the op has one
  bool has_b;
  RowLoop<3> loop;
};

template <Op kOp, class T, class Y>
void rows_of(const Rows& rows, const RowPart& part) {
  using Number = decltype(number_of(T{}));
  const std::int64_t a_step = rows.loop.inner.strides[0], b_step = rows.loop.inner.strides[1];
  const auto given_b = static_cast<Number>(rows.b), given_c = static_cast<Number>(rows.c);
  RowCursor cursor(rows.loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next()) {
    const std::int64_t n = cursor.length();
    const T* const a = part.input<T>(0) + cursor.offset(0);
    Y* const y = part.output<Y>(0) + cursor.offset(2);
    const auto map = [&](const auto& at_b) {
      for (std::int64_t i = 0; i < n; ++i)
        y[i] = static_cast<Y>(formula<kOp, Number>(number_of(a[i * a_step]), at_b(i), given_c));
    };
    if (rows.has_b) {
      const T* const b = part.input<T>(1) + cursor.offset(1);
      map([&](std::int64_t i) { return number_of(b[i * b_step]); });
    } else {
      map([&](std::int64_t) { return given_b; });
    }
  }
}

template <class T>
void integer_rows(const Rows& rows, const RowPart& part) {
  switch (rows.op) {
#define HR_ANY(enumerator, ...) \
  case Op::enumerator:          \
    return rows_of<Op::enumerator, T, T>(rows, part);
#define HR_UNARY(...)
#define HR_REAL_BINARY(...)
#define HR_COMPARISON(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
    default:
      return;  // the kernel of an op is bound to that
  }
}

template <class T>
void comparison_rows(const Rows& rows, const RowPart& part) {
  switch (rows.op) {
#define HR_ANY(...)
#define HR_COMPARISON(enumerator, ...) \
  case Op::enumerator:                 \
    return rows_of<Op::enumerator, T, bool>(rows, part);
#include "ir/elementwise.def"
    default:
      return;
  }
}

Rows bind(const KernelBinding& binding) {
  const std::span<const Operand> in = binding.inputs;
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const auto [b_value, c_value] = scalars_of<std::int64_t>(binding.spec);
  const Operand& b = in.size() > 1 ? in[1] : in[0];
  return {.op = binding.spec.op,
          .dtype = in[0].type.dtype,
          .b = b_value,
          .c = c_value,
          .has_b = in.size() > 1,
          .loop = longest_rows<3>(shape, {broadcast_strides(in[0], shape), broadcast_strides(b, shape), y.strides})};
}

KernelPlan share(const KernelBinding& binding, const Rows& rows, void (*run)(const Rows&, const RowPart&)) {
  const RowWork work{.threads = binding.threads, .rows = rows.loop.rows, .elements = rows.loop.row_length()};
  return share_rows(work, [=](const RowPart& part) { run(rows, part); });
}

KernelPlan plan_integers(const KernelBinding& binding) {
  const Rows rows = bind(binding);
  return share(binding, rows, rows.dtype == DType::kI32 ? integer_rows<std::int32_t> : integer_rows<std::int64_t>);
}

KernelPlan plan_comparison(const KernelBinding& binding) {
  const Rows rows = bind(binding);
  switch (rows.dtype) {
    case DType::kF32:
      return share(binding, rows, comparison_rows<float>);
    case DType::kBF16:
      return share(binding, rows, comparison_rows<StoredBf16>);
    case DType::kI64:
      return share(binding, rows, comparison_rows<std::int64_t>);
    case DType::kI32:
      return share(binding, rows, comparison_rows<std::int32_t>);
    case DType::kI8:
      return share(binding, rows, comparison_rows<std::int8_t>);
    default:
      return share(binding, rows, comparison_rows<std::uint8_t>);
  }
}

Support supports_integers(const OpSpec& spec) {
  const DType dtype = spec.outputs[0].dtype;
  if (dtype != DType::kI32 && dtype != DType::kI64) return Rejection{fmt::format("takes i32 or i64, not {}", dtype)};
  return std::nullopt;
}

Support supports_comparison(const OpSpec& spec) {
  const DType dtype = spec.inputs[0].dtype;
  if (is_float(dtype) && dtype != DType::kF32 && dtype != DType::kBF16)
    return Rejection{fmt::format("compares f32, bf16 or integers, not {}", dtype)};
  return std::nullopt;
}

/// Runs a select. Operands of `loop`: condition, a, b, y.
template <class T>
void select_rows(const RowLoop<4>& loop, const RowPart& part) {
  const auto& step = loop.inner.strides;
  RowCursor cursor(loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next()) {
    const auto* const condition = part.input<std::uint8_t>(0) + cursor.offset(0);
    const T* const a = part.input<T>(1) + cursor.offset(1);
    const T* const b = part.input<T>(2) + cursor.offset(2);
    T* const y = part.output<T>(0) + cursor.offset(3);
    const std::int64_t n = cursor.length();
    for (std::int64_t i = 0; i < n; ++i) y[i] = condition[i * step[0]] != 0 ? a[i * step[1]] : b[i * step[2]];
  }
}

KernelPlan plan_select(const KernelBinding& binding) {
  const Operand& y = binding.outputs[0];
  const auto loop = longest_rows<4>(y.type.shape, elementwise_strides(binding.inputs, y));
  const RowWork work{.threads = binding.threads, .rows = loop.rows, .elements = loop.row_length()};
  const auto share = [&](void (*run)(const RowLoop<4>&, const RowPart&)) {
    return share_rows(work, [=](const RowPart& part) { run(loop, part); });
  };
  switch (size_of(y.type.dtype)) {
    case 1:
      return share(select_rows<std::uint8_t>);
    case 2:
      return share(select_rows<std::uint16_t>);
    case 4:
      return share(select_rows<std::uint32_t>);
    default:
      return share(select_rows<std::uint64_t>);
  }
}

}  // namespace

std::span<const CpuKernel> plain_elementwise() {
  static const CpuKernel kernels[] = {
#define HR_UNARY(...)
#define HR_REAL_BINARY(...)
#define HR_TERNARY(...)
#define HR_COMPARISON(enumerator, title, ...) \
  CpuKernel({.name = "plain." #title,         \
             .op = Op::enumerator,            \
             .supports = supports_comparison, \
             .in_place = true,                \
             .plan = plan_comparison}),
#define HR_ANY(enumerator, title, ...)      \
  CpuKernel({.name = "plain." #title,       \
             .op = Op::enumerator,          \
             .supports = supports_integers, \
             .in_place = true,              \
             .compute = DType::kI64,        \
             .plan = plan_integers}),
#include "ir/elementwise.def"
  };
  return kernels;
}

const Kernel& plain_select() {
  static const CpuKernel kernel({.name = "plain.select",
                                 .op = Op::kSelect,
                                 .supports = supports_all_types,
                                 .in_place = true,
                                 .plan = plan_select});
  return kernel;
}

}  // namespace headroom
