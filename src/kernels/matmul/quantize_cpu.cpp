// quantize: q = round(x * (127 / max|x|)), scale = max|x| / 127, the maximum over the innermost axis
//
// Shapes     x[..., k] -> q[..., k], scale[...]; rows with innermost stride 1, any strides outside for x.
// Dtypes     x f32 or bf16, q i8, scale f32; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Bytes      x read once and q written once from memory: a row stays in cache for the second pass over it.
// FLOPs      3 an element.
//
// The maximum runs on the bits of |x| as integers: they have the order of the numbers, and a NaN is above them all. In
// AVX-512, integers of four vectors become bytes by packing, 32 elements of bf16 in 10 operations.
// Elements are multiplied by the inverse of their scale: dividing by the scale took twice as long from cache.

#include <algorithm>
#include <bit>
#include <type_traits>

#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/matmul/quantize_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// Elements written at a time: i8 of four vectors.
inline constexpr std::int64_t kQuad = 4 * lanes();

/// max|x[i]|, or a NaN if there is one. For bf16, the comparison uses its own 16 bits.
template <class T, class A>
HWY_INLINE float peak_of(std::int64_t n, const T* x, A ahead) {
  using Lane = std::conditional_t<std::is_same_v<T, Bf16>, std::uint16_t, std::uint32_t>;
  const hn::ScalableTag<Lane> d;
  constexpr auto kLanes = static_cast<std::int64_t>(hn::MaxLanes(d));
  constexpr auto kMagnitude = std::numeric_limits<Lane>::max() / 2;
  const auto* bits = reinterpret_cast<const Lane*>(x);
  const auto magnitude = hn::Set(d, kMagnitude);
  auto peak0 = hn::Zero(d);
  auto peak1 = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    for (std::int64_t group = 0; group < 2 * kLanes; group += kGroup) ahead.ask();
    peak0 = hn::Max(peak0, hn::And(hn::LoadU(d, bits + i), magnitude));
    peak1 = hn::Max(peak1, hn::And(hn::LoadU(d, bits + i + kLanes), magnitude));
  }
  Lane peak = hn::GetLane(hn::MaxOfLanes(d, hn::Max(peak0, peak1)));
  for (; i < n; ++i) peak = HWY_MAX(peak, static_cast<Lane>(bits[i] & kMagnitude));
  return std::bit_cast<float>(static_cast<std::uint32_t>(peak) << (8 * (sizeof(float) - sizeof(Lane))));
}

HWY_INLINE hn::Vec<hn::RebindToSigned<Float>> rounded(Vector x, Vector inverse) {
  return hn::NearestInt(hn::Mul(x, inverse));
}

/// Writes the nearest integers of kQuad elements times `inverse`, all within i8.
template <class T, class Y>
HWY_INLINE void quantize_quad(const T* x, Vector inverse, Y q) {
#if HWY_TARGET <= HWY_AVX3 && HWY_ARCH_X86
  __m512i quad;
  if constexpr (std::is_same_v<T, Bf16>) {
    // In each lane, the even element is in the lowest byte, the odd one in the next, and the others are 0.
    const auto join = [&](Pairs v) HWY_ATTR {
      const __m512i odd = _mm512_slli_epi32(rounded(v.odd, inverse).raw, 24);
      const __m512i byte = _mm512_set1_epi32(0xFF);
      return _mm512_ternarylogic_epi32(byte, rounded(v.even, inverse).raw, _mm512_srli_epi32(odd, 16), 0xEA);
    };
    const __m512i interleaved = _mm512_packus_epi32(join(load_all_pairs(x)), join(load_all_pairs(x + kGroup)));
    quad = _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7), interleaved);
  } else {
    __m512i v[4];
    for (int i = 0; i < 4; ++i) v[i] = rounded(load_all(x + i * lanes()), inverse).raw;
    quad = bytes_of_integers(v[0], v[1], v[2], v[3]);
  }
  if constexpr (Destination<Y>::kPastCache) {
    _mm512_stream_si512(reinterpret_cast<__m512i*>(address_of(q)), quad);
  } else {
    _mm512_storeu_si512(q, quad);
  }
