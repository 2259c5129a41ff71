// quantize: q = round(x * (127 / max|x|)), scale = max|x| / 127, the maximum over the innermost axis
//
// Shapes     x[..., k] -> q[..., k], scale[...]; rows with innermost stride 1, any strides outside for x.
// Dtypes     x f32 or bf16, q i8, scale f32; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Bytes      x read once and q written once from memory: a row stays in cache for the second pass over it.
// FLOPs      3 an element.
//
// The maximum runs on the bits of |x| as integers: they have the order of the numbers, and a NaN is above them all.
// Elements are multiplied by the inverse of their scale: dividing by the scale took twice as long from cache.

#include <bit>

#include "kernels/cpu_kernel.hpp"
#include "kernels/parallel.hpp"
#include "kernels/quantize.hpp"
#include "kernels/row_loop.hpp"
#include "kernels/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

using Bits = hn::RebindToSigned<Float>;

HWY_INLINE hn::Vec<Bits> magnitude_bits(Vector x) { return hn::BitCast(Bits(), hn::Abs(x)); }

/// max|x[i]|, or a NaN where there is one.
template <class T>
HWY_INLINE float peak_of(std::int64_t n, const T* x) {
  const Bits d;
  auto peak0 = hn::Zero(d);
  auto peak1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * lanes() <= n; i += 2 * lanes()) {
    if constexpr (kAllBf16<T>) {
      const Pairs pairs = load_all_pairs(x + i);
      peak0 = hn::Max(peak0, magnitude_bits(pairs.even));
      peak1 = hn::Max(peak1, magnitude_bits(pairs.odd));
    } else {
      peak0 = hn::Max(peak0, magnitude_bits(load_all(x + i)));
      peak1 = hn::Max(peak1, magnitude_bits(load_all(x + i + lanes())));
    }
  }
  for (; i < n; i += lanes()) peak0 = hn::Max(peak0, magnitude_bits(load(x + i, HWY_MIN(lanes(), n - i))));
  return std::bit_cast<float>(hn::GetLane(hn::MaxOfLanes(d, hn::Max(peak0, peak1))));
}

/// The nearest integers of x * inverse, all within i8.
HWY_INLINE void store_rounded(Vector x, Vector inverse, std::int8_t* to, std::int64_t count) {
  const hn::Rebind<std::int8_t, Float> d8;
  const auto rounded = hn::DemoteTo(d8, hn::NearestInt(hn::Mul(x, inverse)));
  if (lanes() == 1 || HWY_LIKELY(count == lanes())) return hn::StoreU(rounded, d8, to);
  HWY_ALIGN std::int8_t padded[lanes()];
  hn::StoreU(rounded, d8, padded);
  std::memcpy(to, padded, static_cast<std::size_t>(count));
}

template <class T>
HWY_INLINE void quantize_row(std::int64_t n, const T* x, std::int8_t* q, float* scale) {
  constexpr float kLargest = 127;
  const float peak = peak_of(n, x);
  const bool is_zeros = peak < 0x1p-100F;
  *scale = is_zeros ? 1.0F : peak / kLargest;
  if (is_zeros || !(peak <= std::numeric_limits<float>::max())) {
    std::memset(q, 0, static_cast<std::size_t>(n));
    return;
  }
  const Vector inverse = hn::Set(Float(), kLargest / peak);
  for (std::int64_t i = 0; i < n; i += lanes()) {
    const std::int64_t count = HWY_MIN(lanes(), n - i);
    store_rounded(load(x + i, count), inverse, q + i, count);
  }
}

template <class T>
void quantize_rows_of(const RowLoop<3>& loop, std::int64_t begin, std::int64_t end, const void* x, void* q,
                      void* scale) {
  RowCursor cursor(loop, begin);
  for (std::int64_t row = begin; row < end; ++row, cursor.next()) {
    quantize_row(cursor.length(), static_cast<const T*>(x) + cursor.offset(0),
                 static_cast<std::int8_t*>(q) + cursor.offset(1), static_cast<float*>(scale) + cursor.offset(2));
  }
}

/// Rows [begin, end) of operands x, q, scale.
void quantize_rows(DType dtype, const RowLoop<3>& loop, std::int64_t begin, std::int64_t end, const void* x, void* q,
                   void* scale) {
  if (dtype == DType::kF32) return quantize_rows_of<float>(loop, begin, end, x, q, scale);
  quantize_rows_of<Bf16>(loop, begin, end, x, q, scale);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(quantize_rows);

Support supports(const OpSpec& spec) {
  const DType from = spec.inputs[0].dtype;
  if (spec.outputs[0].dtype != DType::kI8) return Rejection{fmt::format("makes i8, not {}", spec.outputs[0].dtype)};
  if (from != DType::kF32 && from != DType::kBF16) return Rejection{fmt::format("takes f32 or bf16, not {}", from)};
  if (spec.inputs[0].layout != Layout::kRowMajor) return Rejection{"needs row-major operands"};
  return std::nullopt;
}

CpuPlan plan(const CpuBinding& binding) {
  const Operand& x = binding.inputs[0];
  Shape scale_strides = binding.outputs[1].strides;
  scale_strides.push_back(0);  // one for a row
  const auto loop = rows_of<3>(x.type.shape, {x.strides, binding.outputs[0].strides, scale_strides});
  const DType dtype = x.type.dtype;
  const int threads = binding.threads;
  return {[=](const LaunchArguments& arguments) {
    parallel_for(threads, loop.rows, grain_of(loop.row_length()), [&](std::int64_t begin, std::int64_t end, int) {
      HWY_DYNAMIC_DISPATCH(quantize_rows)
      (dtype, loop, begin, end, arguments.inputs[0], arguments.outputs[0], arguments.outputs[1]);
    });
  }};
}

}  // namespace

const Kernel& highway_quantize() {
  static const CpuKernel kernel({.name = "highway.quantize", .op = Op::kQuantize, .supports = supports, .plan = plan});
  return kernel;
}

}  // namespace headroom
#endif
