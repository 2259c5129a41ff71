// cast: y = x in another dtype, rounded to nearest even. Values that are too large saturate in f8e4m3 and the
// integers, and become infinite in the other floats, as store_from_double() defines.
//
// Dtypes     any to any. Casts between f32 and bf16 or f16, and bf16 to f16, use packs of 16 bytes of the smaller dtype
//            if rows are aligned. Every other pair goes one element at a time through double, which represents all
//            values except the largest i64.
// Bytes      x read and y written once.

#include "kernels/core/cuda/as_double.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/elementwise/cast_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kWidth = 8;

template <class From, class To>
__global__ void __launch_bounds__(kThreads)
    cast_packs_kernel(GridRows<2> grid, std::int64_t packs_per_row, const From* x, To* y) {
  wait_for_previous();
  const std::int64_t pack = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(pack, packs_per_row);
  if (at.quotient >= grid.rows) return;
  std::int64_t offsets[2];
  find_row(grid, at.quotient, offsets);
  float values[kWidth];
  load(x + offsets[0] + at.remainder * kWidth, values);
  Packs<To, kWidth>::store(values, y + offsets[1] + at.remainder * kWidth);
}

__global__ void __launch_bounds__(kThreads) cast_kernel(CastRows rows, const void* x, void* y) {
  wait_for_previous();
  const std::int64_t element = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const Division at = divide(element, rows.grid.length);
  if (at.quotient >= rows.grid.rows) return;
  std::int64_t offsets[2];
  find_row(rows.grid, at.quotient, offsets);
  store_double(y, rows.to, offsets[1] + at.remainder, load_double(x, rows.from, offsets[0] + at.remainder));
}

}  // namespace

void launch_cast(void* stream, const CastRows& rows, const void* x, void* y) {
  const std::int64_t elements = rows.grid.rows * rows.grid.length;
  if (elements == 0) return;
  auto* const on = static_cast<cudaStream_t>(stream);
  const bool wide = rows.grid.length % kWidth == 0 && is_aligned(rows.grid, kWidth, {x, y});
  const std::int64_t packs = rows.grid.length / kWidth;
  const dim3 blocks = blocks_along_x(divide_up(wide ? rows.grid.rows * packs : elements, kThreads));
  const auto in_packs = [&](auto from, auto to) {
    launch_early(cast_packs_kernel<decltype(from), decltype(to)>, {blocks, kThreads, on}, rows.grid, packs,
                 static_cast<const decltype(from)*>(x), static_cast<decltype(to)*>(y));
  };
  const auto is = [&](DType from, DType to) { return wide && rows.from == from && rows.to == to; };
  if (is(DType::kF32, DType::kBF16))
    in_packs(float(), Bf16());
  else if (is(DType::kBF16, DType::kF32))
    in_packs(Bf16(), float());
  else if (is(DType::kF32, DType::kF16))
    in_packs(float(), F16());
  else if (is(DType::kF16, DType::kF32))
    in_packs(F16(), float());
  else if (is(DType::kBF16, DType::kF16))
    in_packs(Bf16(), F16());
  else
    launch_early(cast_kernel, {blocks_along_x(divide_up(elements, kThreads)), kThreads, on}, rows, x, y);
  check_launched("cuda cast kernel");
}

}  // namespace headroom::cuda
