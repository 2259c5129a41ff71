// Convolutions of 64 channels to 64 on Hopper: the tiny autoencoder's.
//
// Shapes     x[b, 64, h, w], weight[64, 64, 3, 3] or transposed [64, 64, 4, 4], bias[64], residual as y -> y[b, 64,
//            oh, ow]
// Dtypes     bf16 or f16 with f32 sums; the bias the same or f32
// Layout     channels-last images
// Bytes      (x + residual + y) * 2: the halo of a strip and the weight come from cache
// FLOPs      2 * 64 * 64 * 9 a pixel of y, of the transposed one 2 * 64 * 64 * 4
//
// The weight stays in registers and the image is streamed. One multiply-add is y^T[64 channels, pixels] =
// weight[64, 16] x^T[16, pixels]. Its first operand comes from registers, as wgmma allows: all of the weight takes
// 144 of a thread's registers, the sums of 128 pixels take 64. The second operand is the image as it is stored: 64
// channels of a pixel are a row of the 128-byte swizzle, and neighbouring pixels of a row of the image are its
// neighbouring rows. So a row of the image, copied once, serves all nine taps, each from another start address.
// Shared memory gives 64 bytes a clock of the 128 it has.
//
// A block computes segments (`pixels` of a row) one below the other. Its first warpgroup copies rows of x into a
// ring. The other two alternate over the segments: one multiplies while the other adds bias and residual and
// stores. A doubled image has four filters of 2x2 by the parity of row and column
// (passes/fusion/fuse_upsample.cpp); each of the two warpgroups computes the rows of one parity. Weights that no
// kernel of a run writes are loaded to registers before the previous kernel has ended (programmatic dependent
// launch).
//
// Tried: blocks of one warpgroup, two to a multiprocessor, which copy their rows themselves. They could begin while
// the kernel before ends. On small images they were no faster, and on those of 256x256 pixels and more 12 to 27%
// slower, since nothing makes their multiply-adds alternate.

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/conv/direct_image.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launch.cuh"
#include "kernels/core/cuda/wgmma.cuh"

