// cast: y = x rounded to y's dtype (nearest, ties to even); the same shape.
//
// Dtypes   f32 -> bf16, bf16 -> f32 and f16 -> f32 or bf16 in vectors, the rest one element at a time through double.
// Bytes    x read, y written once; bound by memory in vectors, by the conversion (some nanoseconds an element)
// otherwise.

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/movement/strided_copy.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/cast_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

struct Unchanged {
  HWY_INLINE Vector operator()(Vector x) const { return x; }
};

/// Y is To* or PastCache<To>.
template <class From, class Y>
void cast_rows_of(const RowLoop<2>& loop, const RowPart& part) {
  RowCursor cursor(loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next()) {
    map_row(cursor.length(), Unchanged{}, Destination<Y>::at(part.output(0)) + cursor.offset(1),
            part.input<From>(0) + cursor.offset(0));
  }
  finish_writes<Y>();
}

template <class From, class To>
void cast_rows_typed(const RowLoop<2>& loop, const RowPart& part) {
  if (part.past_cache) return cast_rows_of<From, PastCache<To>>(loop, part);
  cast_rows_of<From, To*>(loop, part);
}

/// The pairs of dtypes that is_vectorized() names.
void cast_rows(DType from, DType to, const RowLoop<2>& loop, const RowPart& part) {
  if (from == DType::kF32) return cast_rows_typed<float, ExactBf16>(loop, part);
  if (from == DType::kBF16) return cast_rows_typed<Bf16, float>(loop, part);
  if (to == DType::kF32) return cast_rows_typed<Half, float>(loop, part);
  cast_rows_typed<Half, ExactBf16>(loop, part);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(cast_rows);

bool is_vectorized(DType from, DType to) {
  if (from == DType::kF16) return to == DType::kF32 || to == DType::kBF16;
  return (from == DType::kF32 && to == DType::kBF16) || (from == DType::kBF16 && to == DType::kF32);
}

/// An element at a time. Integers of 64 bits stay exact up to 2^53.
void cast_each(DType from, DType to, const RowLoop<2>& loop, const RowPart& part) {
  const auto from_bytes = static_cast<std::int64_t>(size_of(from));
  const auto to_bytes = static_cast<std::int64_t>(size_of(to));
  RowCursor cursor(loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row, cursor.next()) {
    const std::byte* source = part.input<std::byte>(0) + cursor.offset(0) * from_bytes;
    std::byte* target = part.output<std::byte>(0) + cursor.offset(1) * to_bytes;
    for (std::int64_t i = 0; i < cursor.length(); ++i) {
      store_from_double(target + i * to_bytes, to, load_as_double(source + i * from_bytes, from));
    }
  }
}

KernelPlan plan_cast(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  const Operand& y = binding.outputs[0];
  const DType from = x.type.dtype;
  const DType to = y.type.dtype;
  if (from == to) {
    const StridedCopy copy(size_of(to), y.type.shape, x.strides, y.strides, binding.exceeds_cache);
    return {[copy, threads = binding.threads](const LaunchArguments& arguments) {
      copy.run(threads, arguments.input(0), arguments.output(0));
    }};
  }
  const auto loop = longest_rows<2>(y.type.shape, {x.strides, y.strides});
  const RowWork work = row_work(binding, loop);
  if (!is_vectorized(from, to)) return share_rows(work, [=](const RowPart& part) { cast_each(from, to, loop, part); });
  return share_rows(work, [=](const RowPart& part) { HWY_DYNAMIC_DISPATCH(cast_rows)(from, to, loop, part); });
}

}  // namespace

const Kernel& highway_cast() {
  static const CpuKernel kernel(
      {.name = "highway.cast", .op = Op::kCast, .supports = supports_all_types, .plan = plan_cast});
  return kernel;
}

}  // namespace headroom
#endif
