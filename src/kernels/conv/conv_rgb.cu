// 3x3 convolutions from at most 4 channels to many and from 64 to at most 16 on Hopper: an autoencoder's first and
// last, a U-Net's first.
//
// Shapes     x[b, c, h, w], weight[o, c, 3, 3], c at most 4, o a multiple of 64 -> y[b, o, h, w]; x[b, 64, h, w],
//            weight[o, 64, 3, 3], o at most 16 -> y[b, o, h, w]; bias[o]
// Dtypes     bf16 or f16 with f32 sums; the bias the same or f32
// Layout     channels-last images and weight
// Bytes      (x + y) * 2: the image with many channels is nearly all of it
// FLOPs      2 * 9 * c * o a pixel
//
// From at most 4 channels: the dot product of a pixel has 9 c elements, three runs of 3 c neighbours. Warps gather
// them from a copy in shared memory to registers and multiply there; pixels are stored with their channels in a
// row, 64 of them from a block.
//
// From 64 channels: the image is walked as in conv_64to64.cu. A multiply-add has 64 rows, which are the filters'
// three columns of taps side by side, so that a row of the image is multiplied once for all three. The parts of a
// pixel are then added up through shared memory. (With pixels as the rows and 16 filters as the columns it took 22
// us instead of 15 at 512x512: 36 small multiply-adds of 64 pixels instead of 12 of 128.)

#include <cstdint>

#include "kernels/conv/direct_image.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/cuda/wgmma.cuh"

namespace headroom::convolutions {
namespace {

using namespace narrow;

constexpr int kColumnTaps = 3, kTaps = kTall * kColumnTaps;

// From at most 4 channels.

constexpr int kWarpPixels = 32;               // of a row, a warp at a time
constexpr int kTileRows = 4, kTileWarps = 2;  // a block's warps form this many rows and columns
constexpr int kTilePixels = kTileWarps * kWarpPixels;
constexpr int kFromThreads = kTileRows * kTileWarps * 32;

struct FromFew {
  int height = 0, width = 0;
  int tiles_y = 0, tiles_x = 0, tiles = 0;
  int outputs = 0;  // channels of y
  Activation activation = Activation::kNone;
  bool bias_is_f32 = false;
};

/// The numbers that are multiplied for a pixel, kFew of each pixel around it.
template <class T, int kFew>
class Gather {
 public:
  static constexpr int kDepth = kTaps * kFew;               // elements of a dot product
  static constexpr int kMultiplyAdds = (kDepth + 15) / 16;  // of 16 numbers each
  static constexpr int kPitch = (kTilePixels + 2) * kFew;   // numbers in a row of the copy
  static constexpr int kCopied = (kTileRows + 2) * kPitch;
  static constexpr int kEach = (kCopied + kFromThreads - 1) / kFromThreads;  // of a thread

  /// This thread's numbers of the copy of a tile, zeros beyond the edges.
  static __device__ __forceinline__ void read(const FromFew& form, const T* x, int tile, std::uint16_t (&to)[kEach]) {
    const int column = tile % form.tiles_x * kTilePixels - 1, rows = tile / form.tiles_x;
    const int row = rows % form.tiles_y * kTileRows - 1;
    const std::int64_t image = rows / form.tiles_y;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      const int at = static_cast<int>(threadIdx.x) + i * kFromThreads;
      const int y = row + at / kPitch, in_row = at % kPitch, x_pixel = column + in_row / kFew;
      const bool is_inside = at < kCopied && y >= 0 && y < form.height && x_pixel >= 0 && x_pixel < form.width;
      to[i] = is_inside ? x[((image * form.height + y) * form.width + column) * kFew + in_row].bits : std::uint16_t{0};
    }
  }
  static __device__ __forceinline__ void write(const std::uint16_t (&from)[kEach], std::uint16_t* copy) {
#pragma unroll
    for (int i = 0; i < kEach; ++i)
      if (const int at = static_cast<int>(threadIdx.x) + i * kFromThreads; at < kCopied) copy[at] = from[i];
  }

  /// Offsets of elements 2 (t % 4) on of each half of each multiply-add, relative to a pixel's first, two at a
  /// time.
  __device__ __forceinline__ Gather() {
#pragma unroll
    for (int i = 0; i < kMultiplyAdds * 2 * kSingles; ++i) {
      const int number = i / kSingles * 8 + static_cast<int>(threadIdx.x) % 4 * 2 + i % kSingles;
      offsets_[i] = number < kDepth ? number / (3 * kFew) * kPitch + number % (3 * kFew) : -1;
    }
  }
  __device__ __forceinline__ void take(const std::uint16_t* pixel, int step, std::uint32_t (&to)[2]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int i = (step * 2 + half) * kSingles;
      if constexpr (kSingles == 1) {
        to[half] = offsets_[i] < 0 ? 0 : *reinterpret_cast<const std::uint32_t*>(pixel + offsets_[i]);
      } else {
        const std::uint32_t low = offsets_[i] < 0 ? 0 : pixel[offsets_[i]];
        const std::uint32_t high = offsets_[i + 1] < 0 ? 0 : pixel[offsets_[i + 1]];
        to[half] = low | high << 16;
      }
    }
  }

