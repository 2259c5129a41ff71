#pragma once

#include <cstdint>

#include "kernels/conv/direct_form.hpp"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/optional_vector.cuh"

/// How the kernels in conv_64to64.cu and conv_rgb.cu walk an image of 64 channels, and code that the other direct
/// kernels share.
namespace headroom::convolutions::narrow {

namespace hopper = cuda::hopper;
using cuda::Bf16;
using cuda::F16;
using cuda::TensorMap;

inline constexpr int kChannels = kNarrowChannels;
inline constexpr int kPixelBytes = 2 * kChannels;  // a row of the swizzle
inline constexpr int kSwizzleRows = 8;
inline constexpr int kGroupBytes = kSwizzleRows * kPixelBytes;
inline constexpr int kSteps = kChannels / 16;  // multiply-adds of a tap
inline constexpr int kTall = 3;                // rows of x that a segment reads
inline constexpr int kSlots = 8;               // rows of x in shared memory
inline constexpr int kGroups = 2;              // warpgroups that multiply
inline constexpr int kThreads = (1 + kGroups) * hopper::kWarpgroup;
inline constexpr int kWarps = 4;
inline constexpr int kCopyRegisters = 24, kMultiplyRegisters = 240;  // of a thread

/// The rows and taps that a pace leads to.
template <Pace kPace, int kPixels>
struct Form {
  static constexpr int kRowStep = kPace == Pace::kHalved ? 2 : 1;
  static constexpr int kPlanes = kPace == Pace::kHalved ? 2 : 1;              // even and odd pixels apart
  static constexpr int kCopied = kPixels + (kPace == Pace::kHalved ? 1 : 2);  // pixels of a plane
  static constexpr int kPlaneBytes = (kCopied + kSwizzleRows - 1) / kSwizzleRows * kGroupBytes;
  static constexpr int kSlotBytes = kPlanes * kPlaneBytes;
  static constexpr int kTileBytes = kPixels * kPixelBytes;
  static constexpr int kPasses = kPace == Pace::kDoubled ? 2 : 1;  // filters of a warpgroup: one a parity of columns
  static constexpr int kTaps = kPace == Pace::kDoubled ? 2 : 3;    // along each axis
  static constexpr int kFragments = kPasses * kTaps * kTaps * kSteps;
  static constexpr bool kSplits =
      kPace == Pace::kDoubled;  // a segment between the groups: each has the rows of one parity
  /// How often a row is read before its place is free.
  static constexpr int kReads = kPace == Pace::kHalved ? 2 : kPace == Pace::kDoubled ? kTall * kGroups : kTall;
  static constexpr int kSharedBytes = kSlots * kSlotBytes + kGroups * kTileBytes + kGroupBytes;