namespace headroom::convolutions {

cuda::TensorMap narrow::map_pixels(DType dtype, const void* address, int images, int height, int width, int planes,
                                   int box) {
  const std::int64_t pixel = kChannels, row = pixel * width;
  return cuda::make_tensor_map({.dtype = dtype,
                                .rank = 5,
                                .extents = {kChannels, planes, width / planes, height, images},
                                .strides = {1, pixel, pixel * planes, row, row * height},
                                .box = {kChannels, 1, box, 1, 1}},
                               address);
}

namespace {

using namespace narrow;

constexpr int kPackThreads = 256;

struct Barriers {
  RowBarriers rows;
  hopper::Barrier residual[kGroups], turn[kGroups];
};

/// All multiply-adds of a pass over a segment whose first row of x was the `first_row`th to be copied.
template <class F, class T, int kPixels>
__device__ __forceinline__ void multiply_pass(float (&sums)[kPixels / 2], const uint4 (&weight)[F::kFragments],
                                              Barriers& barriers, std::uint32_t slots, int first_row, int group,
                                              int pass) {
  first_row += F::kSplits ? group : 0;
  wait_for_rows(barriers.rows, first_row, F::kTaps);
  hopper::clear(sums);
  hopper::begin_wgmma();
#pragma unroll
  for (int i = 0; i < F::kTaps; ++i) {
    const int slot = (first_row + i) % kSlots;
    const std::uint64_t operand = hopper::describe_operand(slots + slot * F::kSlotBytes, kGroupBytes);
#pragma unroll
    for (int j = 0; j < F::kTaps; ++j)
#pragma unroll
      for (int k = 0; k < kSteps; ++k)
        hopper::multiply(T(), sums, weight[((pass * F::kTaps + i) * F::kTaps + j) * kSteps + k],
                         operand + (F::column_offset(pass, j) + 32 * k) / 16);
  }
  hopper::commit_wgmma();
}

/// Stores a warpgroup's sums of 64 channels and kPixels pixels to a tile of pixels in shared memory, which holds
/// the residual.
template <class T, int kPixels>
__device__ __forceinline__ void finish_segment(const Work& work, float (&sums)[kPixels / 2], float low_bias,
                                               float high_bias, std::uint32_t tile) {
  // This lane's row of the four matrices of a store_transposed(): channels from 0 and from 8 of two groups of eight
  // pixels.
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) / 32 % kWarps;
  const int piece = 2 * warp + (lane / 8 & 1), pixel = lane % 8 + lane / 16 * 8;
  const std::uint32_t place = tile + pixel * kPixelBytes + ((piece ^ pixel % kSwizzleRows) << 4);
#pragma unroll
  for (int i = 0; i < kPixels / 2; ++i) sums[i] += (i & 2) == 0 ? low_bias : high_bias;
  if (work.has_residual) {
#pragma unroll
    for (int i = 0; i < kPixels / 16; ++i) {
      std::uint32_t pairs[4];
      hopper::load_transposed(place + i * 2 * kGroupBytes, pairs);
#pragma unroll
      for (int k = 0; k < 4; ++k) {
        sums[8 * i + 2 * k] += hopper::low_of(T(), pairs[k]);
        sums[8 * i + 2 * k + 1] += hopper::high_of(T(), pairs[k]);
      }
    }
  }
  activate(work.activation, sums);
#pragma unroll
  for (int i = 0; i < kPixels / 16; ++i) {
    std::uint32_t pairs[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) pairs[k] = hopper::pack(T(), sums[8 * i + 2 * k], sums[8 * i + 2 * k + 1]);
    hopper::store_transposed(place + i * 2 * kGroupBytes, pairs);
  }
}

/// A warpgroup that multiplies: every second segment or, for doubled images, the rows of one parity of every
/// segment. It waits for earlier kernels once it has read the weight.
template <class F, class T, int kPixels>
__device__ __forceinline__ void make_segments(const Work& work, const TensorMap& residual, const TensorMap& y,
                                              const uint4* packed, const void* bias, std::uint32_t slots,
                                              std::uint32_t tile, Barriers& barriers, int group, int begin, int end) {
  const int thread = static_cast<int>(threadIdx.x) % hopper::kWarpgroup, warp = thread / 32, lane = thread % 32;
  uint4 weight[F::kFragments];
#pragma unroll
  for (int i = 0; i < F::kFragments; ++i)
    weight[i] = packed[((F::kSplits ? group : 0) * F::kFragments + i) * hopper::kWarpgroup + thread];
  cuda::wait_for_previous();
  const int channel = warp * 16 + lane / 4;
  const float low_bias = cuda::optional_vector_at<T>(bias, work.bias_is_f32, channel);
  const float high_bias = cuda::optional_vector_at<T>(bias, work.bias_is_f32, channel + 8);
  const bool is_copier = thread == 0;
  float sums[kPixels / 2];
  int passes = 0, first_row = 0;  // passes of this group so far; copied row that the run begins with
  for (int segment = begin; segment < end;) {
    const Run run = find_run(work, segment, end);
    for (int i = 0; i < run.length; ++i) {
      if (!F::kSplits && (segment - begin + i) % kGroups != group) continue;
      const int row = first_row + i * F::kRowStep, column = run.strip * kPixels, image = run.image;
      for (int pass = 0; pass < F::kPasses; ++pass, ++passes) {
        if (is_copier) {
          hopper::wait_for_stores_to_read();
          if (work.has_residual) {
            hopper::arrive_expecting(barriers.residual[group], F::kTileBytes);
            hopper::copy_box(tile, residual, barriers.residual[group], 0, 0, column, run.row + i, image);
          }
        }
        hopper::wait(barriers.turn[group], (passes & 1) ^ (group == 0 ? 1 : 0));
        if (F::kPasses == 1 || pass == 0)
          multiply_pass<F, T, kPixels>(sums, weight, barriers, slots, row, group, 0);
        else
          multiply_pass<F, T, kPixels>(sums, weight, barriers, slots, row, group, F::kPasses - 1);
        if (lane == 0) hopper::arrive(barriers.turn[1 - group]);
        hopper::wait_for_wgmma<0>();
        if (lane == 0 && pass == F::kPasses - 1) release_rows<F>(barriers.rows, row, i == 0, i == run.length - 1);
        if (work.has_residual)
          hopper::wait(barriers.residual[group], passes & 1);
        else
          hopper::meet(1 + group, hopper::kWarpgroup);  // the copier has waited for the last tile to be read
        finish_segment<T, kPixels>(work, sums, low_bias, high_bias, tile);
        hopper::fence_for_copies();
        hopper::meet(1 + group, hopper::kWarpgroup);
        if (is_copier) {
          const int made_row = F::kSplits ? 2 * (run.row + i) + group : run.row + i;
          hopper::store_box(y, tile, 0, pass, column, made_row, image);
          hopper::commit_stores();
        }
      }
    }
    segment += run.length;
    first_row += (run.length - 1) * F::kRowStep + kTall;
  }
  if (is_copier) hopper::wait_for_stores_to_read();
}

template <class F, class T, int kPixels>
__global__ void __launch_bounds__(kThreads, 1)
    narrow_kernel(const Work work, const __grid_constant__ TensorMap x, const __grid_constant__ TensorMap residual,
                  const __grid_constant__ TensorMap y, const uint4* packed, const void* bias) {
  if constexpr (HR_HAS_HOPPER) {
    extern __shared__ char shared[];
    __shared__ Barriers barriers;
    const std::uint32_t slots = (hopper::shared_address(shared) + kGroupBytes - 1) / kGroupBytes * kGroupBytes;
    const std::uint32_t tiles = slots + kSlots * F::kSlotBytes;
    if (threadIdx.x == 0) {
      init_barriers<F>(barriers.rows);
      for (int i = 0; i < kGroups; ++i) {
        hopper::init_barrier(barriers.residual[i], 1);
        hopper::init_barrier(barriers.turn[i], kWarps);
      }
      hopper::fence_barrier_init();
    }
    __syncthreads();
    cuda::let_next_begin();
    const int begin = first_segment(work, blockIdx.x), end = first_segment(work, blockIdx.x + 1);
    const int group = static_cast<int>(threadIdx.x) / hopper::kWarpgroup - 1;
    // To wait for the previous kernel only when registers have changed hands is half a microsecond faster.
    if (group < 0) {
      hopper::give_registers<kCopyRegisters>();
      cuda::wait_for_previous();
      if (threadIdx.x == 0) copy_rows<F, kPixels>(work, x, slots, barriers.rows, begin, end);
    } else {
      hopper::take_registers<kMultiplyRegisters>();
      if (!work.has_constant_weight) cuda::wait_for_previous();
      make_segments<F, T, kPixels>(work, residual, y, packed, bias, slots, tiles + group * F::kTileBytes, barriers,
                                   group, begin, end);
    }
  }
}

/// A thread makes two elements of a fragment.
__global__ void __launch_bounds__(kPackThreads)
    pack_kernel(bool is_transposed, int fragments, const std::uint16_t* weight, std::uint32_t* packed) {
  cuda::wait_for_previous();
  const int at = static_cast<int>(blockIdx.x * kPackThreads + threadIdx.x);
  const int part = at % 4, thread = at / 4 % hopper::kWarpgroup, fragment = at / (4 * hopper::kWarpgroup);
  if (fragment >= fragments) return;
  const int made = thread / 32 * 16 + thread % 32 / 4 + part % 2 * 8;
  const int read = fragment % kSteps * 16 + thread % 4 * 2 + part / 2 * 8;
  const int tap = fragment / kSteps;
  int from, next;  // elements of the weight
  if (is_transposed) {
    // By group (parity of rows), pass (parity of columns), and the two taps of each axis that such a pixel has.
    const int y = 3 - (tap >> 3) - 2 * (tap >> 1 & 1), x = 3 - (tap >> 2 & 1) - 2 * (tap & 1);
    from = ((read * kChannels + made) * 4 + y) * 4 + x;
    next = from + kChannels * 16;
  } else {
    from = (made * kChannels + read) * 9 + tap;
    next = from + 9;
  }
  packed[at] = weight[from] | static_cast<std::uint32_t>(weight[next]) << 16;
}

int fragments_of(Pace pace) {
  return pace == Pace::kDoubled ? kGroups * Form<Pace::kDoubled, 32>::kFragments : Form<Pace::kSame, 32>::kFragments;
}

template <Pace kPace, class T, int kPixels>
void launch_form(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands) {
  using F = Form<kPace, kPixels>;
  constexpr int kTimes = F::kSplits ? 2 : 1;
  const int rows = divide_up(form.height, F::kRowStep), columns = form.width / F::kPlanes;
  const int strips = divide_up(columns, kPixels);
  const Work work{.rows = rows,
                  .strips = strips,
                  .segments = rows * strips * form.images,
                  .activation = form.activation,
                  .bias_is_f32 = form.bias == DType::kF32,
                  .has_residual = operands.residual != nullptr,
                  .has_constant_weight = form.has_constant_weight};
  const auto map_result = [&](const void* address) {
    return map_pixels(form.dtype, address, form.images, kTimes * rows, kTimes * columns, kTimes, kPixels);
  };
  const TensorMap x = map_pixels(form.dtype, operands.x, form.images, form.height, form.width, F::kPlanes, F::kCopied);
  const TensorMap y = map_result(operands.y), residual = work.has_residual ? map_result(operands.residual) : y;
  cuda::launch_large(narrow_kernel<F, T, kPixels>,
                     cuda::large_shape(std::min(work.segments, multiprocessors), kThreads, F::kSharedBytes, stream),
                     work, x, residual, y, static_cast<const uint4*>(operands.weight), operands.bias);
}

}  // namespace

