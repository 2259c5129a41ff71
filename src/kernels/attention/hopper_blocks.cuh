#pragma once

// The work of thread blocks that attention on Hopper has in any precision: which tiles a block has, turns of its
// warpgroups, results to memory, and parts of tiles that blocks join. hopper.cu explains how tiles are shared.

#include <cuda_runtime_api.h>

#include <cstdint>
#include <type_traits>

#include "backends/cuda/early_launch.cuh"
#include "kernels/attention/hopper_form.hpp"
#include "kernels/attention/hopper_softmax.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/hopper.cuh"

namespace headroom::attentions {
namespace {

namespace hw = cuda::hopper;

/// Bytes of `rows` tokens in shared memory. Their pieces of 128 bytes follow each other: all first ones, then all
/// second ones.
template <int kDim>
constexpr int kPieces = pieces_of(kDim);
template <int kDim, int kRows>
constexpr int kBytesOf = kRows * kPieces<kDim> * kRowBytes;
constexpr int kClearThreads = 32;

#if HR_HAS_HOPPER

// Barriers of some threads, by number.
constexpr int kGroupMeets = 1;  // and the next ones: each warpgroup
constexpr int kAllMeet = kGroupMeets + kMostGroups;
constexpr int kTurn = kAllMeet + 1;  // and the next ones: each warpgroup's turn

/// Some work of a block: a tile, or its part of the keys of one. None if it has no keys.
struct Item {
  int batch, head, row;  // the first query
  int begin, end;        // of the keys, in units of a stage
  bool is_part;
};

// Units of keys of the tiles that are spread over all blocks, counted from the first of these tiles.

/// The first one of a block.
__device__ __forceinline__ int first_unit_of(const HopperForm& form, int block) {
  return block * form.units_of_block + min(block, form.more_units);
}
/// The block that has a unit.
__device__ __forceinline__ int block_of_unit(const HopperForm& form, int unit) {
  const int longer = form.more_units * (form.units_of_block + 1);  // of the blocks that have one more
  return unit < longer ? unit / (form.units_of_block + 1) : form.more_units + (unit - longer) / form.units_of_block;
}

/// The head, of all batches, and the first query of a tile. Neighbours have the same keys. In causal order those of
/// several heads alternate and the tiles with most keys come first.
__device__ __forceinline__ void place(const HopperForm& form, int rows, int tile, Item& item) {
  int head;
  if (form.heads_together == 1) {
    head = tile / form.tiles_of_head;
    item.row = (tile - head * form.tiles_of_head) * rows;
  } else {
    const int first = tile / (form.heads_together * form.tiles_of_head) * form.heads_together;
    const int heads = min(form.heads_together, form.all_heads - first);
    tile -= first * form.tiles_of_head;
    head = first + tile % heads;
    item.row = (form.tiles_of_head - 1 - tile / heads) * rows;
  }
  item.batch = head / form.heads;
  item.head = head - item.batch * form.heads;
}

/// False where nothing is left. In causal order a block that has several tiles takes one of each round, the rounds
/// from left to right and from right to left.
template <int kRows, int kKeys>
__device__ __forceinline__ bool find_item(const HopperForm& form, int index, Item& item) {
  const int block = static_cast<int>(blockIdx.x), units = (form.keys - 1) / kKeys + 1;
  const int split = form.split, whole = form.whole;
  int tile;
  item.begin = 0, item.end = units, item.is_part = false;
  if (form.units_of_block > 0 && index >= whole) {
    const int first = first_unit_of(form, block), spread = first / units + index - whole;
    item.begin = max(first - spread * units, 0);
    item.end = min(first_unit_of(form, block + 1) - spread * units, units);
    item.is_part = item.end - item.begin < units;
    if (item.end <= item.begin) return false;
    tile = static_cast<int>(gridDim.x) * whole + spread;
  } else {
    if (index >= whole + form.shares) return false;
    const int cluster = block / split, rank = block - cluster * split;
    item.is_part = index >= whole;
    tile = cluster * (whole * split + form.shares) + index * split + (item.is_part ? 0 : rank);
    if (item.is_part) item.begin = units * rank / split, item.end = units * (rank + 1) / split;
  }
  if (form.is_causal) {
    const int blocks = static_cast<int>(gridDim.x);
    tile = index * blocks + (index % 2 == 0 ? block : blocks - 1 - block);
  }
  if (tile >= form.tiles) return false;
  place(form, kRows, tile, item);
  if (form.is_causal) {  // at least one unit, even if no query of the tile sees a key
    const int last = min(item.row + kRows, form.queries) - 1 + form.diagonal;
    item.end = min(units, max(last, 0) / kKeys + 1);
  }
  return true;
}

/// Warpgroups alternate in issuing multiply-adds, so that they do not all compute exponentials at once.
template <int kGroups, bool kAlternates>
struct Turn {
  int group;

