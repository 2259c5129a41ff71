// 3x3 convolutions from many channels to at most 16 on Hopper: a U-Net's last.
//
// Shapes     x[b, c, h, w], weight[o, c, 3, 3], c a multiple of 32, o at most 16 -> y[b, o, h, w]; bias[o]
// Dtypes     bf16 or f16 with f32 sums; the bias the same or f32
// Layout     channels-last images and weight
// Bytes      (x + y) * 2; a tile's halo comes from cache, so that x is read 1.9 times there, and the weight once a
//            block
// FLOPs      2 * 9 * c * o a pixel
//
// A block computes tiles of 4x8 pixels, so that an image of 64x64 is one for nearly each multiprocessor, and up to
// four channels of y. The rows of its GEMM are the 6x10 pixels that a tile reads, the columns all nine taps of the
// block's filters side by side. A block reads each element of x once, straight to the registers that mma takes it
// from, and multiplies it for all taps at once. The parts of a pixel of y are then added up through shared memory.
//
// Threads load 16 bytes of a pixel, and the GEMM takes channels in the order in which these arrive, in x and weight
// alike. Warps share a block's channels, 64 each at a time, and keep these filters in registers, where up to 384
// channels remain from tile to tile. Constant filters are loaded before the previous kernel has ended. The next
// tile's pixels are loaded while a tile is added up.

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

constexpr int kTileRows = 4, kTileColumns = 8;  // of y
constexpr int kColumnTaps = 3, kTaps = kTall * kColumnTaps;
constexpr int kHaloColumns = kTileColumns + kColumnTaps - 1;
constexpr int kHaloPixels = (kTileRows + kTall - 1) * kHaloColumns;  // of x
constexpr int kSides = 2;                                     // warps that have other pixels of the same channels
constexpr int kBlocks = 2;                                    // of 16 pixels of a warp
constexpr int kRows = kSides * kBlocks * 16;                  // of a GEMM: those beyond the pixels are zeros
constexpr int kPiece = 8, kPieces = 2;                        // channels that a thread takes at once, and how often
constexpr int kChunk = 4 * kPiece, kUnit = kPieces * kChunk;  // channels of a warp
constexpr int kMostTeams = 6;                                 // that share the channels: kSides warps each
constexpr int kTeamThreads = kSides * 32;
constexpr int kOutputs = 4;                               // of a block
constexpr int kMostStripes = (kTaps * kOutputs + 7) / 8;  // of a GEMM: 8 columns each
constexpr int kPitch = kMostStripes * 8;                  // of a pixel's sums in shared memory
constexpr int kTeamSums = kRows * kPitch;
static_assert(kHaloPixels <= kRows && kManyStep == kChunk);
static_assert(kPitch % 32 == 8);  // neighbouring pixels' pairs of sums, four of them, are in banks of their own

struct ManyToFew {
  int height = 0, width = 0;
  int tiles_y = 0, tiles_x = 0, tiles = 0;
  int channels = 0, outputs = 0;
  int teams = 0, steps = 0;  // how often each takes kUnit channels
  Activation activation = Activation::kNone;
  bool bias_is_f32 = false;
  bool has_constant_weight = false;
};

struct Tile {
  int image, row, column;  // its first pixel

  __device__ __forceinline__ Tile(const ManyToFew& form, int tile)
      : image(tile / form.tiles_x / form.tiles_y),
        row(tile / form.tiles_x % form.tiles_y * kTileRows),
        column(tile % form.tiles_x * kTileColumns) {}
};

/// Word i of four.
template <class Words>
__device__ __forceinline__ std::uint32_t word(const Words& of, int i) {
  return i == 0 ? of.x : i == 1 ? of.y : i == 2 ? of.z : of.w;
}

/// kPiece channels from `channel` on, zeros after the last.
template <class T>
__device__ __forceinline__ uint4 read_piece(const T* from, int offset, int channel, int channels) {
  if (offset < 0 || channel >= channels) return make_uint4(0, 0, 0, 0);
  return *reinterpret_cast<const uint4*>(from + offset + channel);
}

