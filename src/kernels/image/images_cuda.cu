// resize2d, max_pool2d and avg_pool2d on a GPU: images of another size.
//
// Dtypes     f32, bf16 or f16 in memory, f32 arithmetic, one rounding; "nearest" and maxima are exact.
// Layout     row-major or channels-last, without gaps: planes of rows of pixels of `inner` elements, 1 in row-major
//            images. Channels at multiples of 16 bytes use packs of 16 bytes; others go element by element.
// Bytes      y written once; x read once from memory, and again from the cache by the pixels that share it: an upscale
//            by 2 writes four times the bytes that it reads.
//
// The threads of a block cover a row of y or, if rows are short, several rows. An index that is scaled by a power of
// two, as by an upscale by 2 or by a single channel, uses a shift. A division would cost as much as the memory
// access.

#include <numeric>

#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/image/images_cuda.hpp"

namespace headroom::cuda {
namespace {

constexpr unsigned kThreads = 256;

/// floor(i * numerator / divisor).
struct Scale {
  std::int64_t numerator = 1, divisor = 1;
  int shift = 0;  ///< of a divisor that is a power of two; others -1

  __device__ __forceinline__ std::int64_t operator()(std::int64_t i) const {
    return shift >= 0 ? i * numerator >> shift : divide(i * numerator, divisor).quotient;
  }
};
Scale make_scale(std::int64_t numerator, std::int64_t divisor) {
  const std::int64_t common = std::gcd(numerator, divisor);
  Scale scale{numerator / common, divisor / common, 0};
  while ((std::int64_t{1} << scale.shift) < scale.divisor) ++scale.shift;
  if ((std::int64_t{1} << scale.shift) != scale.divisor) scale.shift = -1;
  return scale;
}

/// How places of y are found: the plane of a row, the pixel of a pack, and the source row and column of "nearest".
struct Places {
  Scale plane, pixel, row, column;
};

/// Two neighbours along an axis of which the second one counts `weight`, as in kernels/image/planes.hpp.
struct Pair {
  std::int64_t first, second;
  float weight;
};
__device__ __forceinline__ Pair neighbours_of(std::int64_t i, std::int64_t extent, std::int64_t size) {
  const std::int64_t at = (2 * i + 1) * extent - size;  // times 2 size
  if (at <= 0) return {0, extent > 1 ? 1 : 0, 0.0F};
  const Division split = divide(at, 2 * size);
  const std::int64_t next = split.quotient + 1;
  return {split.quotient, next < extent ? next : split.quotient,
          static_cast<float>(split.remainder) / static_cast<float>(2 * size)};
}

__device__ __forceinline__ float blend(float a, float b, float of_b) { return (1.0F - of_b) * a + of_b * b; }

/// The pack at a row and column of y, from the plane of x that its place in the pixel is added to.
template <class T, int kWidth, Resampling kHow>
__device__ __forceinline__ void resample(const ResampledImage& image, const Places& places, const T* plane,
                                         std::int64_t row, std::int64_t column, float (&y)[kWidth]) {
  const auto pixel = [&](std::int64_t i, std::int64_t j) { return plane + (i * image.from_width + j) * image.inner; };
  if constexpr (kHow == Resampling::kNearest) {
    load(pixel(places.row(row), places.column(column)), y);
  } else if constexpr (kHow == Resampling::kBilinear) {
    const Pair down = neighbours_of(row, image.from_height, image.to_height);
    const Pair across = neighbours_of(column, image.from_width, image.to_width);
    float corners[4][kWidth];
    load(pixel(down.first, across.first), corners[0]);
    load(pixel(down.first, across.second), corners[1]);
    load(pixel(down.second, across.first), corners[2]);
    load(pixel(down.second, across.second), corners[3]);
#pragma unroll
    for (int k = 0; k < kWidth; ++k)
      y[k] = blend(blend(corners[0][k], corners[1][k], across.weight),
                   blend(corners[2][k], corners[3][k], across.weight), down.weight);
  } else {
    load(pixel(row * image.window, column * image.window), y);
    for (std::int64_t i = 0; i < image.window; ++i)
      for (std::int64_t j = i == 0 ? 1 : 0; j < image.window; ++j) {
        float x[kWidth];
        load(pixel(row * image.window + i, column * image.window + j), x);
#pragma unroll
        for (int k = 0; k < kWidth; ++k) {
          if (kHow == Resampling::kMean)
            y[k] += x[k];
          else if (x[k] > y[k] || x[k] != x[k])  // a NaN wins
            y[k] = x[k];
        }
      }
    if (kHow == Resampling::kMean) {
      const auto count = static_cast<float>(image.window * image.window);
#pragma unroll
      for (int k = 0; k < kWidth; ++k) y[k] /= count;
    }
  }
}

template <class T, int kWidth, Resampling kHow>
__global__ void __launch_bounds__(kThreads)
    resample_kernel(ResampledImage image, Places places, std::int64_t packs, const T* x, T* y) {
  wait_for_previous();
  const std::int64_t row = static_cast<std::int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;  // of all planes
  const std::int64_t index = static_cast<std::int64_t>(blockIdx.y) * blockDim.x + threadIdx.x;
  if (row >= image.outer * image.to_height || index >= image.to_width * packs) return;
  const std::int64_t plane = places.plane(row), column = places.pixel(index);
  const T* const from =
      x + plane * image.from_height * image.from_width * image.inner + (index - column * packs) * kWidth;
  float values[kWidth];
  resample<T, kWidth, kHow>(image, places, from, row - plane * image.to_height, column, values);
  Packs<T, kWidth>::store(values, y + (row * image.to_width * packs + index) * kWidth);
}

template <class T, int kWidth, Resampling kHow>
void launch_packs(cudaStream_t stream, const ResampledImage& image, const T* x, T* y) {
  const std::int64_t packs = image.inner / kWidth, along = image.to_width * packs;
  const Places places{make_scale(1, image.to_height), make_scale(1, packs),
                      make_scale(image.from_height, image.to_height), make_scale(image.from_width, image.to_width)};
  unsigned across = 32;
  while (across < kThreads && across < along) across *= 2;
  const dim3 threads(across, kThreads / across);
  const dim3 blocks(static_cast<unsigned>(divide_up(image.outer * image.to_height, threads.y)),
                    static_cast<unsigned>(divide_up(along, across)));
  launch_early(resample_kernel<T, kWidth, kHow>, {blocks, threads, stream}, image, places, packs, x, y);
  check_launched("cuda resample kernel");
}

template <class T, int kWidth>
void launch_width(cudaStream_t stream, const ResampledImage& image, const T* x, T* y) {
  switch (image.how) {
    case Resampling::kNearest:
      return launch_packs<T, kWidth, Resampling::kNearest>(stream, image, x, y);
    case Resampling::kBilinear:
      return launch_packs<T, kWidth, Resampling::kBilinear>(stream, image, x, y);
    case Resampling::kMax:
      return launch_packs<T, kWidth, Resampling::kMax>(stream, image, x, y);
    case Resampling::kMean:
      return launch_packs<T, kWidth, Resampling::kMean>(stream, image, x, y);
  }
}

}  // namespace

void launch_resample(void* stream, const ResampledImage& image, const void* x, void* y) {
  if (image.outer * image.to_height * image.to_width * image.inner == 0) return;
  with_type_of(image.dtype, [&](auto type) {
    using T = decltype(type);
    constexpr int kFull = kFullPack<T>;
    const auto is_aligned = [](const void* data) { return reinterpret_cast<std::uintptr_t>(data) % 16 == 0; };
    const auto on = static_cast<cudaStream_t>(stream);
    const auto* from = static_cast<const T*>(x);
    auto* const to = static_cast<T*>(y);
    if (image.inner % kFull == 0 && is_aligned(x) && is_aligned(y))
      launch_width<T, kFull>(on, image, from, to);
    else
      launch_width<T, 1>(on, image, from, to);
  });
}

}  // namespace headroom::cuda
