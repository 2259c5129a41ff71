// 3x3 convolutions from at most 16 channels to many on Hopper: the first of a U-Net that sees more than an image.
//
// Shapes     x[b, c, h, w], weight[o, c, 3, 3], c at most 16, o a multiple of 64 -> y[b, o, h, w]; bias[o]
// Dtypes     bf16 or f16 with f32 sums; the bias the same or f32
// Layout     channels-last images and weight
// Bytes      (x + y) * 2: the image with many channels is nearly all of it
// FLOPs      2 * 9 * c * o a pixel
//
// As in conv_rgb.cu, the dot product of a pixel has 9 c elements, which warps gather from a copy of the image in
// shared memory. Here the filters of 64 channels of y would not fit in a warp's registers, so a warp has 32 of
// them. Blocks are small: 2x32 pixels of 64 channels, which gives all multiprocessors work on images of 64x64 too.
// Filters are copied in rows to shared memory, and from there in whole matrices to registers; constant ones before
// the previous kernel has ended. An odd number of channels is padded with one of zeros, so that two elements are
// gathered at once.

#include <algorithm>
#include <cstdint>

#include "kernels/conv/direct_image.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launch.cuh"

namespace headroom::convolutions {
namespace {

using namespace narrow;

constexpr int kColumnTaps = 3, kTaps = kTall * kColumnTaps;
constexpr int kTileRows = 2, kTilePixels = 32;  // a warp's pixels are a row of a tile
constexpr int kHalves = 2;                      // warps of a row, which make other channels of y
constexpr int kHalfChannels = kChannels / kHalves, kParts = kHalfChannels / 16;  // a multiply-add computes 16
constexpr int kBlockWarps = kTileRows * kHalves, kBlockThreads = kBlockWarps * 32;
constexpr int kAtOnce = 2;  // groups of eight pixels that a warp multiplies
constexpr int kCopiedRows = kTileRows + kTall - 1, kCopiedColumns = kTilePixels + kColumnTaps - 1;
constexpr int kCopiedPixels = kCopiedRows * kCopiedColumns;
constexpr int kHalfBytes = 2 * kHalfChannels;  // of a pixel that a warp has made: a row of four pieces of 16 bytes
constexpr int kHalfPieces = kHalfBytes / 16;
static_assert(kHalfPieces == 4 && kParts == 2);  // store_transposed() takes a group of eight pixels at once

struct FromSeveral {
  int height = 0, width = 0;
  int tiles_y = 0, tiles_x = 0, tiles = 0;
  Divisor channels;  // of x
  Divisor padded;    // the same or one more: even
  Divisor run;       // elements of three neighbouring pixels
  int outputs = 0;   // channels of y
  Activation activation = Activation::kNone;
  bool bias_is_f32 = false;
  bool has_constant_weight = false;
};

/// The depth of a pixel's dot products: kMultiplyAdds tensor core operations of 16 numbers each.
template <int kMultiplyAdds>
struct Depth {
  static constexpr int kNumbers = kMultiplyAdds * 16;
  static constexpr int kMostChannels = kNumbers / kTaps / 2 * 2;
  static constexpr int kPitch = kNumbers + 8;  // of a filter in shared memory: an odd number of 16 bytes
  static constexpr int kCopied = kCopiedPixels * kMostChannels;
  static constexpr int kEach =
      (kCopied + kBlockThreads - 1) / kBlockThreads;           // numbers of the copy that a thread reads
  static constexpr int kResident = kMultiplyAdds > 6 ? 3 : 4;  // blocks of a multiprocessor
  static_assert(kPitch / 8 % 2 == 1);
  static_assert(kEach * kBlockThreads * kMostChannels < Divisor::kLimit);
};

/// The block's filters, a row each in shared memory: element tap * padded + channel, padded with zeros. A warp
/// takes every fourth.
template <class D>
class FilterRows {
 public:
  __device__ __forceinline__ void read(const FromSeveral& form, const std::uint16_t* weight) {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kSteps; ++i) {
      const int number = i * 32 + lane, tap = form.padded.quotient(number);
      const int channel = number - tap * form.padded.divisor;
      const bool is_there = tap < kTaps && channel < form.channels.divisor;
      const int column = tap * form.channels.divisor + channel, depth = kTaps * form.channels.divisor;
#pragma unroll
      for (int row = 0; row < kRows; ++row)
        numbers_[row][i] = is_there ? weight[(warp + row * kBlockWarps) * depth + column] : std::uint16_t{0};
    }
  }
  __device__ __forceinline__ void write(std::uint16_t* to) const {
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
    for (int i = 0; i < kSteps; ++i)
#pragma unroll
      for (int row = 0; row < kRows; ++row)
        if (const int number = i * 32 + lane; number < D::kNumbers)
          to[(warp + row * kBlockWarps) * D::kPitch + number] = numbers_[row][i];
  }

