// Elementwise ops: y = f(a, b) or y = f(x), one element from the same place in each operand.
//
// Shapes   any; a and b broadcast. Axes that lie behind each other in all operands are merged, so dense operands are
//          one row. A row is contiguous in each operand, or one repeated element (a broadcast innermost axis).
// Dtypes   f32 or bf16 in memory, f32 arithmetic, one rounding; alignment none.
// Bytes    each operand once.
// FLOPs    1 an element, so memory is the bound; silu and gelu spend about 20 (see activation_inl.hpp), which one core
//          hides behind memory only at 256 bits and wider. Operands that do not fit the cache: results are written
//          past it and reads asked for 4 KiB ahead, a copy's rate in f32, from 0.5-0.6. In bf16 gelu takes as many
//          cycles as memory: 0.91 of a copy's rate on two cores, from 0.82 with the CPU's instruction for bf16 and
//          reads asked for 2 KiB ahead; silu 0.95, from 0.91.

#include "kernels/cpu_kernel.hpp"
#include "kernels/elementwise.hpp"
#include "kernels/parallel.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/activation_inl.hpp"
#include "kernels/simd_inl.hpp"

#ifndef HEADROOM_KERNELS_ELEMENTWISE_FORMS
#define HEADROOM_KERNELS_ELEMENTWISE_FORMS
namespace headroom {
namespace {
enum class Unary : std::uint8_t { kAddScalar, kMulScalar, kRelu, kSilu, kGeluTanh, kGeluErf };
enum class Binary : std::uint8_t { kAdd, kSub, kMul };
}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Unary kForm, Precision kPrecision>
HWY_INLINE Vector apply(Vector x, Vector scalar) {
  if constexpr (kForm == Unary::kAddScalar) return hn::Add(x, scalar);
  if constexpr (kForm == Unary::kMulScalar) return hn::Mul(x, scalar);
  if constexpr (kForm == Unary::kRelu) return relu_of(x);
  if constexpr (kForm == Unary::kSilu) return silu_of<kPrecision>(x);
  if constexpr (kForm == Unary::kGeluTanh) return gelu_tanh_of<kPrecision>(x);
  if constexpr (kForm == Unary::kGeluErf) return gelu_erf_of<kPrecision>(x);
}

template <Unary kForm, Precision kPrecision>
struct ApplyUnary {
  Vector scalar;
  HWY_INLINE Vector operator()(Vector x) const { return apply<kForm, kPrecision>(x, scalar); }
};

/// Sums and products of bf16 often lie halfway between two; values of these functions do not.
constexpr Ties ties_of(Unary form) {
  return form == Unary::kSilu || form == Unary::kGeluTanh || form == Unary::kGeluErf ? Ties::kAway : Ties::kToEven;
}

/// Y is T* or Streamed<T>, here and below.
template <Unary kForm, class Y>
void unary_rows_of(const RowLoop<2>& loop, std::int64_t begin, std::int64_t end, float scalar, const void* x, void* y) {
  using T = typename Place<Y>::Element;
  const ApplyUnary<kForm, precision_of<T>()> function{hn::Set(Float(), scalar)};
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    map_row<ties_of(kForm)>(cursor.length(), function, Place<Y>::at(y) + cursor.offset(1),
                            static_cast<const T*>(x) + cursor.offset(0));
  }
  finish_writes<Y>();
}

template <class Y>
HWY_INLINE void unary_rows_typed(Unary form, const RowLoop<2>& loop, std::int64_t begin, std::int64_t end, float scalar,
                                 const void* x, void* y) {
  switch (form) {
    case Unary::kAddScalar:
      return unary_rows_of<Unary::kAddScalar, Y>(loop, begin, end, scalar, x, y);
    case Unary::kMulScalar:
      return unary_rows_of<Unary::kMulScalar, Y>(loop, begin, end, scalar, x, y);
    case Unary::kRelu:
      return unary_rows_of<Unary::kRelu, Y>(loop, begin, end, scalar, x, y);
    case Unary::kSilu:
      return unary_rows_of<Unary::kSilu, Y>(loop, begin, end, scalar, x, y);
    case Unary::kGeluTanh:
      return unary_rows_of<Unary::kGeluTanh, Y>(loop, begin, end, scalar, x, y);
    case Unary::kGeluErf:
      return unary_rows_of<Unary::kGeluErf, Y>(loop, begin, end, scalar, x, y);
  }
}