 private:
  static constexpr int kSingles = kFew % 2 == 0 ? 1 : 2;  // reads for two numbers: those of even channels lie together
  int offsets_[kMultiplyAdds * 2 * kSingles];
};

/// Two neighbouring numbers of a row of the weight, zeros beyond its end.
template <int kDepth, class T>
__device__ __forceinline__ std::uint32_t read_pair(const T* row, int number) {
  const std::uint32_t low = number < kDepth ? row[number].bits : 0;
  const std::uint32_t high = number + 1 < kDepth ? row[number + 1].bits : 0;
  return low | high << 16;
}

template <class T, int kFew>
__global__ void __launch_bounds__(kFromThreads, 2)
    from_few_kernel(FromFew form, const T* x, const T* weight, const void* bias, T* y) {
  if constexpr (HR_HAS_HOPPER) {
    using G = Gather<T, kFew>;
    constexpr int kParts = kChannels / 16;  // of the channels of y: a multiply-add computes 16
    __shared__ alignas(16) std::uint16_t copy[G::kCopied];
    __shared__ float biases[kChannels];
    __shared__ alignas(kGroupBytes) char pixels[kFromThreads / 32][kWarpPixels * kPixelBytes];
    cuda::wait_for_previous();
    const int warp = static_cast<int>(threadIdx.x) / 32, lane = static_cast<int>(threadIdx.x) % 32;
    const int first_output = static_cast<int>(blockIdx.y) * kChannels;
    std::uint32_t filters[kParts][G::kMultiplyAdds][4];
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      const int output = first_output + part * 16 + lane / 4;
      const T* const row = weight + output * G::kDepth;
#pragma unroll
      for (int i = 0; i < G::kMultiplyAdds; ++i)
#pragma unroll
        for (int k = 0; k < 4; ++k)
          filters[part][i][k] = read_pair<G::kDepth>(row + k % 2 * 8 * G::kDepth, i * 16 + k / 2 * 8 + lane % 4 * 2);
    }
    if (const int channel = static_cast<int>(threadIdx.x); channel < kChannels)  // seen after the first tile's barriers
      biases[channel] = cuda::optional_vector_at<T>(bias, form.bias_is_f32, first_output + channel);
    const G gather;
    const std::uint16_t* const first =
        copy + warp / kTileWarps * G::kPitch + (warp % kTileWarps * kWarpPixels + lane / 4) * kFew;
    // The destination of this lane's row of four matrices: a group of 8 channels each, of pixel lane % 8.
    const std::uint32_t own = hopper::shared_address(pixels[warp]);
    const std::uint32_t places[2] = {own + lane % 8 * kPixelBytes + ((lane / 8 ^ lane % 8) << 4),
                                     own + lane % 8 * kPixelBytes + (((4 + lane / 8) ^ lane % 8) << 4)};
    std::uint16_t next[G::kEach];
    int tile = static_cast<int>(blockIdx.x);
    if (tile < form.tiles) G::read(form, x, tile, next);
    for (; tile < form.tiles; tile += static_cast<int>(gridDim.x)) {
      __syncthreads();  // all have read the last tile
      G::write(next, copy);
      __syncthreads();
      if (tile + static_cast<int>(gridDim.x) < form.tiles) G::read(form, x, tile + static_cast<int>(gridDim.x), next);
#pragma unroll 1
      for (int group = 0; group < kWarpPixels / 8; ++group) {
        float sums[kParts][4];
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
          for (int i = 0; i < 4; ++i) sums[part][i] = biases[part * 16 + i / 2 * 8 + lane / 4];
#pragma unroll
        for (int i = 0; i < G::kMultiplyAdds; ++i) {
          std::uint32_t numbers[2];
          gather.take(first + group * 8 * kFew, i, numbers);
#pragma unroll
          for (int part = 0; part < kParts; ++part) hopper::multiply(T(), sums[part], filters[part][i], numbers);
        }
        activate(form.activation, sums);
#pragma unroll
        for (int half = 0; half < 2; ++half) {
          std::uint32_t pairs[4];
#pragma unroll
          for (int k = 0; k < 4; ++k) {
            const float(&two)[4] = sums[2 * half + k / 2];
            pairs[k] = hopper::pack(T(), two[k % 2 * 2], two[k % 2 * 2 + 1]);
          }
          hopper::store_transposed(places[half] + group * kGroupBytes, pairs);
        }
      }
      __syncwarp();
      const int column = tile % form.tiles_x * kTilePixels + warp % kTileWarps * kWarpPixels;
      const int row = tile / form.tiles_x % form.tiles_y * kTileRows + warp / kTileWarps;
      const std::int64_t image = tile / form.tiles_x / form.tiles_y;
      T* const to = y + ((image * form.height + row) * form.width + column) * form.outputs + first_output;
      if (row < form.height) {
#pragma unroll
        for (int i = 0; i < kWarpPixels / 4; ++i) {
          const int pixel = i * 4 + lane / 8, piece = lane % 8;
          if (column + pixel < form.width)
            reinterpret_cast<uint4*>(to)[pixel * (form.outputs / 8) + piece] = *reinterpret_cast<const uint4*>(
                pixels[warp] + pixel * kPixelBytes + ((piece ^ pixel % kSwizzleRows) << 4));
        }
      }
      __syncwarp();
    }
  }
}

