// conv2d on Hopper's tensor cores (sm_90a): y = activation(sums of weight * x + sums of shortcut_weight * shortcut +
// bias + residual), as an implicit GEMM.
//
// Shapes     x[b, h, w, c], weight[o, kh, kw, c], bias[o] or none, residual as y or none -> y[b, oh, ow, o]: channels
//            last, without gaps; c and o multiples of 8; any filter, padding, dilation and stride up to 8, no groups.
//            Transposed: weight[2, 2, o, kh/2, kw/2, c], the phases first. shortcut[b, oh, ow, d] with
//            shortcut_weight[o, d], or neither.
// Dtypes     bf16 or f16 with f32 sums; the bias the same or f32.
// Bytes      (x + weight + shortcut + shortcut_weight + bias + residual + y) * 2, weights once for each tile of pixels
//            from the second-level cache
// FLOPs      2 * b * oh * ow * o * (c * kh * kw + d)
//
// A thread block computes a tile: 1, 2 or 4 times 8x8 pixels (64 are the rows of a wgmma m64nNk16) by 64 to 192
// output channels. One thread copies weights to shared memory (TMA), one copies x, one or two warpgroups multiply.
// One copy of 64 channels of x, with the pixels around the tile, serves all taps of a filter of stride 1: each tap
// reads the same copy from another pixel on. This works because the 128-byte swizzle depends on the address alone.
// Eight pixels of a line are one of wgmma's groups of rows, so lines may be any distance apart. Copies fill in
// zeros where the image ends. With other strides each tap has its copy.
//
// A shortcut is more channels of the same sums; each pixel reads only its own.
//
// A transposed convolution that doubles an image is four convolutions, one for each parity of row and column, of
// half the taps along each axis. Their results are interleaved: tiles of all four run in one launch.
//
// At 8x8 and 16x16 pixels there are few tiles, and the weight must come from memory through all multiprocessors. So
// a cluster of blocks splits the terms of each sum (split-K). Each sends the others their rows of its sums (copies
// between blocks' shared memory), and adds up its own in the order of the blocks: the same bits in every run. The
// kernel may begin before the previous one has ended, and copies weights meanwhile, if they are constant.
//
// Tried      Reading others' sums with ld.shared::cluster, 16 bytes a lane: 4 to 6 bytes a clock and multiprocessor,
//            also of a block's own (17,000 clocks a tile of 128x160); copies of whole shares: 15 to 20. A copy of x
//            for each tap: up to 1.14 times the time (1280 channels at 32x32). A fence of the initialized barriers by
//            each of 16 threads rather than one: 3,300 clocks more.

#include <cuda_runtime_api.h>

#include "backends/cuda/early_launch.cuh"
#include "kernels/conv/hopper_form.hpp"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/formula.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"
#include "kernels/core/cuda/optional_vector.cuh"
#include "kernels/core/cuda/wgmma.cuh"

namespace headroom::convolutions {
namespace {

namespace hw = cuda::hopper;
using cuda::Bf16;
using cuda::Constant;

template <int kBlocks>
constexpr int kConsumers = kBlocks == 1 ? 1 : 2;  // warpgroups
template <int kBlocks>
constexpr int kThreads = (kConsumers<kBlocks> + 1) * hw::kWarpgroup;
// Two small blocks of threads share a multiprocessor; large ones need registers that a producer gives away.
template <int kBlocks>
constexpr int kResident = kBlocks == 1 ? 2 : 1;

#if HR_HAS_HOPPER

struct Barriers {
  hw::Barrier full_x[kMostStages], empty_x[kMostStages];
  hw::Barrier full_weight[kMostStages], empty_weight[kMostStages];
  hw::Barrier received;  // all that others of the cluster have summed up for this block
};

/// The position of a thread block's work.
struct Place {
  int b, y, x;  // its first pixel of a phase, in blocks of 8x8 but for b
  int phase_y, phase_x;
  int column;      // its first output channel
  int rank;        // in the cluster
  int begin, end;  // of the units of its sums, those over the shortcut after those over x
};

/// The first unit of a block of a cluster. Each has about as many taps to multiply.
__device__ __forceinline__ int first_unit(const HopperForm& form, int rank) {
  const int taps = form.units * form.taps_at_once, first = (taps + form.shortcut_units) * rank / form.split;
  return first < taps ? first / form.taps_at_once : form.units + first - taps;
}

/// Neighbours share weights.
__device__ __forceinline__ Place find_place(const HopperForm& form, int columns) {
  Place place;
  int tile = static_cast<int>(blockIdx.x) / form.split;
  place.rank = static_cast<int>(blockIdx.x) - tile * form.split;
  const int rows = tile / form.tiles_x, images = rows / form.tiles_y, columns_of_phase = images / form.tiles_b;
  const int phase = columns_of_phase / form.column_tiles;
  place.x = (tile - rows * form.tiles_x) << form.log_blocks_x;
  place.y = (rows - images * form.tiles_y) << form.log_blocks_y;
  place.b = (images - columns_of_phase * form.tiles_b) << form.log_blocks_b;
  place.column = (columns_of_phase - phase * form.column_tiles) * columns;
  place.phase_y = phase / form.phases;
  place.phase_x = phase - place.phase_y * form.phases;
  place.begin = first_unit(form, place.rank);
  place.end = first_unit(form, place.rank + 1);
  return place;
}

/// A unit of the sums over x: `taps_at_once` neighbouring taps of the filter on 64 channels; all taps of these
/// channels precede the next channels.
struct Unit {
  int taps_x, taps_y, at_once;  // in registers: constant memory is read again after every barrier
  int channel_block, tap_y, tap_x;

