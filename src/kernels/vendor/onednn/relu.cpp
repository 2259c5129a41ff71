#include "kernels/vendor/onednn/relu.hpp"

#include <cstddef>

#include "base/error.hpp"
#include "kernels/core/parallel.hpp"

namespace headroom::onednn {
namespace {

// Plain loops, which the compiler makes vectors of; memory bounds them.

void relu(float* x, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] < 0 ? 0 : x[i];
}

/// By their bits: negative numbers are above -0, and the NaNs with a sign above -infinity.
void relu(std::uint16_t* x, std::int64_t count) {
  constexpr std::uint16_t kMinusZero = 0x8000, kMinusInfinity = 0xFF80;
  for (std::int64_t i = 0; i < count; ++i) x[i] = x[i] > kMinusZero && x[i] <= kMinusInfinity ? std::uint16_t{0} : x[i];
}

template <class T>
void relu_rows(T* x, std::int64_t rows, std::int64_t columns, std::int64_t stride, int threads) {
  parallel_for(threads, rows, grain_of(columns), [&](std::int64_t begin, std::int64_t end, int /*thread*/) {
    for (std::int64_t row = begin; row < end; ++row) relu(x + row * stride, columns);
  });
}

}  // namespace

void relu_in_place(DType dtype, void* elements, std::int64_t rows, std::int64_t columns, std::int64_t stride,
                   int threads) {
  HR_CHECK(dtype == DType::kF32 || dtype == DType::kBF16);
  if (dtype == DType::kF32)
    relu_rows(static_cast<float*>(elements), rows, columns, stride, threads);
  else
    relu_rows(static_cast<std::uint16_t*>(elements), rows, columns, stride, threads);
}

void relu_in_place(DType dtype, void* elements, std::int64_t count, int threads) {
  constexpr std::int64_t kPart = kElementsPerThread;
  const std::int64_t whole = count / kPart * kPart;
  relu_in_place(dtype, elements, count / kPart, kPart, kPart, threads);
  auto* const rest = static_cast<std::byte*>(elements) + whole * static_cast<std::int64_t>(size_of(dtype));
  relu_in_place(dtype, rest, 1, count - whole, 0, 1);
}

}  // namespace headroom::onednn