// From 64 channels to at most 16.

constexpr int kToPixels = 128;                            // of a segment
constexpr int kToColumns = kToPixels + kSwizzleRows;      // of a multiply-add: with the neighbours of a segment
constexpr int kMostRows = kColumnTaps * kMostFewOutputs;  // of a multiply-add that count
using ToForm = Form<Pace::kSame, kToPixels>;
constexpr int kSumsBytes = kMostRows * kToColumns * static_cast<int>(sizeof(float));
constexpr int kToSharedBytes = kSlots * ToForm::kSlotBytes + kGroups * kSumsBytes + kGroupBytes;

struct ToFew {
  Work work;
  int width = 0, outputs = 0;
};

/// A thread's part of the weight, [o, row, column, 64]: row c * outputs + o of the operand has column c of filter
/// o.
template <class T>
__device__ __forceinline__ void read_filters(const T* weight, int outputs, uint4 (&filters)[kTall * kSteps]) {
  const int thread = static_cast<int>(threadIdx.x) % hopper::kWarpgroup;
#pragma unroll
  for (int i = 0; i < kTall * kSteps; ++i) {
    std::uint32_t parts[4];
#pragma unroll
    for (int part = 0; part < 4; ++part) {
      const int row = thread / 32 * 16 + thread % 32 / 4 + part % 2 * 8, column = row / outputs;
      const int tap = (row % outputs * kTall + i / kSteps) * kColumnTaps + column;
      const T* const pair = weight + tap * kChannels + i % kSteps * 16 + part / 2 * 8 + thread % 4 * 2;
      parts[part] = column < kColumnTaps ? *reinterpret_cast<const std::uint32_t*>(pair) : 0;
    }
    filters[i] = make_uint4(parts[0], parts[1], parts[2], parts[3]);
  }
}

/// A warpgroup that multiplies: every second segment.
template <class T>
__device__ __forceinline__ void make_few(const ToFew& form, const T* weight, const float* biases, T* y,
                                         std::uint32_t slots, float* shared_sums, RowBarriers& barriers, int group,
                                         int begin, int end) {
  const Work& work = form.work;
  const int thread = static_cast<int>(threadIdx.x) % hopper::kWarpgroup, lane = thread % 32;
  const int first_column =
      thread / 32 * 16 + lane / 4;  // row of the multiply-add that this thread has, and that 8 below
  uint4 filters[kTall * kSteps];
  read_filters(weight, form.outputs, filters);
  float sums[kToColumns / 2];
  int first_row = 0;
  for (int segment = begin; segment < end;) {
    const Run run = find_run(work, segment, end);
    for (int i = 0; i < run.length; ++i) {
      if ((segment - begin + i) % kGroups != group) continue;
      wait_for_rows(barriers, first_row + i, kTall);
      hopper::clear(sums);
      hopper::begin_wgmma();
#pragma unroll
      for (int tap = 0; tap < kTall; ++tap) {
        const int slot = (first_row + i + tap) % kSlots;
        const std::uint64_t pixels = hopper::describe_operand(slots + slot * ToForm::kSlotBytes, kGroupBytes);
#pragma unroll
        for (int k = 0; k < kSteps; ++k) hopper::multiply(T(), sums, filters[tap * kSteps + k], pixels + 32 * k / 16);
      }
      hopper::commit_wgmma();
      hopper::wait_for_wgmma<0>();
      if (lane == 0) release_rows<ToForm>(barriers, first_row + i, i == 0, i == run.length - 1);
      hopper::meet(1 + group, hopper::kWarpgroup);  // all have read the sums of the last segment
#pragma unroll
      for (int half = 0; half < 2; ++half)
        if (const int row = first_column + half * 8; row < kColumnTaps * form.outputs) {
#pragma unroll
          for (int k = 0; k < kToColumns / 8; ++k)
            *reinterpret_cast<float2*>(shared_sums + row * kToColumns + k * 8 + lane % 4 * 2) =
                make_float2(sums[4 * k + 2 * half], sums[4 * k + 2 * half + 1]);
        }
      hopper::meet(1 + group, hopper::kWarpgroup);
      const int column = run.strip * kToPixels + thread;
      if (column >= form.width) continue;
      const std::int64_t row = static_cast<std::int64_t>(run.image) * work.rows + run.row + i;
      T* const to = y + (row * form.width + column) * form.outputs;
      for (int output = 0; output < form.outputs; ++output) {
        float sum[1] = {biases[output]};
#pragma unroll
        for (int tap = 0; tap < kColumnTaps; ++tap)
          sum[0] += shared_sums[(tap * form.outputs + output) * kToColumns + thread + tap];
        activate(work.activation, sum);
        to[output] = cuda::from_float<T>(sum[0]);
      }
    }
    segment += run.length;
    first_row += run.length - 1 + kTall;
  }
}