  __device__ __forceinline__ Unit(const HopperForm& form, int index)
      : taps_x(form.taps_x), taps_y(form.taps_y), at_once(form.taps_at_once) {
    const int tap = index * at_once, row = tap / taps_x;
    tap_x = tap - row * taps_x;
    channel_block = row / taps_y;
    tap_y = row - channel_block * taps_y;
  }
  __device__ __forceinline__ void advance() {
    tap_x += at_once;
    if (tap_x != taps_x) return;
    tap_x = 0;
    if (++tap_y != taps_y) return;
    tap_y = 0;
    ++channel_block;
  }
  [[nodiscard]] __device__ __forceinline__ bool is_first() const { return tap_x == 0 && tap_y == 0; }
  [[nodiscard]] __device__ __forceinline__ bool is_last() const {
    return tap_x + at_once == taps_x && tap_y + 1 == taps_y;
  }
};

/// One thread: keeps the ring of weights filled. If they are the same in all runs, it starts before the previous
/// kernel ends.
template <int kColumns>
__device__ __forceinline__ void copy_weights(const HopperForm& form, const Place& place, const HopperMaps& maps,
                                             std::byte* ring, Barriers& barriers) {
  constexpr int kTapBytes = kColumns * kRowBytes;
  if (!form.has_constant_weight) cuda::wait_for_previous();
  const int stages = form.weight_stages;
  const int row = (place.phase_y * form.phases + place.phase_x) * form.outputs + place.column;
  const int units = form.units;
  hw::RingPlace at;
  Unit unit(form, place.begin);
  int index = place.begin;
  for (; index < min(place.end, units); ++index, unit.advance()) {
    hw::Barrier& full = barriers.full_weight[at.stage];
    std::byte* const to = ring + at.stage * unit.at_once * kTapBytes;
    const int channel = unit.channel_block * kDepth, tap = unit.tap_y * unit.taps_x + unit.tap_x;
    hw::wait(barriers.empty_weight[at.stage], at.phase ^ 1);
    hw::arrive_expecting(full, unit.at_once * kTapBytes);
    for (int i = 0; i < unit.at_once; ++i) hw::copy_box(to + i * kTapBytes, maps.weight, full, channel, tap + i, row);
    at.advance(stages);
  }
  for (; index < place.end; ++index) {
    hw::Barrier& full = barriers.full_weight[at.stage];
    hw::wait(barriers.empty_weight[at.stage], at.phase ^ 1);
    hw::arrive_expecting(full, kTapBytes);
    hw::copy_box(ring + at.stage * unit.at_once * kTapBytes, maps.shortcut_weight, full, (index - units) * kDepth, 0,
                 row);
    at.advance(stages);
  }
}

/// Another: that of x and of the shortcut.
__device__ __forceinline__ void copy_x(const HopperForm& form, const Place& place, const HopperMaps& maps,
                                       std::byte* ring, Barriers& barriers) {
  cuda::wait_for_previous();
  const int first_x = place.x * kSide * form.step_x - form.left[place.phase_x];
  const int first_y = place.y * kSide * form.step_y - form.top[place.phase_y];
  const int dilation_x = form.dilation_x, dilation_y = form.dilation_y;
  const int bytes = form.x_bytes, stage_bytes = form.x_stage_bytes, stages = form.x_stages;
  const bool is_whole = form.is_whole;
  const int units = form.units, shortcut_bytes = form.shortcut_bytes;
  hw::RingPlace at;
  Unit unit(form, place.begin);
  int index = place.begin;
  for (; index < min(place.end, units); ++index, unit.advance()) {
    if (is_whole && index != place.begin && !unit.is_first()) continue;
    hw::Barrier& full = barriers.full_x[at.stage];
    hw::wait(barriers.empty_x[at.stage], at.phase ^ 1);
    hw::arrive_expecting(full, bytes);
    hw::copy_box(ring + at.stage * stage_bytes, maps.x, full, unit.channel_block * kDepth,
                 first_x + (is_whole ? 0 : unit.tap_x * dilation_x), first_y + (is_whole ? 0 : unit.tap_y * dilation_y),
                 place.b);
    at.advance(stages);
  }
  for (; index < place.end; ++index) {
    hw::Barrier& full = barriers.full_x[at.stage];
    hw::wait(barriers.empty_x[at.stage], at.phase ^ 1);
    hw::arrive_expecting(full, shortcut_bytes);
    hw::copy_box(ring + at.stage * stage_bytes, maps.shortcut, full, (index - units) * kDepth, place.x * kSide,
                 place.y * kSide, place.b);
    at.advance(stages);
  }
}

/// Start addresses of a warpgroup's blocks of pixels in a copy of x. Its rows have `group_bytes` for eight pixels
/// and their neighbours.
template <int kMine>
__device__ __forceinline__ void find_blocks(const HopperForm& form, int first_block, int rows, int group_bytes,
                                            std::uint32_t (&blocks)[kMine]) {
#pragma unroll
  for (int i = 0; i < kMine; ++i) {
    const int block = first_block + i, x = block & ((1 << form.log_blocks_x) - 1), rest = block >> form.log_blocks_x;
    const int row = (rest >> form.log_blocks_y) * rows + (rest & ((1 << form.log_blocks_y) - 1)) * kSide;
    blocks[i] = row * group_bytes + x * kSide * kRowBytes;
  }
}

/// Adds one tap's contribution on 64 channels.
template <class T, int kMine, int kColumns>
__device__ __forceinline__ void multiply_tap(std::uint32_t x, const std::uint32_t (&blocks)[kMine], int group_bytes,
                                             std::uint32_t weight, float (&sums)[kMine][kColumns / 2]) {
#pragma unroll
  for (int k = 0; k < kRowBytes; k += 32)
#pragma unroll
    for (int i = 0; i < kMine; ++i)
      hw::multiply(T(), sums[i], hw::describe_operand(x + blocks[i] + k, group_bytes),
                   hw::describe_operand(weight + k, kSide * kRowBytes));
}

/// A warpgroup: the sums of its blocks of pixels.
template <class T, int kMine, int kColumns, int kTaps>
__device__ __forceinline__ void consume(const HopperForm& form, const Place& place, int first_block,
                                        std::uint32_t x_ring, std::uint32_t weight_ring, Barriers& barriers,
                                        float (&sums)[kMine][kColumns / 2]) {
  constexpr int kTapBytes = kColumns * kRowBytes;
  const bool signals = threadIdx.x % 32 == 0;
  const bool is_whole = form.is_whole;
  const int x_stage_bytes = form.x_stage_bytes, x_stages = form.x_stages, weight_stages = form.weight_stages;
  const int units = form.units;
  int group_bytes = form.pitch * kRowBytes;
  const int tap_x_bytes = form.dilation_x * kRowBytes, tap_y_bytes = form.dilation_y * group_bytes;
  std::uint32_t blocks[kMine];
  find_blocks(form, first_block, form.rows, group_bytes, blocks);
  hw::RingPlace at_x, at_weight;
  int used_weight = -1, used_x = -1;  // stages that multiply-adds in flight still read, to be given back later
  const auto commit = [&](bool ends_x) {
    hw::commit_wgmma();
    hw::wait_for_wgmma<1>();
    if (signals && used_weight >= 0) hw::arrive(barriers.empty_weight[used_weight]);
    if (signals && used_x >= 0) hw::arrive(barriers.empty_x[used_x]);
    used_weight = at_weight.stage;
    used_x = ends_x ? at_x.stage : -1;
    at_weight.advance(weight_stages);
    if (ends_x) at_x.advance(x_stages);
  };
  Unit unit(form, place.begin);
  int index = place.begin;
  for (; index < min(place.end, units); ++index, unit.advance()) {
    if (index == place.begin || !is_whole || unit.is_first()) hw::wait(barriers.full_x[at_x.stage], at_x.phase);
    hw::wait(barriers.full_weight[at_weight.stage], at_weight.phase);
    std::uint32_t x = x_ring + at_x.stage * x_stage_bytes;
    if (is_whole) x += unit.tap_y * tap_y_bytes + unit.tap_x * tap_x_bytes;
    const std::uint32_t weight = weight_ring + at_weight.stage * kTaps * kTapBytes;
    hw::begin_wgmma();
#pragma unroll
    for (int tap = 0; tap < kTaps; ++tap)
      multiply_tap<T, kMine, kColumns>(x + tap * tap_x_bytes, blocks, group_bytes, weight + tap * kTapBytes, sums);
    commit(!is_whole || unit.is_last());
  }
  group_bytes = (kSide << form.log_blocks_x) * kRowBytes;
  find_blocks(form, first_block, kSide << form.log_blocks_y, group_bytes, blocks);
  for (; index < place.end; ++index) {
    hw::wait(barriers.full_x[at_x.stage], at_x.phase);
    hw::wait(barriers.full_weight[at_weight.stage], at_weight.phase);
    hw::begin_wgmma();
    multiply_tap<T, kMine, kColumns>(x_ring + at_x.stage * x_stage_bytes, blocks, group_bytes,
                                     weight_ring + at_weight.stage * kTaps * kTapBytes, sums);
    commit(true);
  }
  hw::wait_for_wgmma<0>();
}

/// The rows of a tile whose results block `rank` of the cluster stores.
struct Share {
  int begin, end;

