// quantize: scale = max|x| / L, q = x * (L / max|x|) in E4M3 (L = 448) or i8 (127), the maximum over the innermost axis
//
// Shapes     x[..., k] -> q[..., k], scale[...]; innermost strides 1, any outside.
// Dtypes     x f32, bf16 or f16; f32 arithmetic, ties to even; equal to the oracle bit for bit.
// Alignment  rows of whole packs of 16 bytes at multiples of 16 bytes; others go element by element.
// Bytes      x read and q written once: a row stays in registers, as it was stored, up to 32768 elements in 16 bits.
//            3 FLOPs an element: bound by memory.

#include "kernels/core/cuda/float8.cuh"
#include "kernels/core/cuda/row_cache.cuh"
#include "kernels/matmul/quantize_cuda.hpp"

namespace headroom::cuda {
namespace {

template <class T, bool kIsFloat>
struct Quantize {
  const T* x;
  std::uint8_t* q;
  float* row_scales;

  template <int kWidth, int kPerThread>
  __device__ __forceinline__ void run(const RowPlace<3>& place) const {
    using Stored = std::conditional_t<kPerThread == 0, RereadRow<T>, RawRow<T, kWidth, kPerThread>>;
    const Stored row(x + place.offsets[0], place.packs);
    std::uint8_t* const to = q + place.offsets[1];
    float peak = 0;
    row.for_each([&](int, const float(&x)[kWidth]) {
#pragma unroll
      for (int i = 0; i < kWidth; ++i) peak = largest_magnitude(peak, x[i]);
    });
    const RowScale quantization = scale_of_row(join_row<Peak>(peak), kIsFloat ? kLargestF8 : kLargestI8);
    if (!place.exists) return;
    if (threadIdx.x == 0) row_scales[place.offsets[2]] = quantization.scale;
    row.for_each([&](int pack, float(&x)[kWidth]) {
      quantize(x, quantization);
      if constexpr (kIsFloat)
        store_f8(x, to + pack * kWidth);
      else
        store_i8(x, to + pack * kWidth);
    });
  }
};

}  // namespace

void launch_quantize(void* stream, const QuantizeRows& rows, const void* x, void* q, float* row_scales) {
  if (rows.grid.rows * rows.grid.length == 0) return;
  with_type_of(rows.dtype, [&](auto type) {
    using T = decltype(type);
    const bool is_wide = rows.grid.length % kFullPack<T> == 0 && is_aligned(rows.grid, kFullPack<T>, {x, q});
    const auto launch = [&](auto is_float) {
      launch_rows<T>(static_cast<cudaStream_t>(stream), rows.grid, is_wide,
                     Quantize<T, is_float()>{static_cast<const T*>(x), static_cast<std::uint8_t*>(q), row_scales});
    };
    if (rows.to == DType::kF8E4M3) return launch(std::true_type());
    launch(std::false_type());
  });
  check_launched("cuda quantize kernel");
}

}  // namespace headroom::cuda