 private:
  static constexpr int kRows = kChannels / kBlockWarps, kSteps = (D::kNumbers + 31) / 32;
  std::uint16_t numbers_[kRows][kSteps];
};

/// Those of the warp's half of the channels, from there to registers.
template <class D, int kMultiplyAdds>
__device__ __forceinline__ void load_filters(const std::uint16_t* filters, int half,
                                             std::uint32_t (&to)[kParts][kMultiplyAdds][4]) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int row = half * kHalfChannels + lane / 8 % 2 * 8 + lane % 8,
            number = lane / 16 * 8;  // this lane's of four matrices
#pragma unroll
  for (int part = 0; part < kParts; ++part)
#pragma unroll
    for (int i = 0; i < kMultiplyAdds; ++i)
      hopper::load_matrices(hopper::shared_address(filters + (row + part * 16) * D::kPitch + number + i * 16),
                            to[part][i]);
}

/// The copy of a tile and its halo: rows of pixels of `padded` channels.
template <class D>
struct Copy {
  using Numbers = std::uint16_t[D::kEach];

  /// This thread's numbers of a tile, zeros beyond the edges.
  static __device__ __forceinline__ void read(const FromSeveral& form, const std::uint16_t* x, int tile, Numbers& to) {
    const int column = tile % form.tiles_x * kTilePixels - 1, rows = tile / form.tiles_x;
    const int row = rows % form.tiles_y * kTileRows - 1, image = rows / form.tiles_y;
    const int thread = compute_again(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < D::kEach; ++i) {
      const int at = thread + i * kBlockThreads, pixel = form.channels.quotient(at);
      const int channel = at - pixel * form.channels.divisor;
      const int y = row + pixel / kCopiedColumns, x_pixel = column + pixel % kCopiedColumns;
      const bool is_inside = pixel < kCopiedPixels && y >= 0 && y < form.height && x_pixel >= 0 && x_pixel < form.width;
      to[i] = is_inside ? x[((image * form.height + y) * form.width + x_pixel) * form.channels.divisor + channel]
                        : std::uint16_t{0};
    }
  }
  static __device__ __forceinline__ void write(const FromSeveral& form, const Numbers& from, std::uint16_t* copy) {
    const int thread = compute_again(static_cast<int>(threadIdx.x));
#pragma unroll
    for (int i = 0; i < D::kEach; ++i) {
      const int at = thread + i * kBlockThreads, pixel = form.channels.quotient(at);
      if (pixel < kCopiedPixels) copy[at + pixel * (form.padded.divisor - form.channels.divisor)] = from[i];
    }
  }
  /// The channels that x does not have.
  static __device__ __forceinline__ void clear(std::uint16_t* copy) {
    for (int at = static_cast<int>(threadIdx.x); at < D::kCopied; at += kBlockThreads) copy[at] = 0;
  }
};

/// Offsets of elements 2 (t % 4) on of each half of each multiply-add, relative to a pixel's first, two at a time.
template <int kMultiplyAdds>
class Gather {
 public:
  __device__ __forceinline__ explicit Gather(const FromSeveral& form) {
#pragma unroll
    for (int i = 0; i < kMultiplyAdds * 2; ++i) {
      const int number = i * 8 + static_cast<int>(threadIdx.x) % 4 * 2, row = form.run.quotient(number);
      const int in_row = number - row * form.run.divisor;
      offsets_[i] = row < kTall ? row * kCopiedColumns * form.padded.divisor + in_row : -1;
    }
  }
  __device__ __forceinline__ void take(const std::uint16_t* pixel, int step, std::uint32_t (&to)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int offset = offsets_[step * 2 + half];
      to[half] = offset < 0 ? 0 : *reinterpret_cast<const std::uint32_t*>(pixel + offset);
    }
  }

 private:
  int offsets_[kMultiplyAdds * 2];
};