#else
  const hn::Rebind<std::int8_t, Float> d8;
  for (std::int64_t i = 0; i < kQuad; i += lanes())
    hn::StoreU(hn::DemoteTo(d8, rounded(load_all(x + i), inverse)), d8, address_of(q) + i);
#endif
}

/// Y is std::int8_t* or PastCache<std::int8_t>. `next` is the data read after this row, to be prefetched.
template <class Y, class T>
HWY_INLINE void quantize_row(std::int64_t n, const T* x, Y q, float* scale, const T* next) {
  constexpr float kLargest = 127;
  using Ahead = ReadAhead<Y, T, 2>;
  const float peak = peak_of(n, x, Ahead(next, n, 0));
  const bool is_zeros = peak < 0x1p-100F;
  *scale = is_zeros ? 1.0F : peak / kLargest;
  std::int8_t* bytes = address_of(q);
  if (is_zeros || !(peak <= std::numeric_limits<float>::max())) {
    std::memset(bytes, 0, static_cast<std::size_t>(n));
    return;
  }
  const Vector inverse = hn::Set(Float(), kLargest / peak);
  Ahead ahead(next, n, 1);
  std::int64_t i = 0;
  for (; i + kQuad <= n; i += kQuad) {
    ahead.ask();
    ahead.ask();
    quantize_quad(x + i, inverse, q + i);
  }
  for (; i < n; ++i) {
    const float one = hn::GetLane(hn::Mul(load(x + i, 1), inverse));
    bytes[i] = static_cast<std::int8_t>(hn::GetLane(hn::NearestInt(hn::Set(Float(), one))));
  }
}

template <class T, class Y>
void quantize_rows_of(const RowLoop<3>& loop, const RowPart& part) {
  const auto* x = part.input<T>(0);
  RowCursor cursor(loop, part.begin);
  for (std::int64_t row = part.begin; row < part.end; ++row) {
    const T* from = x + cursor.offset(0);
    float* scale = part.output<float>(1) + cursor.offset(1);
    const Y to = Destination<Y>::at(part.output(0)) + cursor.offset(2);
    cursor.next();
    quantize_row(loop.inner.extent, from, to, scale, x + cursor.offset(0));
  }
  finish_writes<Y>();
}

/// Operands of `loop`: x, scale, q.
void quantize_rows(DType dtype, const RowLoop<3>& loop, const RowPart& part) {
  const auto run = [&]<class T>(T) {
    if (part.past_cache) return quantize_rows_of<T, PastCache<std::int8_t>>(loop, part);
    quantize_rows_of<T, std::int8_t*>(loop, part);
  };
  if (dtype == DType::kF32) return run(float{});
  run(Bf16{});
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(quantize_rows);

Support supports_quantize(const OpSpec& spec) {
  const DType from = spec.inputs[0].dtype;
  if (spec.outputs[0].dtype != DType::kI8) return Rejection{fmt::format("makes i8, not {}", spec.outputs[0].dtype)};
  if (from != DType::kF32 && from != DType::kBF16) return Rejection{fmt::format("takes f32 or bf16, not {}", from)};
  if (spec.inputs[0].layout != Layout::kRowMajor) return Rejection{"needs row-major operands"};
  return std::nullopt;
}

KernelPlan plan_quantize(const KernelBinding& binding) {
  const Operand& x = binding.inputs[0];
  Shape scale_strides = binding.outputs[1].strides;
  scale_strides.push_back(0);  // one for a row
  const auto loop = rows_of<3>(x.type.shape, {x.strides, scale_strides, binding.outputs[0].strides});
  return share_rows(row_work(binding, loop), [loop, dtype = x.type.dtype](const RowPart& part) {
    HWY_DYNAMIC_DISPATCH(quantize_rows)(dtype, loop, part);
  });
}

}  // namespace

const Kernel& highway_quantize() {
  static const CpuKernel kernel(
      {.name = "highway.quantize", .op = Op::kQuantize, .supports = supports_quantize, .plan = plan_quantize});
  return kernel;
}

}  // namespace headroom
#endif
