// x = e^-x, repeated in the first-level cache: the rate of exponentials of the vector units without other work.
// Operations per vector, not counting loads and stores: 11 in f32; for bf16 8, with AVX-512 6.

#include "base/error.hpp"
#include "kernels/core/simd_targets.hpp"
#include "kernels/elementwise/exponentials.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/elementwise/exponentials_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

template <Precision kPrecision>
HWY_INLINE Vector exp_of_negative(Vector x) {
  const Vector factor = hn::Set(Float(), -1.44269504F);  // -log2(e)
  if constexpr (kPrecision == Precision::kBf16) return exp2_for_bf16(hn::Mul(x, factor));
  const Exp2<kPrecision> power(x, factor);
  return hn::Mul(power.fraction, power.scale);
}

/// Not inlined: otherwise the compiler keeps a vector in a register and chains the exponentials, which takes half as
/// long again.
template <Precision kPrecision>
HWY_NOINLINE void once(float* x, std::int64_t count) {
  const Float d;
  for (std::int64_t i = 0; i < count; i += lanes())
    hn::StoreU(exp_of_negative<kPrecision>(hn::LoadU(d, x + i)), d, x + i);
}

void repeat(DType dtype, float* x, std::int64_t count, std::int64_t times) {
  const auto pass = dtype == DType::kBF16 ? once<Precision::kBf16> : once<Precision::kF32>;
  for (; times > 0; --times) pass(x, count);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(repeat);

}  // namespace

void repeat_exponentials(DType dtype, std::span<float> numbers, std::int64_t times) {
  HR_CHECK_EQ(numbers.size() % 16, std::size_t{0});
  HWY_DYNAMIC_DISPATCH(repeat)(dtype, numbers.data(), std::ssize(numbers), times);
}

}  // namespace headroom
#endif