  template <int kRows>
  __device__ __forceinline__ static Share of(int rank, int split) {
    return {kRows * rank / split, kRows * (rank + 1) / split};
  }
};

template <class T>
__device__ __forceinline__ float read_bias(const HopperForm& form, const void* bias, int channel) {
  return channel < form.outputs ? cuda::optional_vector_at<T>(bias, form.bias_is_f32, channel) : 0.0F;
}

/// Puts the sums of a warpgroup's blocks where the rings were, as rows of pixels.
template <int kMine, int kColumns>
__device__ __forceinline__ void put_sums(int first_block, const float (&sums)[kMine][kColumns / 2], float* to) {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup;
#pragma unroll
  for (int i = 0; i < kMine; ++i)
#pragma unroll
    for (int j = 0; j < kColumns / 8; ++j)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const int row = (first_block + i) * kSide * kSide + thread / 32 * 16 + half * 8 + thread % 32 / 4;
        const int column = j * 8 + thread % 4 * 2;
        *reinterpret_cast<float2*>(to + row * (kColumns + kPadding) + column) =
            make_float2(sums[i][j * 4 + half * 2], sums[i][j * 4 + half * 2 + 1]);
      }
}

/// Sends every other block of the cluster its share; one thread.
template <int kRows, int kPitch>
__device__ __forceinline__ void send_shares(const HopperForm& form, const Place& place, std::uint32_t sums,
                                            Barriers& barriers) {
  for (int i = 1; i < form.split; ++i) {
    const int to = (place.rank + i) % form.split;  // not all to the same at once
    const Share share = Share::of<kRows>(to, form.split);
    const int slot = place.rank - (place.rank > to ? 1 : 0);
    const std::uint32_t there = sums + (kRows + slot * form.share_rows) * kPitch;
    hw::copy_to_block(hw::address_in(there, to), sums + share.begin * kPitch, (share.end - share.begin) * kPitch,
                      hw::address_in(hw::shared_address(&barriers.received), to));
  }
}

/// Adds up the cluster's sums for this block's share, in the order of its blocks, and stores the results. A thread
/// does a few packs at once, so that it waits for memory less often.
template <class T, int kBlocks, int kColumns>
__device__ __forceinline__ void finish(const HopperForm& form, const Place& place, const float* sums, const float* bias,
                                       const T* residual, T* y) {
  constexpr int kRows = kBlocks * kSide * kSide, kPitch = kColumns + kPadding;
  constexpr int kPack = 8, kPacks = kColumns / kPack, kAtOnce = 2;
  constexpr int kThreadCount = kConsumers<kBlocks> * hw::kWarpgroup;
  using Floats = cuda::Packs<float, kPack>;
  using Results = cuda::Packs<T, kPack>;
  const Share share = Share::of<kRows>(place.rank, form.split);
  const int items = (share.end - share.begin) * kPacks;
  const int mask_x = (1 << form.log_blocks_x) - 1, mask_y = (1 << form.log_blocks_y) - 1;
  for (int first = static_cast<int>(threadIdx.x); first < items; first += kAtOnce * kThreadCount) {
    int at[kAtOnce], columns[kAtOnce], rows[kAtOnce];
    typename Results::Raw others[kAtOnce];
    float values[kAtOnce][kPack] = {}, added[kPack];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int item = first + i * kThreadCount;
      rows[i] = item / kPacks;
      columns[i] = (item - rows[i] * kPacks) * kPack;
      const int row = share.begin + rows[i], block = row / (kSide * kSide), rest = block >> form.log_blocks_x;
      const int out_x = (place.x + (block & mask_x)) * kSide + row % kSide;
      const int out_y = (place.y + (rest & mask_y)) * kSide + row / kSide % kSide;
      const int b = place.b + (rest >> form.log_blocks_y), channel = place.column + columns[i];
      const bool is_there =
          item < items && out_x < form.width && out_y < form.height && b < form.batch && channel < form.outputs;
      const int line = (b * form.height + out_y) * form.phases + place.phase_y;
      const int pixel = (line * form.width + out_x) * form.phases + place.phase_x;
      at[i] = is_there ? pixel * form.outputs + channel : -1;
      if (is_there && residual != nullptr) others[i] = Results::read(residual + at[i]);
    }
    const auto add = [&](float(&to)[kPack]) {
#pragma unroll
      for (int k = 0; k < kPack; ++k) to[k] += added[k];
    };
    const auto add_sums = [&](const float* from, int pitches) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i)
        if (at[i] >= 0) {
          Floats::expand(Floats::read(from + (rows[i] + pitches) * kPitch + columns[i]), added);
          add(values[i]);
        }
    };
    const float* const received = sums + kRows * kPitch;
    for (int rank = 0; rank < place.rank; ++rank) add_sums(received, rank * form.share_rows);
    add_sums(sums, share.begin);
    for (int rank = place.rank + 1; rank < form.split; ++rank) add_sums(received, (rank - 1) * form.share_rows);
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      if (at[i] < 0) continue;
      Floats::expand(Floats::read(bias + columns[i]), added);
      add(values[i]);
      if (residual != nullptr) {
        Results::expand(others[i], added);
        add(values[i]);
      }
      if (form.activation != Activation::kNone) {
#pragma unroll
        for (int k = 0; k < kPack; ++k) values[i][k] = cuda::activate(form.activation, values[i][k]);
      }
      Results::store(values[i], y + at[i]);
    }
  }
}