/// A lane's part of kUnit channels of its warp's pixels: row lane / 4 of each 8.
template <class T>
class Pixels {
 public:
  /// Takes those of a tile from now on.
  __device__ __forceinline__ void go_to(const ManyToFew& form, int tile, int side) {
    const Tile place(form, tile);
    const int first = compute_again(side * kBlocks * 16 + static_cast<int>(threadIdx.x) % 32 / 4);
#pragma unroll
    for (int i = 0; i < kBlocks * 2; ++i) {
      const int pixel = first + i * 8;
      const int y = place.row - 1 + pixel / kHaloColumns, x = place.column - 1 + pixel % kHaloColumns;
      const bool is_inside = pixel < kHaloPixels && y >= 0 && y < form.height && x >= 0 && x < form.width;
      offsets_[i] = is_inside ? ((place.image * form.height + y) * form.width + x) * form.channels : -1;
    }
  }
  __device__ __forceinline__ void read(const ManyToFew& form, const T* x, int unit) {
    const int channel = unit * kUnit + static_cast<int>(threadIdx.x) % 4 * kPiece;
#pragma unroll
    for (int i = 0; i < kBlocks * 2; ++i)
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        pieces_[i][piece] = read_piece(x, offsets_[i], channel + piece * kChunk, form.channels);
  }
  /// Operand of a block's multiply-add `step` of the two that a piece is for.
  __device__ __forceinline__ void take(int block, int piece, int step, std::uint32_t (&to)[4]) const {
#pragma unroll
    for (int i = 0; i < 4; ++i) to[i] = word(pieces_[block * 2 + i % 2][piece], 2 * step + i / 2);
  }

 private:
  int offsets_[kBlocks * 2];
  uint4 pieces_[kBlocks * 2][kPieces];
};

/// A lane's part of kUnit channels of the filters: column lane / 4 of each 8. Column tap * outputs + o has the tap
/// of filter o.
template <int kStripes>
class Filters {
 public:
  template <class T>
  __device__ __forceinline__ void read(const ManyToFew& form, const T* weight, const Divisor& outputs, int unit) {
    const int lane = compute_again(static_cast<int>(threadIdx.x)) % 32, channel = unit * kUnit + lane % 4 * kPiece;
#pragma unroll
    for (int stripe = 0; stripe < kStripes; ++stripe) {
      const int column = stripe * 8 + lane / 4, tap = outputs.quotient(column), output = column - tap * outputs.divisor;
      const int offset = tap < kTaps ? (output * kTaps + tap) * form.channels : -1;
#pragma unroll
      for (int piece = 0; piece < kPieces; ++piece)
        pieces_[stripe][piece] = read_piece(weight, offset, channel + piece * kChunk, form.channels);
    }
  }
  __device__ __forceinline__ void take(int stripe, int piece, int step, std::uint32_t (&to)[2]) const {
    to[0] = word(pieces_[stripe][piece], 2 * step);
    to[1] = word(pieces_[stripe][piece], 2 * step + 1);
  }

 private:
  uint4 pieces_[kStripes][kPieces];
};

template <class T, int kStripes>
__device__ __forceinline__ void multiply(const Pixels<T>& pixels, const Filters<kStripes>& filters,
                                         float (&sums)[kBlocks][kStripes][4]) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block)  // as pixels arrive
#pragma unroll
    for (int piece = 0; piece < kPieces; ++piece)
#pragma unroll
      for (int step = 0; step < 2; ++step) {
        std::uint32_t a[4];
        pixels.take(block, piece, step, a);
#pragma unroll
        for (int stripe = 0; stripe < kStripes; ++stripe) {
          std::uint32_t b[2];
          filters.take(stripe, piece, step, b);
          hopper::multiply(T(), sums[block][stripe], a, b);
        }
      }
}

/// The place of a pixel's sum of a column. Those of pixels four apart are exchanged, so that they are in banks of
/// their own too.
[[maybe_unused]] __device__ __forceinline__ int place_of(int pixel, int column) {
  return pixel * kPitch + (column ^ (pixel & 4));
}

template <int kStripes>
__device__ __forceinline__ void put_sums(const float (&sums)[kBlocks][kStripes][4], int side, float* team_sums) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
#pragma unroll
  for (int block = 0; block < kBlocks; ++block)
#pragma unroll
    for (int half = 0; half < 2; ++half)
#pragma unroll
      for (int stripe = 0; stripe < kStripes; ++stripe) {
        const int pixel = ((side * kBlocks + block) * 2 + half) * 8 + lane / 4;
        *reinterpret_cast<float2*>(team_sums + place_of(pixel, stripe * 8 + lane % 4 * 2)) =
            make_float2(sums[block][stripe][2 * half], sums[block][stripe][2 * half + 1]);
      }
}

/// Adds up each pixel's taps of all teams, and stores the results; y is that of the block's first output.
template <class T>
__device__ __forceinline__ void finish(const ManyToFew& form, int tile, const Divisor& outputs, const float* sums,
                                       const float* biases, T* y) {
  const Tile place(form, tile);
  for (int item = static_cast<int>(threadIdx.x); item < kTileRows * kTileColumns * outputs.divisor;
       item += static_cast<int>(blockDim.x)) {
    const int pixel = outputs.quotient(item), output = item - pixel * outputs.divisor;
    const int row = pixel / kTileColumns, column = pixel % kTileColumns;
    if (place.row + row >= form.height || place.column + column >= form.width) continue;
    int places[kTaps];
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap)
      places[tap] = place_of((row + tap / kColumnTaps) * kHaloColumns + column + tap % kColumnTaps,
                             tap * outputs.divisor + output);
    float rows[kTall] = {biases[output], 0, 0};
    for (int team = 0; team < form.teams; ++team)
#pragma unroll
      for (int tap = 0; tap < kTaps; ++tap) rows[tap / kColumnTaps] += sums[team * kTeamSums + places[tap]];
    float sum[1] = {rows[0] + rows[1] + rows[2]};
    activate(form.activation, sum);
    const int to = (place.image * form.height + place.row + row) * form.width + place.column + column;
    y[to * form.outputs + output] = cuda::from_float<T>(sum[0]);
  }
}