std::size_t packed_narrow_bytes(Pace pace) {
  return static_cast<std::size_t>(fragments_of(pace)) * hopper::kWarpgroup * sizeof(uint4);
}

void pack_narrow(void* stream, Pace pace, const void* weight, void* packed) {
  const int fragments = fragments_of(pace);
  cuda::launch_early(pack_kernel,
                     {cuda::blocks_along_x(divide_up(fragments * 4 * hopper::kWarpgroup, kPackThreads)), kPackThreads,
                      static_cast<cudaStream_t>(stream)},
                     pace == Pace::kDoubled, fragments, static_cast<const std::uint16_t*>(weight),
                     static_cast<std::uint32_t*>(packed));
  cuda::check_launched("narrow convolution's packing kernel");
}

std::vector<int> narrow_widths(const NarrowForm& form, int multiprocessors) {
  constexpr int kSegmentOverhead = 18;  // pixels in whose time the rest of a segment is done, as measured
  const int step = form.pace == Pace::kHalved ? 2 : 1;
  std::vector<int> widths = {128, 64, 32};
  if (step == 2) widths.erase(widths.begin());  // rows of twice as many pixels do not fit
  std::ranges::stable_sort(widths, {}, [&](int pixels) {
    const int segments = divide_up(form.height, step) * divide_up(form.width / step, pixels) * form.images;
    return divide_up(segments, multiprocessors) * (pixels + kSegmentOverhead);  // of the block with most
  });
  return widths;
}

void launch_narrow(void* stream, const NarrowForm& form, int pixels, int multiprocessors,
                   const NarrowOperands& operands) {
  cuda::with_one_of<Pace::kSame, Pace::kHalved, Pace::kDoubled>(form.pace, [&](auto pace) {
    cuda::with_small_type_of(form.dtype, [&](auto type) {
      using T = decltype(type);  // which in the next function g++ 12 takes for a reference
      cuda::with_one_of<128, 64, 32>(pixels, [&](auto width) {
        if constexpr (pace() != Pace::kHalved || width() < 128)
          launch_form<pace(), T, width()>(stream, form, multiprocessors, operands);
      });
    });
  });
  cuda::check_launched("narrow convolution kernel");
}

}  // namespace headroom::convolutions