#endif  // HR_HAS_HOPPER

template <class T, int kBlocks, int kColumns, int kTaps>
__global__ void __launch_bounds__(kThreads<kBlocks>, kResident<kBlocks>)
    hopper_convolution_kernel(const __grid_constant__ HopperForm form, const __grid_constant__ HopperMaps maps,
                              const void* bias, const T* residual, T* y) {
#if HR_HAS_HOPPER
  constexpr int kMine = kBlocks / kConsumers<kBlocks>, kRows = kBlocks * kSide * kSide;
  constexpr int kPitchBytes = (kColumns + kPadding) * static_cast<int>(sizeof(float));
  extern __shared__ __align__(1024) std::byte rings[];
  __shared__ Barriers barriers;
  cuda::let_next_begin();
  const int warpgroup = static_cast<int>(threadIdx.x) / hw::kWarpgroup;
  std::byte* const weight_ring = rings + form.x_stages * form.x_stage_bytes;
  const Place place = find_place(form, kColumns);
  if (threadIdx.x == 0) {
    for (int i = 0; i < form.x_stages; ++i) {
      hw::init_barrier(barriers.full_x[i], 1);
      hw::init_barrier(barriers.empty_x[i], kConsumers<kBlocks> * 4);
    }
    for (int i = 0; i < form.weight_stages; ++i) {
      hw::init_barrier(barriers.full_weight[i], 1);
      hw::init_barrier(barriers.empty_weight[i], kConsumers<kBlocks> * 4);
    }
    hw::init_barrier(barriers.received, 1);
    hw::fence_barrier_init();
    const Share share = Share::of<kRows>(place.rank, form.split);
    if (form.split > 1)
      hw::arrive_expecting(barriers.received, (form.split - 1) * (share.end - share.begin) * kPitchBytes);
  }
  __syncthreads();
  if (warpgroup == kConsumers<kBlocks>) {
    if constexpr (kResident<kBlocks> == 1) hw::give_registers<40>();
    const int warp = static_cast<int>(threadIdx.x) % hw::kWarpgroup / 32;
    if (warp == 0 && hw::is_elected()) copy_weights<kColumns>(form, place, maps, weight_ring, barriers);
    if (warp == 1 && hw::is_elected()) copy_x(form, place, maps, rings, barriers);
  } else {
    if constexpr (kResident<kBlocks> == 1) hw::take_registers<232>();
    const auto meet = [] { hw::meet(1, kConsumers<kBlocks> * hw::kWarpgroup); };
    float sums[kMine][kColumns / 2] = {};
    consume<T, kMine, kColumns, kTaps>(form, place, warpgroup * kMine, hw::shared_address(rings),
                                       hw::shared_address(weight_ring), barriers, sums);
    cuda::wait_for_previous();
    constexpr int kThreadCount = kConsumers<kBlocks> * hw::kWarpgroup, kBiases = (kColumns - 1) / kThreadCount + 1;
    float biases[kBiases];
#pragma unroll
    for (int i = 0; i < kBiases; ++i)
      biases[i] = read_bias<T>(form, bias, place.column + i * kThreadCount + static_cast<int>(threadIdx.x));
    meet();  // the rings are read no more
    if (form.split > 1) hw::arrive_in_cluster();
    auto* const stored = reinterpret_cast<float*>(rings);
    float* const bias_of_columns = stored + (kRows + (form.split - 1) * form.share_rows) * (kColumns + kPadding);
#pragma unroll
    for (int i = 0; i < kBiases; ++i)
      if (const int column = i * kThreadCount + static_cast<int>(threadIdx.x); column < kColumns)
        bias_of_columns[column] = biases[i];
    put_sums<kMine, kColumns>(warpgroup * kMine, sums, stored);
    if (form.split > 1) hw::fence_for_copies();
    meet();
    if (form.split > 1) {
      hw::wait_for_cluster();  // nor those of others
      if (threadIdx.x == 0) send_shares<kRows, kPitchBytes>(form, place, hw::shared_address(rings), barriers);
      hw::wait(barriers.received, 0);
      __syncwarp();
      hw::arrive_in_cluster();
    }
    finish<T, kBlocks, kColumns>(form, place, stored, bias_of_columns, residual, y);
    if (form.split > 1) hw::wait_for_cluster();  // until then copies of other blocks read this shared memory
  }
#endif
}