/// Groups of eight pixels, of which `first` is the lane's of the first group, to where they leave from.
template <class T, int kMultiplyAdds>
__device__ __forceinline__ void make_groups(const FromSeveral& form, const Gather<kMultiplyAdds>& gather,
                                            const std::uint32_t (&filters)[kParts][kMultiplyAdds][4],
                                            const float (&biases)[kParts * 2], const std::uint16_t* first,
                                            std::uint32_t place) {
  float sums[kAtOnce][kParts][4];
#pragma unroll
  for (int group = 0; group < kAtOnce; ++group)
#pragma unroll
    for (int part = 0; part < kParts; ++part)
#pragma unroll
      for (int i = 0; i < 4; ++i) sums[group][part][i] = biases[part * 2 + i / 2];
#pragma unroll
  for (int i = 0; i < kMultiplyAdds; ++i)
#pragma unroll
    for (int group = 0; group < kAtOnce; ++group) {
      std::uint32_t numbers[2];
      gather.take(first + group * 8 * form.padded.divisor, i, numbers);
#pragma unroll
      for (int part = 0; part < kParts; ++part) hopper::multiply(T(), sums[group][part], filters[part][i], numbers);
    }
#pragma unroll
  for (int group = 0; group < kAtOnce; ++group) {
    activate(form.activation, sums[group]);
    std::uint32_t pairs[4];
#pragma unroll
    for (int k = 0; k < 4; ++k)
      pairs[k] = hopper::pack(T(), sums[group][k / 2][k % 2 * 2], sums[group][k / 2][k % 2 * 2 + 1]);
    hopper::store_transposed(place + group * 8 * kHalfBytes, pairs);
  }
}

/// Which piece of a pixel lies where another would: so are those of eight pixels in banks of their own.
template <int kPieces>
__device__ __forceinline__ int swizzled(int pixel, int piece) {
  return piece ^ pixel / 2 % kPieces;
}

/// The warp's pixels, from `from` to y.
template <class T>
__device__ __forceinline__ void store_pixels(const FromSeveral& form, int tile, int warp, int first_output,
                                             const char* from, T* y) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int column = tile % form.tiles_x * kTilePixels, rows = tile / form.tiles_x;
  const int row = rows % form.tiles_y * kTileRows + warp / kHalves, image = rows / form.tiles_y;
  if (row >= form.height) return;
  T* const to = y + ((image * form.height + row) * form.width + column) * form.outputs + first_output;
#pragma unroll
  for (int i = 0; i < kTilePixels / 8; ++i) {
    const int pixel = i * 8 + lane / kHalfPieces, piece = lane % kHalfPieces;
    if (column + pixel < form.width)
      reinterpret_cast<uint4*>(to)[pixel * (form.outputs / 8) + piece] =
          *reinterpret_cast<const uint4*>(from + pixel * kHalfBytes + swizzled<kHalfPieces>(pixel, piece) * 16);
  }
}