  /// How often a segment counts as a reader of row `row` of its three, so that each row has kReads readers, the
  /// first and last of a run too.
  static __device__ __forceinline__ int reads(int row, bool is_first, bool is_last) {
    if constexpr (kPace == Pace::kHalved) return row == 1 ? 2 : 1 + (row == 0 ? is_first : is_last);
    return 1 + (is_first ? kTall - 1 - row : 0) + (is_last ? row : 0);
  }
  /// The first column that the tap (of the pass) reads in a row.
  static __device__ __forceinline__ constexpr int column_offset(int pass, int tap) {
    if constexpr (kPace == Pace::kHalved) return (tap == 1 ? 0 : kPlaneBytes) + (tap == 2 ? kPixelBytes : 0);
    return (pass + tap) * kPixelBytes;
  }
};

/// Segments go down a strip of the image, then to the next strip, then to the next image.
struct Work {
  int rows = 0;  ///< of segments in an image
  int strips = 0;
  int segments = 0;
  Activation activation = Activation::kNone;
  bool bias_is_f32 = false;
  bool has_residual = false;
  bool has_constant_weight = false;
};

/// Segments of a block one below the other.
struct Run {
  int image, strip, row, length;
};

__device__ __forceinline__ Run find_run(const Work& work, int segment, int end) {
  const int row = segment % work.rows, strips = segment / work.rows;
  return {strips / work.strips, strips % work.strips, row, min(work.rows - row, end - segment)};
}

/// The barriers of the ring that rows of x are copied to.
struct RowBarriers {
  hopper::Barrier full[kSlots], empty[kSlots];
};

template <class F>
__device__ __forceinline__ void init_barriers(RowBarriers& barriers) {
  for (int i = 0; i < kSlots; ++i) {
    hopper::init_barrier(barriers.full[i], 1);
    hopper::init_barrier(barriers.empty[i], kWarps * F::kReads);
  }
}

/// The warpgroup that copies: one thread of it, all rows of x that the block reads.
template <class F, int kPixels>
__device__ __forceinline__ void copy_rows(const Work& work, const TensorMap& x, std::uint32_t slots,
                                          RowBarriers& barriers, int begin, int end) {
  int row = 0;  // copied so far
  for (int segment = begin; segment < end;) {
    const Run run = find_run(work, segment, end);
    segment += run.length;
    const int first = run.row * F::kRowStep - 1, count = (run.length - 1) * F::kRowStep + kTall;
    for (int i = 0; i < count; ++i, ++row) {
      const int slot = row % kSlots;
      hopper::Barrier& full = barriers.full[slot];
      hopper::wait(barriers.empty[slot], (row / kSlots & 1) ^ 1);
      hopper::arrive_expecting(full, F::kPlanes * F::kCopied * kPixelBytes);
      const std::uint32_t to = slots + slot * F::kSlotBytes;
      const int column = run.strip * kPixels;
      if constexpr (F::kPlanes == 2) {
        hopper::copy_box(to, x, full, 0, 0, column, first + i, run.image);
        hopper::copy_box(to + F::kPlaneBytes, x, full, 0, 1, column - 1, first + i, run.image);
      } else {
        hopper::copy_box(to, x, full, 0, 0, column - 1, first + i, run.image);
      }
    }
  }
}

/// Waits for `rows` rows of x, at most three, from the `first_row`th copied on.
__device__ __forceinline__ void wait_for_rows(RowBarriers& barriers, int first_row, int rows) {
#pragma unroll
  for (int i = 0; i < kTall; ++i)
    if (i < rows) hopper::wait(barriers.full[(first_row + i) % kSlots], (first_row + i) / kSlots & 1);
}

/// By one lane of each warp that has read them.
template <class F>
__device__ __forceinline__ void release_rows(RowBarriers& barriers, int first_row, bool is_first, bool is_last) {
#pragma unroll
  for (int i = 0; i < kTall; ++i)
    hopper::arrive(barriers.empty[(first_row + i) % kSlots], F::reads(i, is_first, is_last));
}

/// Blocks have as many segments each, or one more.
__device__ __forceinline__ int first_segment(const Work& work, unsigned block) {
  return static_cast<int>(static_cast<std::int64_t>(work.segments) * block / gridDim.x);
}

/// Makes the compiler compute dependent values again in every iteration of a loop, instead of keeping them in
/// registers.
__device__ __forceinline__ int compute_again(int value) {
  asm volatile("" : "+r"(value));
  return value;
}

/// Divides by a number that kernels of few channels are not compiled for.
struct Divisor {
  static constexpr int kLimit = 1 << 16;  ///< of a number times the divisor: of greater ones the quotient may be wrong

  int divisor = 1, reciprocal = kLimit;

  static __host__ __device__ Divisor of(int divisor) { return {divisor, (kLimit + divisor - 1) / divisor}; }
  __device__ __forceinline__ int quotient(int number) const { return number * reciprocal / kLimit; }
};

__device__ __forceinline__ void apply(Activation activation, float& value) {
  value = activation == Activation::kRelu ? cuda::formula<Op::kRelu>(value) : cuda::formula<Op::kSilu>(value);
}
template <class Values, int kCount>
__device__ __forceinline__ void apply(Activation activation, Values (&values)[kCount]) {
#pragma unroll
  for (auto& value : values) apply(activation, value);
}
/// kNone, kRelu or kSilu of every sum.
template <class Sums>
__device__ __forceinline__ void activate(Activation activation, Sums& sums) {
  if (activation == Activation::kRelu) apply(Activation::kRelu, sums);
  if (activation == Activation::kSilu) apply(Activation::kSilu, sums);
}

/// Channels-last images of 64 channels as boxes of `box` pixels of a row, every second one if `planes` is 2.
[[nodiscard]] TensorMap map_pixels(DType dtype, const void* address, int images, int height, int width, int planes,
                                   int box);

}  // namespace headroom::convolutions::narrow