  /// Once, before any turn: the first is that of warpgroup 0.
  __device__ __forceinline__ void open() const {
    if (kAlternates && group == kGroups - 1) pass();
  }
  __device__ __forceinline__ void wait() const {
    if (kAlternates) hw::meet(kTurn + group, 2 * hw::kWarpgroup);
  }
  __device__ __forceinline__ void pass() const {
    if (!kAlternates) return;
    const int next = group + 1 == kGroups ? 0 : group + 1;
    hw::announce(kTurn + next, 2 * hw::kWarpgroup);
  }
};

/// A warpgroup's progress: units of keys and of values that it has finished, counted from the block's first.
struct Progress {
  std::uint32_t keys = 0, values = 0;
};

/// The first of a thread's two rows of a warpgroup's tile.
__device__ __forceinline__ int row_of_thread() {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup;
  return thread / 32 * 16 + thread % 32 / 4;
}

/// A warpgroup: results of its 64 queries, to shared memory as copies swizzle it, and from there to their places.
template <class T, int kDim>
__device__ __forceinline__ void store_results(const HopperForm& form, const HopperMaps& maps, const Item& item,
                                              int group, const float (&logs)[2], const float (&sums)[kDim / 2],
                                              std::uint32_t staged, float* logsumexp) {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup, row = row_of_thread();
  const int first = item.row + group * kGroupRows;
  if (logsumexp != nullptr && thread % 4 == 0) {
    float* const to = logsumexp + item.batch * form.sum_batch + item.head * form.sum_head;
#pragma unroll
    for (int half = 0; half < 2; ++half)
      if (const int query = first + row + 8 * half; query < form.queries) to[query] = logs[half];
  }
  if (thread == 0) hw::wait_for_stores_to_read();  // those of the tile before
  hw::meet(kGroupMeets + group, hw::kWarpgroup);
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t to =
          staged + (j / 8 * kGroupRows + row + 8 * half) * kRowBytes + ((j % 8 ^ row % 8) * 16) + thread % 4 * 4;
      const std::uint32_t pair = hw::pack(T(), sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
      hw::put_shared(to, pair);
    }
  hw::fence_for_copies();
  hw::meet(kGroupMeets + group, hw::kWarpgroup);
  if (thread != 0 || first >= form.queries) return;
#pragma unroll
  for (int piece = 0; piece < kPieces<kDim>; ++piece)
    hw::store_box(maps.out, staged + piece * kGroupRows * kRowBytes, piece * kPieceDim, first, item.head, item.batch);
  hw::commit_stores();
}

// A shared tile. Rows of sums, in shared memory or in parts of the workspace, are each followed by the two floats that
// they are relative to.
template <int kDim, class Sum = float>
constexpr int kPitch = sums_pitch(kDim, sizeof(Sum));

__device__ __forceinline__ void put_two(float* to, float first, float second) {
  *reinterpret_cast<float2*>(to) = make_float2(first, second);
}
__device__ __forceinline__ void put_two(cuda::F16* to, float first, float second) {
  *reinterpret_cast<std::uint32_t*>(to) = cuda::pack_f16(first, second);
}

/// Whether rows are divided by the sums of their exponentials, so that f16 holds them.
template <class Sum>
constexpr bool kIsDivided = std::is_same_v<Sum, cuda::F16>;

/// The scales of a head's channels, if they have any.
struct Unscaled {
  [[nodiscard]] __device__ __forceinline__ float operator()(int /*channel*/) const { return 1; }
};

template <int kDim, class Sum>
__device__ __forceinline__ void put_sums(int group, float most, float most_below, float total, float total_below,
                                         const float (&sums)[kDim / 2], Sum* to) {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    Sum* const row = to + (group * kGroupRows + row_of_thread() + 8 * half) * kPitch<kDim, Sum>;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j)
      put_two(row + 8 * j + thread % 4 * 2, sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
    if (thread % 4 == 0)
      *reinterpret_cast<float4*>(row + kDim) =
          make_float4(half == 0 ? most : most_below, half == 0 ? total : total_below, 0, 0);
  }
}

/// Joins the sums of several parts for some rows of a tile in the order of the parts, and stores the results, times the
/// scales of their channels. Threads are counted from `thread` on, `threads` of them; each reads kAtOnce packs of 8
/// sums before it adds any. row_of(part, row) is where a part has a row's sums.
template <class T, int kDim, int kAtOnce, class RowOf, class ScaleOf = Unscaled>
__device__ __forceinline__ void join_rows(const HopperForm& form, const Item& item, int begin, int end, int parts,
                                          const RowOf& row_of, int thread, int threads, const HopperPlaces& places,
                                          const ScaleOf& scale_of = {}) {
  using Sum = std::remove_cvref_t<decltype(*row_of(0, 0))>;
  constexpr int kPack = 8, kPacks = kDim / kPack;
  using Sums = cuda::Packs<Sum, kPack>;
  T* const to = static_cast<T*>(places.out) + item.batch * form.out_batch + item.head * form.out_head;
  const int packs = (end - begin) * kPacks;
  for (int first = thread; first < packs; first += kAtOnce * threads) {
    const auto index_of = [&](int i) { return min(first + i * threads, packs - 1); };
    float most[kAtOnce], totals[kAtOnce] = {}, values[kAtOnce][kPack] = {};
#pragma unroll
    for (float& value : most) value = cuda::Max::kNeutral;
#pragma unroll 1
    for (int part = 0; part < parts; ++part) {
      float added[kAtOnce][kPack];
      float2 relative[kAtOnce];  // the largest score, and the sum of exponentials
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const auto* const from = row_of(part, begin + index_of(i) / kPacks);
        relative[i] = *reinterpret_cast<const float2*>(from + kDim);
        Sums::expand(Sums::read(from + index_of(i) % kPacks * kPack), added[i]);
      }
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const float now = fmaxf(most[i], relative[i].x);
        const float factor = power_of_2(most[i] - now), factor_of_part = power_of_2(relative[i].x - now);
        most[i] = now;
        const float total = relative[i].y * factor_of_part, weight = kIsDivided<Sum> ? total : factor_of_part;
        totals[i] = totals[i] * factor + total;
#pragma unroll
        for (int j = 0; j < kPack; ++j) values[i][j] = values[i][j] * factor + added[i][j] * weight;
      }
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const int column = index_of(i) % kPacks * kPack, query = item.row + begin + index_of(i) / kPacks;
      if (first + i * threads >= packs || query >= form.queries) continue;
#pragma unroll
      for (int j = 0; j < kPack; ++j) values[i][j] = values[i][j] / totals[i] * scale_of(column + j);
      if (column < form.value_dim) cuda::Packs<T, kPack>::store(values[i], to + query * form.out_token + column);
      if (places.logsumexp != nullptr && column == 0)
        places.logsumexp[item.batch * form.sum_batch + item.head * form.sum_head + query] =
            natural_log(most[i], totals[i]);
    }
  }
}