template <class T, int kMultiplyAdds>
__global__ void __launch_bounds__(kBlockThreads, Depth<kMultiplyAdds>::kResident)
    from_several_kernel(const FromSeveral form, const T* x, const T* weight, const void* bias, T* y) {
  if constexpr (HR_HAS_HOPPER) {
    using D = Depth<kMultiplyAdds>;
    __shared__ alignas(16) std::uint16_t filters_of_block[kChannels * D::kPitch];
    __shared__ alignas(16) std::uint16_t copy[D::kCopied];
    __shared__ alignas(128) char pixels[kBlockWarps][kTilePixels * kHalfBytes];
    cuda::let_next_begin();
    if (!form.has_constant_weight) cuda::wait_for_previous();
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int half = warp % kHalves, block_output = static_cast<int>(blockIdx.y) * kChannels;
    const int first_output = block_output + half * kHalfChannels;
    const auto* const numbers_of_x = reinterpret_cast<const std::uint16_t*>(x);
    FilterRows<D> rows;
    rows.read(form, reinterpret_cast<const std::uint16_t*>(weight) + block_output * kTaps * form.channels.divisor);
    Copy<D>::clear(copy);
    const Gather<kMultiplyAdds> gather(form);
    cuda::wait_for_previous();
    typename Copy<D>::Numbers next;
    int tile = static_cast<int>(blockIdx.x);
    Copy<D>::read(form, numbers_of_x, tile, next);
    float biases[kParts * 2];  // of the rows of multiply-adds that this lane has
#pragma unroll
    for (int i = 0; i < kParts * 2; ++i)
      biases[i] = cuda::optional_vector_at<T>(bias, form.bias_is_f32, first_output + i * 8 + lane / 4);
    rows.write(filters_of_block);
    __syncthreads();
    std::uint32_t filters[kParts][kMultiplyAdds][4];
    load_filters<D>(filters_of_block, half, filters);
    const std::uint16_t* const first = copy + (warp / kHalves * kCopiedColumns + lane / 4) * form.padded.divisor;
    // The destination of this lane's row of four matrices: eight channels each, of pixel lane % 8 of a group.
    const std::uint32_t place =
        hopper::shared_address(pixels[warp]) + lane % 8 * kHalfBytes + swizzled<kHalfPieces>(lane % 8, lane / 8) * 16;
    for (; tile < form.tiles; tile += static_cast<int>(gridDim.x)) {
      Copy<D>::write(form, next, copy);
      __syncthreads();
      if (tile + static_cast<int>(gridDim.x) < form.tiles)
        Copy<D>::read(form, numbers_of_x, tile + static_cast<int>(gridDim.x), next);
#pragma unroll 1
      for (int group = 0; group < kTilePixels / 8; group += kAtOnce)
        make_groups<T, kMultiplyAdds>(form, gather, filters, biases, first + group * 8 * form.padded.divisor,
                                      place + group * 8 * kHalfBytes);
      __syncthreads();  // all have read the tile
      store_pixels(form, tile, warp, first_output, pixels[warp], y);
    }
  }
}

template <class T>
void launch(void* stream, const NarrowForm& form, int multiprocessors, const T* x, const T* weight, const void* bias,
            T* y) {
  FromSeveral work{.height = form.height,
                   .width = form.width,
                   .tiles_y = divide_up(form.height, kTileRows),
                   .tiles_x = divide_up(form.width, kTilePixels),
                   .channels = Divisor::of(form.channels),
                   .padded = Divisor::of(round_up(form.channels, 2)),
                   .run = Divisor::of(kColumnTaps * round_up(form.channels, 2)),
                   .outputs = form.outputs,
                   .activation = form.activation,
                   .bias_is_f32 = form.bias == DType::kF32,
                   .has_constant_weight = form.has_constant_weight};
  work.tiles = form.images * work.tiles_y * work.tiles_x;
  const int columns = form.outputs / kChannels;
  // For up to 8, 10 and 16 channels.
  cuda::with_one_of<5, 6, 9>(form.channels <= 8    ? 5
                             : form.channels <= 10 ? 6
                                                   : 9,
                             [&](auto count) {
                               static_assert(Depth<9>::kMostChannels == kMostSeveralChannels);
                               const int blocks = divide_up(Depth<count()>::kResident * multiprocessors, columns);
                               cuda::launch_early(from_several_kernel<T, count()>,
                                                  {.blocks = dim3(static_cast<unsigned>(std::min(work.tiles, blocks)),
                                                                  static_cast<unsigned>(columns)),
                                                   .threads = kBlockThreads,
                                                   .stream = static_cast<cudaStream_t>(stream)},
                                                  work, x, weight, bias, y);
                             });
}

}  // namespace

void launch_several(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands) {
  cuda::with_small_type_of(form.dtype, [&](auto type) {
    using T = decltype(type);
    launch<T>(stream, form, multiprocessors, static_cast<const T*>(operands.x), static_cast<const T*>(operands.weight),
              operands.bias, static_cast<T*>(operands.y));
  });
  cuda::check_launched("several channels' convolution kernel");
}

}  // namespace headroom::convolutions