/// Rows [begin, end) of operands x, y.
void unary_rows(DType dtype, bool streams, Unary form, const RowLoop<2>& loop, std::int64_t begin, std::int64_t end,
                float scalar, const void* x, void* y) {
  const auto run = [&](auto place) { unary_rows_typed<decltype(place)>(form, loop, begin, end, scalar, x, y); };
  with_place(dtype, streams, run);
}

template <Binary kForm>
HWY_INLINE Vector apply(Vector a, Vector b) {
  if constexpr (kForm == Binary::kAdd) return hn::Add(a, b);
  if constexpr (kForm == Binary::kSub) return hn::Sub(a, b);
  if constexpr (kForm == Binary::kMul) return hn::Mul(a, b);
}

template <Binary kForm>
struct ApplyBinary {
  HWY_INLINE Vector operator()(Vector a, Vector b) const { return apply<kForm>(a, b); }
};
/// The forms with one operand the same in the whole row.
template <Binary kForm>
struct ApplyToOneA {
  Vector a;
  HWY_INLINE Vector operator()(Vector b) const { return apply<kForm>(a, b); }
};
template <Binary kForm>
struct ApplyToOneB {
  Vector b;
  HWY_INLINE Vector operator()(Vector a) const { return apply<kForm>(a, b); }
};

template <class T>
HWY_INLINE Vector repeat(const T* element) {
  return hn::Set(Float(), hn::GetLane(load(element, 1)));
}

template <Binary kForm, class Y>
void binary_rows_of(const RowLoop<3>& loop, std::int64_t begin, std::int64_t end, const void* a, const void* b,
                    void* y) {
  using T = typename Place<Y>::Element;
  const bool repeat_a = loop.inner.strides[0] == 0;
  const bool repeat_b = loop.inner.strides[1] == 0;
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    const T* a_row = static_cast<const T*>(a) + cursor.offset(0);
    const T* b_row = static_cast<const T*>(b) + cursor.offset(1);
    const Y y_row = Place<Y>::at(y) + cursor.offset(2);
    if (repeat_a) {
      map_row(cursor.length(), ApplyToOneA<kForm>{repeat(a_row)}, y_row, b_row);
    } else if (repeat_b) {
      map_row(cursor.length(), ApplyToOneB<kForm>{repeat(b_row)}, y_row, a_row);
    } else {
      map_row(cursor.length(), ApplyBinary<kForm>{}, y_row, a_row, b_row);
    }
  }
  finish_writes<Y>();
}

template <class Y>
HWY_INLINE void binary_rows_typed(Binary form, const RowLoop<3>& loop, std::int64_t begin, std::int64_t end,
                                  const void* a, const void* b, void* y) {
  switch (form) {
    case Binary::kAdd:
      return binary_rows_of<Binary::kAdd, Y>(loop, begin, end, a, b, y);
    case Binary::kSub:
      return binary_rows_of<Binary::kSub, Y>(loop, begin, end, a, b, y);
    case Binary::kMul:
      return binary_rows_of<Binary::kMul, Y>(loop, begin, end, a, b, y);
  }
}