cuda::LaunchShape shape_of(const HopperForm& form, int threads, void* stream = nullptr) {
  return cuda::large_shape(form.tiles() * form.split, threads, form.shared_bytes, stream, form.split);
}

/// Calls use(blocks, columns, taps), constants, for the kernel of a tile.
template <class Use>
void with_tile(const HopperTile& tile, const Use& use) {
#define HR_TILE(of_blocks, of_columns)                            \
  if (tile.blocks == (of_blocks) && tile.columns == (of_columns)) \
    return cuda::with_one_of<1, 3>(tile.taps,                     \
                                   [&](auto taps) { use(Constant<of_blocks>(), Constant<of_columns>(), taps); });
#include "kernels/conv/hopper_tiles.def"
#undef HR_TILE
}

}  // namespace

void launch_hopper(void* stream, DType dtype, const HopperTile& tile, const HopperForm& form, const HopperMaps& maps,
                   const void* bias, const void* residual, void* y) {
  with_tile(tile, [&](auto blocks, auto columns, auto taps) {
    cuda::with_small_type_of(dtype, [&](auto type) {
      using T = decltype(type);
      cuda::launch_large(hopper_convolution_kernel<T, blocks(), columns(), taps()>,
                         shape_of(form, kThreads<blocks()>, stream), form, maps, bias, static_cast<const T*>(residual),
                         static_cast<T*>(y));
    });
  });
  cuda::check_launched("hopper convolution kernel");
}

int hopper_clusters_at_once(const HopperTile& tile, const HopperForm& form) {
  int clusters = 0;
  with_tile(tile, [&](auto blocks, auto columns, auto taps) {
    clusters = cuda::clusters_at_once(hopper_convolution_kernel<Bf16, blocks(), columns(), taps()>,
                                      shape_of(form, kThreads<blocks()>));
  });
  cuda::check_launched("hopper convolution kernel");
  return clusters;
}

}  // namespace headroom::convolutions