template <class T>
__global__ void __launch_bounds__(kThreads, 1)
    to_few_kernel(const ToFew form, const __grid_constant__ TensorMap x, const T* weight, const void* bias, T* y) {
  if constexpr (HR_HAS_HOPPER) {
    extern __shared__ char shared[];
    __shared__ RowBarriers barriers;
    __shared__ float biases[kMostFewOutputs];
    char* const slots = shared + (-hopper::shared_address(shared) & (kGroupBytes - 1));
    auto* const sums = reinterpret_cast<float*>(slots + kSlots * ToForm::kSlotBytes);
    if (threadIdx.x == 0) {
      init_barriers<ToForm>(barriers);
      hopper::fence_barrier_init();
    }
    cuda::wait_for_previous();
    if (const int output = static_cast<int>(threadIdx.x); output < form.outputs)
      biases[output] = cuda::optional_vector_at<T>(bias, form.work.bias_is_f32, output);
    __syncthreads();
    const int begin = first_segment(form.work, blockIdx.x), end = first_segment(form.work, blockIdx.x + 1);
    const int group = static_cast<int>(threadIdx.x) / hopper::kWarpgroup - 1;
    if (group >= 0)
      make_few<T>(form, weight, biases, y, hopper::shared_address(slots), sums + group * kMostRows * kToColumns,
                  barriers, group, begin, end);
    else if (threadIdx.x == 0)
      copy_rows<ToForm, kToPixels>(form.work, x, hopper::shared_address(slots), barriers, begin, end);
  }
}

template <class T>
void launch_from_few(void* stream, const NarrowForm& form, int multiprocessors, const T* x, const T* weight,
                     const void* bias, T* y) {
  FromFew work{.height = form.height,
               .width = form.width,
               .tiles_y = divide_up(form.height, kTileRows),
               .tiles_x = divide_up(form.width, kTilePixels),
               .outputs = form.outputs,
               .activation = form.activation,
               .bias_is_f32 = form.bias == DType::kF32};
  work.tiles = form.images * work.tiles_y * work.tiles_x;
  cuda::with_one_of<1, 2, 3, 4>(form.channels, [&](auto channels) {
    static_assert(kMostFewChannels == 4);
    cuda::launch_early(from_few_kernel<T, channels()>,
                       {.blocks = dim3(static_cast<unsigned>(std::min(work.tiles, 2 * multiprocessors)),
                                       static_cast<unsigned>(form.outputs / kChannels)),
                        .threads = kFromThreads,
                        .stream = static_cast<cudaStream_t>(stream)},
                       work, x, weight, bias, y);
  });
}

template <class T>
void launch_to_few(void* stream, const NarrowForm& form, int multiprocessors, const T* x, const T* weight,
                   const void* bias, T* y) {
  const int strips = divide_up(form.width, kToPixels);
  const ToFew few{.work = {.rows = form.height,
                           .strips = strips,
                           .segments = form.height * strips * form.images,
                           .activation = form.activation,
                           .bias_is_f32 = form.bias == DType::kF32},
                  .width = form.width,
                  .outputs = form.outputs};
  const TensorMap map = map_pixels(form.dtype, x, form.images, form.height, form.width, 1, ToForm::kCopied);
  cuda::launch_large(to_few_kernel<T>,
                     cuda::large_shape(std::min(few.work.segments, multiprocessors), kThreads, kToSharedBytes, stream),
                     few, map, weight, bias, y);
}

}  // namespace

void launch_few(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands) {
  cuda::with_small_type_of(form.dtype, [&](auto type) {
    using T = decltype(type);
    const auto launch = form.channels == kChannels ? launch_to_few<T> : launch_from_few<T>;
    launch(stream, form, multiprocessors, static_cast<const T*>(operands.x), static_cast<const T*>(operands.weight),
           operands.bias, static_cast<T*>(operands.y));
  });
  cuda::check_launched("few channels' convolution kernel");
}

}  // namespace headroom::convolutions