template <class T, int kStripes>
__global__ void __launch_bounds__(kMostTeams* kTeamThreads, 1)
    many_to_few_kernel(const ManyToFew form, const T* x, const T* weight, const void* bias, T* y) {
  if constexpr (HR_HAS_HOPPER) {
    extern __shared__ float2 shared[];
    __shared__ float biases[kOutputs];
    cuda::let_next_begin();
    if (!form.has_constant_weight) cuda::wait_for_previous();
    auto* const sums_of_teams = reinterpret_cast<float*>(shared);
    const int warp = static_cast<int>(threadIdx.x) / 32, side = warp % kSides, team = warp / kSides;
    const int first_output = static_cast<int>(blockIdx.y) * kOutputs;
    const Divisor outputs = Divisor::of(min(kOutputs, form.outputs - first_output));
    weight += first_output * kTaps * form.channels;
    Filters<kStripes> filters;
    filters.read(form, weight, outputs, team);
    cuda::wait_for_previous();
    Pixels<T> pixels;
    int tile = static_cast<int>(blockIdx.x);
    pixels.go_to(form, tile, side);
    pixels.read(form, x, team);
    if (const int output = static_cast<int>(threadIdx.x); output < outputs.divisor)
      biases[output] = cuda::optional_vector_at<T>(bias, form.bias_is_f32, first_output + output);
    while (tile < form.tiles) {
      float sums[kBlocks][kStripes][4] = {};
      multiply(pixels, filters, sums);
#pragma unroll 1
      for (int step = 1; step < form.steps; ++step) {
        filters.read(form, weight, outputs, team + step * form.teams);
        pixels.read(form, x, team + step * form.teams);
        multiply(pixels, filters, sums);
      }
      const int done = tile;
      tile += static_cast<int>(gridDim.x);
      if (tile < form.tiles) {
        if (form.steps > 1) filters.read(form, weight, outputs, team);
        pixels.go_to(form, tile, side);
        pixels.read(form, x, team);
      }
      put_sums(sums, side, sums_of_teams + team * kTeamSums);
      __syncthreads();
      finish(form, done, outputs, sums_of_teams, biases, y + first_output);
      __syncthreads();  // the sums have been read
    }
  }
}

template <class T>
void launch(void* stream, const NarrowForm& form, int multiprocessors, const T* x, const T* weight, const void* bias,
            T* y) {
  const int units = divide_up(form.channels, kUnit), steps = divide_up(units, kMostTeams);
  ManyToFew work{.height = form.height,
                 .width = form.width,
                 .tiles_y = divide_up(form.height, kTileRows),
                 .tiles_x = divide_up(form.width, kTileColumns),
                 .channels = form.channels,
                 .outputs = form.outputs,
                 .teams = divide_up(units, steps),
                 .steps = steps,
                 .activation = form.activation,
                 .bias_is_f32 = form.bias == DType::kF32,
                 .has_constant_weight = form.has_constant_weight};
  work.tiles = form.images * work.tiles_y * work.tiles_x;
  const int blocks = std::min(work.tiles, kMostTeams / work.teams * multiprocessors);
  cuda::LaunchShape shape = cuda::large_shape(blocks, work.teams * kTeamThreads,
                                              work.teams * kTeamSums * static_cast<int>(sizeof(float)), stream);
  shape.blocks.y = static_cast<unsigned>(divide_up(form.outputs, kOutputs));
  // Three filters have a stripe less than four.
  cuda::with_one_of<kMostStripes - 1, kMostStripes>(
      form.outputs < kOutputs ? kMostStripes - 1 : kMostStripes,
      [&](auto stripes) { cuda::launch_large(many_to_few_kernel<T, stripes()>, shape, work, x, weight, bias, y); });
}

}  // namespace

void launch_many_to_few(void* stream, const NarrowForm& form, int multiprocessors, const NarrowOperands& operands) {
  cuda::with_small_type_of(form.dtype, [&](auto type) {
    using T = decltype(type);
    launch<T>(stream, form, multiprocessors, static_cast<const T*>(operands.x), static_cast<const T*>(operands.weight),
              operands.bias, static_cast<T*>(operands.y));
  });
  cuda::check_launched("many channels to few convolution kernel");
}

}  // namespace headroom::convolutions