/// Rows [begin, end) of operands a, b, y.
void binary_rows(DType dtype, bool streams, Binary form, const RowLoop<3>& loop, std::int64_t begin, std::int64_t end,
                 const void* a, const void* b, void* y) {
  const auto run = [&](auto place) { binary_rows_typed<decltype(place)>(form, loop, begin, end, a, b, y); };
  with_place(dtype, streams, run);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(unary_rows);
HWY_EXPORT(binary_rows);

Unary unary_form(const OpSpec& spec) {
  switch (spec.op) {
    case Op::kAddScalar:
      return Unary::kAddScalar;
    case Op::kMulScalar:
      return Unary::kMulScalar;
    case Op::kRelu:
      return Unary::kRelu;
    case Op::kSilu:
      return Unary::kSilu;
    default:
      HR_CHECK(spec.op == Op::kGelu);
  }
  return spec.attributes.get_text("approximate") == "tanh" ? Unary::kGeluTanh : Unary::kGeluErf;
}

CpuPlan plan_unary(const CpuBinding& binding) {
  const Operand& y = binding.outputs[0];
  const auto loop = longest_rows<2>(y.type.shape, {binding.inputs[0].strides, y.strides});
  const Unary form = unary_form(binding.spec);
  const bool has_scalar = form == Unary::kAddScalar || form == Unary::kMulScalar;
  const float scalar = has_scalar ? static_cast<float>(binding.spec.attributes.get_float("value")) : 0.0F;
  const DType dtype = y.type.dtype;
  const int threads = binding.threads;
  const bool may_stream = binding.streams && rows_begin_on_lines(loop, dtype);
  return {[=](const LaunchArguments& arguments) {
    const bool streams = writes_past_cache(may_stream, arguments);
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(unary_rows)
      (dtype, streams, form, loop, begin, end, scalar, arguments.inputs[0], arguments.outputs[0]);
    });
  }};
}

CpuPlan plan_binary(const CpuBinding& binding) {
  const Operand& y = binding.outputs[0];
  const Shape& shape = y.type.shape;
  const auto loop = longest_rows<3>(
      shape, {broadcast_strides(binding.inputs[0], shape), broadcast_strides(binding.inputs[1], shape), y.strides});
  const Op op = binding.spec.op;
  const Binary form = op == Op::kAdd ? Binary::kAdd : op == Op::kSub ? Binary::kSub : Binary::kMul;
  const DType dtype = y.type.dtype;
  const int threads = binding.threads;
  const bool may_stream = binding.streams && rows_begin_on_lines(loop, dtype);
  return {[=](const LaunchArguments& arguments) {
    const bool streams = writes_past_cache(may_stream, arguments);
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(binary_rows)
      (dtype, streams, form, loop, begin, end, arguments.inputs[0], arguments.inputs[1], arguments.outputs[0]);
    });
  }};
}

CpuKernelTraits elementwise(std::string_view name, Op op, CpuPlan (*plan)(const CpuBinding&)) {
  return {.name = name, .op = op, .supports = supports_f32_or_bf16, .in_place = true, .plan = plan};
}

}  // namespace

const Kernel& highway_add() {
  static const CpuKernel kernel(elementwise("highway.add", Op::kAdd, plan_binary));
  return kernel;
}
const Kernel& highway_sub() {
  static const CpuKernel kernel(elementwise("highway.sub", Op::kSub, plan_binary));
  return kernel;
}
const Kernel& highway_mul() {
  static const CpuKernel kernel(elementwise("highway.mul", Op::kMul, plan_binary));
  return kernel;
}
const Kernel& highway_add_scalar() {
  static const CpuKernel kernel(elementwise("highway.add_scalar", Op::kAddScalar, plan_unary));
  return kernel;
}
const Kernel& highway_mul_scalar() {
  static const CpuKernel kernel(elementwise("highway.mul_scalar", Op::kMulScalar, plan_unary));
  return kernel;
}
const Kernel& highway_relu() {
  static const CpuKernel kernel(elementwise("highway.relu", Op::kRelu, plan_unary));
  return kernel;
}
const Kernel& highway_silu() {
  static const CpuKernel kernel(elementwise("highway.silu", Op::kSilu, plan_unary));
  return kernel;
}
const Kernel& highway_gelu() {
  static const CpuKernel kernel(elementwise("highway.gelu", Op::kGelu, plan_unary));
  return kernel;
}

}  // namespace headroom
#endif