/// The part of a tile that is spread over blocks: writes its sums to memory as `Sum`. The last block to do so joins
/// them.
template <class T, class Sum, int kGroups, int kKeys, int kDim, class SoftmaxOfGroup, class ScaleOf = Unscaled>
__device__ __forceinline__ void give_part(const HopperForm& form, const Item& item, int group,
                                          const SoftmaxOfGroup& softmax, const float (&sums)[kDim / 2], int slot,
                                          int& given, const HopperPlaces& places, const ScaleOf& scale_of = {}) {
  constexpr int kRows = kGroups * kGroupRows;
  const auto meet = [] { hw::meet(kAllMeet, kGroups * hw::kWarpgroup); };
  const auto part_of = [&](int block, int which) {
    return static_cast<Sum*>(places.parts) + (2 * block + which) * static_cast<std::size_t>(kRows * kPitch<kDim, Sum>);
  };
  const int units = (form.keys - 1) / kKeys + 1, block = static_cast<int>(blockIdx.x);
  put_sums<kDim>(group, softmax.exponent(0), softmax.exponent(1), softmax.totals[0], softmax.totals[1], sums,
                 part_of(block, slot));
  meet();
  const int spread = first_unit_of(form, block) / units + slot, begin = spread * units;
  if (threadIdx.x == 0) {  // fences of one thread are for all that met it before, and that meet it later
    __threadfence();
    given = atomicAdd(places.given + spread, 1);
    __threadfence();
  }
  meet();
  const int first = block_of_unit(form, begin), parts = block_of_unit(form, begin + units - 1) - first + 1;
  if (given + 1 < parts) return;
  const auto row_of = [&](int part, int row) {
    return part_of(first + part, first_unit_of(form, first + part) < begin ? 1 : 0) + row * kPitch<kDim, Sum>;
  };
  join_rows<T, kDim, kDim / 16>(form, item, 0, kRows, parts, row_of, static_cast<int>(threadIdx.x),
                                kGroups * hw::kWarpgroup, places, scale_of);
}

/// What a block will get of a tile that its cluster shares, announced by one thread.
template <class Sum, int kRows, int kDim>
__device__ __forceinline__ void expect_rows(const HopperForm& form, hw::Barrier& received) {
  if (form.split == 1) return;
  const int rank = static_cast<int>(blockIdx.x) % form.split;
  const int rows = kRows * (rank + 1) / form.split - kRows * rank / form.split;
  hw::arrive_expecting(received, (form.split - 1) * rows * kPitch<kDim, Sum> * static_cast<int>(sizeof(Sum)));
}

/// Sends every other block of the cluster its rows; one thread.
template <class Sum, int kRows, int kDim>
__device__ __forceinline__ void send_rows(const HopperForm& form, int rank, std::uint32_t sums, hw::Barrier& received) {
  constexpr int kBytes = kPitch<kDim, Sum> * static_cast<int>(sizeof(Sum));
  const int split = form.split, share_rows = form.share_rows;
  for (int i = 1; i < split; ++i) {
    const int to = (rank + i) % split;  // not all to the same at once
    const int begin = kRows * to / split, end = kRows * (to + 1) / split;
    const std::uint32_t there = sums + (kRows + (rank - (rank > to ? 1 : 0)) * share_rows) * kBytes;
    hw::copy_to_block(hw::address_in(there, to), sums + begin * kBytes, (end - begin) * kBytes,
                      hw::address_in(hw::shared_address(&received), to));
  }
}

/// All of a shared tile that follows its sums: the last item of a block, so that the rings are free.
template <class T, class Sum, int kGroups, int kDim, class SoftmaxOfGroup>
__device__ __forceinline__ void share_results(const HopperForm& form, const Item& item, int group,
                                              const SoftmaxOfGroup& softmax, const float (&sums)[kDim / 2],
                                              std::byte* ring, hw::Barrier& received, const HopperPlaces& places) {
  constexpr int kRows = kGroups * kGroupRows;
  const auto meet = [] { hw::meet(kAllMeet, kGroups * hw::kWarpgroup); };
  const int rank = static_cast<int>(blockIdx.x) % form.split;
  auto* const stored = reinterpret_cast<Sum*>(ring);
  meet();  // the rings are read no more
  hw::arrive_in_cluster();
  put_sums<kDim>(group, softmax.exponent(0), softmax.exponent(1), softmax.totals[0], softmax.totals[1], sums, stored);
  hw::fence_for_copies();
  meet();
  hw::wait_for_cluster();  // nor those of others
  if (threadIdx.x == 0) send_rows<Sum, kRows, kDim>(form, rank, hw::shared_address(ring), received);
  hw::wait(received, 0);
  __syncwarp();
  hw::arrive_in_cluster();
  const int begin = kRows * rank / form.split, end = kRows * (rank + 1) / form.split;
  const auto row_of = [&](int part, int row) {
    return stored + (part == rank ? row : kRows + (part - (part > rank ? 1 : 0)) * form.share_rows + row - begin) *
                        kPitch<kDim, Sum>;
  };
  join_rows<T, kDim, 1>(form, item, begin, end, form.split, row_of, static_cast<int>(threadIdx.x),
                        kGroups * hw::kWarpgroup, places);
  hw::wait_for_cluster();  // until then copies of other blocks read this shared memory
}

#endif  // HR_HAS_HOPPER

/// No part is given yet.
__global__ void clear_given_kernel(int tiles, int* given) {
  cuda::wait_for_previous();
  for (int tile = static_cast<int>(threadIdx.x); tile < tiles; tile += kClearThreads) given[tile] = 0;
}

/// Before a kernel whose blocks join parts of tiles.
inline void clear_given(void* stream, const HopperForm& form, int* given) {
  if (form.spread == 0) return;
  cuda::launch_early(clear_given_kernel,
                     {.blocks = dim3(1), .threads = dim3(kClearThreads), .stream = static_cast<cudaStream_t>(stream)},
                     form.tiles - form.whole * form.spread, given);
}

}  // namespace
}  // namespace headroom::attentions
