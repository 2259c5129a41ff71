// attention on Hopper's tensor cores (sm_90a) for heads of up to 64: o = softmax(scale q k^T) v, scores stay in
// registers.
//
// Shapes     q[b, h, s, d], k[b, g, t, d], v[b, g, t, e] -> o[b, h, s, e], logsumexp[b, h, s] or none: d and e
//            multiples of 8 up to 64, h a multiple of g; any strides that are multiples of 16 bytes, so that heads
//            may be interleaved, or next to those of a merged linear.
// Dtypes     bf16 or f16; scores, softmax and sums in f32, probabilities rounded to the dtype before the second matmul.
// Bytes      (q + k + v + o) * 2, k and v once for each tile of queries from the second-level cache
// FLOPs      2 * b*h*s*t * (d + e), and b*h*s*t exponentials
//
// The two floors of 64 queries by 128 keys of 64 on one multiprocessor: multiply-adds 2 * 64*128*64 / 2048 = 512
// clocks, exponentials 64*128 / 16 = 512 clocks. Either alone would be 946 to 998 TFLOP/s. The speed depends on how
// much the two overlap.
//
// A thread block has a tile: 64, 128 or 192 queries of a head, 64 for each warpgroup, which keeps its scores,
// probabilities and sums in registers. One thread of one more warp copies (TMA) queries once, and keys and values
// to rings. A warpgroup begins the scores of the next keys and the weighted sum of those before, and computes
// exponentials while the sum is in flight. Warpgroups that have a multiprocessor to themselves alternate in issuing
// multiply-adds, so that the exponentials of one overlap the multiply-adds of another. Heads of less than 64
// elements are padded with zeros in shared memory (copies fill them in), and the matmuls are 32, 48 or 64 deep and
// wide.
//
// Exponents are relative to a row's largest score so far. It is replaced only by a score that is larger by a factor
// of 2^8, because f32 sums and 16-bit floats are as exact at 2^8 as at 1. So sums are seldom scaled
// (FlashAttention-4 does so).
//
// 4096 queries of 5 heads are 160 tiles of 128 on 132 multiprocessors: two rounds for the work of 1.2. So a cluster
// of blocks may have, after whole tiles, one more whose keys it shares: 4 blocks have 5 tiles in 1.25 rounds. Each
// sends the others their rows of its sums with largest scores (copies between blocks' shared memory), and adds up
// its own in the order of the blocks: the same bits in every run.
//
// Online softmax and its order of matmuls: FlashAttention-3 (arXiv 2407.08608), sections 3.1 and 3.2.
//
// Tried      (H100, bench/results/h100/attention_ways.txt) Two of eight exponentials as polynomials of degree 3, on
//            units that are idle else, in tiles of 128 keys (FlashAttention-4 does so). In heads of 40 and 64 tiles
//            of 192 queries took 3 to 12% longer and those of 128 between 2% longer and 5% less; the fastest tile of
//            a shape gained 0.8% at most. In heads of 32 and of 8 the fastest tile gained 8% and 4%. For 4096 queries
//            of 5 heads tiles of 128 queries, two rounds of them: 80.8 us; one for each block and one shared by 2:
//            63.8; 110 tiles of 192, one for each block: 53.5.

#include <cuda_runtime_api.h>

#include "backends/cuda/early_launch.cuh"
#include "kernels/attention/hopper_form.hpp"
#include "kernels/attention/hopper_softmax.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"
#include "kernels/core/cuda/wgmma.cuh"

namespace headroom::attentions {
namespace {

namespace hw = cuda::hopper;
using cuda::Bf16;
using cuda::Constant;

// The single warp that copies needs hardly any registers. But a multiprocessor allocates registers to four warps at
// a time, and only a warpgroup can give its allocation away.
template <int kGroups>
constexpr int kThreads = kGroups * hw::kWarpgroup + (kGroups == 1 ? 32 : hw::kWarpgroup);
/// Registers of a thread that copies, and of one that computes; their total is that of the initial allocation.
template <int kGroups>
constexpr int kCopyRegisters = kGroups == 2 ? 40 : 32;
template <int kGroups>
constexpr int kRegisters = kGroups == 2 ? 232 : 160;

/// Bytes of `rows` tokens in shared memory. Their pieces of 128 bytes follow each other: all first ones, then all
/// second ones.
template <int kDim>
constexpr int kPieces = pieces_of(kDim);
template <int kDim, int kRows>
constexpr int kBytesOf = kRows * kPieces<kDim> * kRowBytes;

#if HR_HAS_HOPPER

// Barriers of some threads, by number.
constexpr int kGroupMeets = 1;  // and the next ones: each warpgroup
constexpr int kAllMeet = kGroupMeets + kMostGroups;
constexpr int kTurn = kAllMeet + 1;  // and the next ones: each warpgroup's turn

struct Barriers {
  hw::Barrier full_q, empty_q;
  hw::Barrier full_k[kMostStages], empty_k[kMostStages];
  hw::Barrier full_v[kMostStages], empty_v[kMostStages];
  hw::Barrier received;  // all that others of the cluster have summed up for this block
};

/// The next work of a block: a tile, or its part of the keys of one.
struct Item {
  int batch, head, row;  // the first query
  int begin, end;        // of the keys, in units of a stage
  bool is_shared;
};

/// False where nothing is left. Neighbours have the same keys. In causal order the tiles with most keys come first,
/// and a block that has several takes one of each round, the rounds from left to right and from right to left.
template <int kRows, int kKeys>
__device__ __forceinline__ bool find_item(const HopperForm& form, int index, Item& item) {
  const int split = form.split, whole = form.whole, cluster = static_cast<int>(blockIdx.x) / split;
  const int rank = static_cast<int>(blockIdx.x) - cluster * split;
  if (index >= whole + form.shares) return false;
  item.is_shared = index >= whole;
  int tile = cluster * (whole * split + form.shares) + index * split + (item.is_shared ? 0 : rank);
  if (form.is_causal) {
    const int blocks = static_cast<int>(gridDim.x), block = static_cast<int>(blockIdx.x);
    tile = index * blocks + (index % 2 == 0 ? block : blocks - 1 - block);
  }
  if (tile >= form.tiles) return false;
  int head, row, units = (form.keys - 1) / kKeys + 1;
  if (form.heads_together == 1) {
    head = tile / form.tiles_of_head;
    row = tile - head * form.tiles_of_head;
  } else {
    const int first = tile / (form.heads_together * form.tiles_of_head) * form.heads_together;
    const int heads = min(form.heads_together, form.all_heads - first);
    tile -= first * form.tiles_of_head;
    head = first + tile % heads;
    row = form.tiles_of_head - 1 - tile / heads;
  }
  item.row = row * kRows;
  if (form.is_causal) units = min(units, (min(item.row + kRows, form.queries) - 1 + form.diagonal) / kKeys + 1);
  item.batch = head / form.heads;
  item.head = head - item.batch * form.heads;
  item.begin = item.is_shared ? units * rank / split : 0;
  item.end = item.is_shared ? units * (rank + 1) / split : units;
  return true;
}

/// One thread: copies all that the block reads.
template <int kRows, int kKeys, int kStages, int kDim>
__device__ __forceinline__ void copy_all(const HopperForm& form, const HopperMaps& maps, std::byte* queries,
                                         std::byte* ring, Barriers& barriers) {
  constexpr int kBytes = kBytesOf<kDim, kKeys>;
  const auto copy = [](std::byte* to, const cuda::TensorMap& map, hw::Barrier& barrier, int rows, int row, int head,
                       int batch) {
#pragma unroll
    for (int piece = 0; piece < kPieces<kDim>; ++piece)
      hw::copy_box(to + piece * rows * kRowBytes, map, barrier, piece * kPieceDim, row, head, batch);
  };
  hw::prefetch(maps.q);
  hw::prefetch(maps.k);
  hw::prefetch(maps.v);
  cuda::wait_for_previous();
  const int sharers = form.sharers;
  std::uint32_t tiles = 0, units = 0;
  Item item;
  for (; find_item<kRows, kKeys>(form, static_cast<int>(tiles), item); ++tiles) {
    hw::wait(barriers.empty_q, (tiles & 1) ^ 1);
    hw::arrive_expecting(barriers.full_q, kBytesOf<kDim, kRows>);
    copy(queries, maps.q, barriers.full_q, kRows, item.row, item.head, item.batch);
    const int head = item.head / sharers;
    for (int unit = item.begin; unit < item.end; ++unit, ++units) {
      const std::uint32_t stage = units % kStages, phase = units / kStages & 1;
      std::byte* const to = ring + stage * 2 * kBytes;
      hw::wait(barriers.empty_k[stage], phase ^ 1);
      hw::arrive_expecting(barriers.full_k[stage], kBytes);
      copy(to, maps.k, barriers.full_k[stage], kKeys, unit * kKeys, head, item.batch);
      hw::wait(barriers.empty_v[stage], phase ^ 1);
      hw::arrive_expecting(barriers.full_v[stage], kBytes);
      copy(to + kBytes, maps.v, barriers.full_v[stage], kKeys, unit * kKeys, head, item.batch);
    }
  }
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

/// A warpgroup's progress: tiles that it has begun, and units of keys and of values that it has finished, counted
/// from the block's first.
struct Progress {
  std::uint32_t tiles = 0, keys = 0, values = 0;
};

/// The first of a thread's two rows of a warpgroup's tile.
__device__ __forceinline__ int row_of_thread() {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup;
  return thread / 32 * 16 + thread % 32 / 4;
}

/// What is added to a thread's scores, or says which of them there are: two keys in each register.
template <class T, int kKeys>
struct BiasOfUnit {
  std::uint32_t pairs[kKeys / 4];

  /// Begins to read. Places outside of the operand are replaced by others: their scores are hidden or not stored.
  __device__ __forceinline__ void read(const HopperForm& form, const Item& item, const void* bias, int first_row,
                                       int unit) {
    const bool is_mask = form.bias == HopperBias::kMask;
    const int first = unit * kKeys + static_cast<int>(threadIdx.x) % 4 * 2;
    const bool is_whole = (unit + 1) * kKeys <= form.keys && form.bias_is_paired;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::int64_t query = min(first_row + row_of_thread() + 8 * half, form.queries - 1);
      const std::int64_t row = item.batch * form.bias_batch + item.head * form.bias_head + query * form.bias_query;
      const auto* const bytes = static_cast<const std::uint8_t*>(bias) + row;
      const auto* const halves = static_cast<const std::uint16_t*>(bias) + row;
#pragma unroll
      for (int j = 0; j < kKeys / 8; ++j) {
        std::uint32_t& pair = pairs[2 * j + half];
        const int key = first + 8 * j;
        if (is_whole) {
          pair = is_mask ? *reinterpret_cast<const std::uint16_t*>(bytes + key)
                         : *reinterpret_cast<const std::uint32_t*>(halves + key);
        } else {
          const int low = min(key, form.keys - 1), high = min(key + 1, form.keys - 1);
          pair =
              is_mask ? bytes[low] | std::uint32_t{bytes[high]} << 8 : halves[low] | std::uint32_t{halves[high]} << 16;
        }
      }
    }
  }

  /// Makes scores exponents of 2. A bias of -infinity hides a key, a finite one does not.
  __device__ __forceinline__ void add_to(float (&scores)[kKeys / 2], const HopperForm& form) const {
    constexpr float kLogOfE = 1.44269504088896341F, kLowest = -3e38F;
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i) {
      const std::uint32_t pair = pairs[i / 2];
      if (form.bias == HopperBias::kMask) {
        scores[i] = (pair >> i % 2 * 8 & 0xFF) != 0 ? scores[i] * form.scale : cuda::Max::kNeutral;
      } else {
        const float bias = i % 2 == 0 ? hw::low_of(T(), pair) : hw::high_of(T(), pair);
        const float lowest = bias == cuda::Max::kNeutral ? bias : kLowest;
        scores[i] = fmaxf(fmaf(scores[i], form.scale, bias * kLogOfE), lowest);
      }
    }
  }
};

/// A warpgroup: sums of its 64 queries, from item.row + group * 64 on, over the keys of an item, with the maxima that
/// they are relative to.
template <class T, int kRows, int kKeys, int kStages, int kDim, bool kBiased, class TurnOfGroup>
__device__ __forceinline__ void attend(const HopperForm& form, const Item& item, int group, const TurnOfGroup& turn,
                                       std::uint32_t queries, std::uint32_t ring, const void* bias, Barriers& barriers,
                                       volatile int& seen_of_warp, Progress& progress, Softmax<kKeys, kBiased>& softmax,
                                       float (&sums)[kDim / 2]) {
  constexpr int kBytes = kBytesOf<kDim, kKeys>, kGroupBytes = 8 * kRowBytes, kPieceSteps = kPieceDim / 16;
  const bool signals = threadIdx.x % 32 == 0;
  // In units of keys that a diagonal or the end cuts; a register less in the other ones.
  constexpr int kMostCut = (kRows + kKeys - 2) / kKeys + 1;
  if (signals) seen_of_warp = item.row + group * kGroupRows + 1 + form.diagonal;
  __syncwarp();
  float scores[kKeys / 2] = {};
  uint4 weights[kKeys / 16];
  [[maybe_unused]] BiasOfUnit<T, kKeys> added;
  const auto begin_scores = [&] {
    const std::uint32_t stage = progress.keys % kStages;
    hw::wait(barriers.full_k[stage], progress.keys / kStages & 1);
    turn.wait();
    const std::uint64_t q = hw::describe_operand(queries, kGroupBytes);
    const std::uint64_t k = hw::describe_operand(ring + stage * 2 * kBytes, kGroupBytes);
    hw::begin_wgmma();
    hw::multiply</*kAdds=*/false>(T(), scores, q, k);
#pragma unroll
    for (int i = 1; i < kDim / 16; ++i) {
      const int piece = i / kPieceSteps * (kRowBytes / 16), step = 2 * (i % kPieceSteps);
      hw::multiply(T(), scores, q + kRows * piece + step, k + kKeys * piece + step);
    }
    hw::commit_wgmma();
  };
  const auto begin_sums = [&] {
    const std::uint32_t stage = progress.values % kStages;
    hw::wait(barriers.full_v[stage], progress.values / kStages & 1);
    const std::uint64_t v = hw::describe_operand(ring + stage * 2 * kBytes + kBytes, kGroupBytes, kKeys * kRowBytes);
    hw::begin_wgmma();
#pragma unroll
    for (int i = 0; i < kKeys / 16; ++i) hw::multiply</*kAcross=*/true>(T(), sums, weights[i], v + kRowBytes * i);
    hw::commit_wgmma();
  };
  const auto end_scores = [&](int unit) {
    hw::settle(scores);
    if (signals) hw::arrive(barriers.empty_k[progress.keys % kStages]);
    ++progress.keys;
    if (signals && unit + 1 == item.end) hw::arrive(barriers.empty_q);
    if constexpr (kBiased) added.add_to(scores, form);
    if (unit + kMostCut < item.end) return;
    const int seen = seen_of_warp, first = unit * kKeys;  // by the first row
    if (min(form.keys, seen) - first >= kKeys) return;
    const int row = row_of_thread();
    hide_scores<kKeys>(scores, {min(form.keys, seen + row) - first, min(form.keys, seen + row + 8) - first});
  };
  const auto read_bias = [&](int unit) {
    if constexpr (kBiased) added.read(form, item, bias, item.row + group * kGroupRows, unit);
  };
  const auto end_sums = [&] {
    hw::settle(sums);
    hw::settle(weights);
    if (signals) hw::arrive(barriers.empty_v[progress.values % kStages]);
    ++progress.values;
  };

  read_bias(item.begin);
  hw::wait(barriers.full_q, progress.tiles++ & 1);
  begin_scores();
  turn.pass();
  hw::wait_for_wgmma<0>();
  end_scores(item.begin);
  softmax.begin(scores);
  softmax.take(scores);
  to_weights<T, kKeys>(scores, weights);
  hw::clear(sums);
  for (int unit = item.begin + 1; unit < item.end; ++unit) {
    read_bias(unit);
    begin_scores();
    begin_sums();
    turn.pass();
    hw::wait_for_wgmma<1>();
    end_scores(unit);
    float factors[2];
    const bool grows = softmax.raise(scores, factors);
    softmax.take(scores);
    hw::settle(scores);
    hw::wait_for_wgmma<0>();
    end_sums();
    if (grows) scale_rows<kDim>(sums, factors);
    to_weights<T, kKeys>(scores, weights);
  }
  begin_sums();
  hw::wait_for_wgmma<0>();
  end_sums();
  softmax.end();
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

// A shared tile. Rows of sums are in shared memory as floats, each followed by the two numbers that they are
// relative to.
template <int kDim>
constexpr int kPitch = sums_pitch(kDim);

template <int kDim>
__device__ __forceinline__ void put_sums(int group, float most, float most_below, float total, float total_below,
                                         const float (&sums)[kDim / 2], float* to) {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup;
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float* const row = to + (group * kGroupRows + row_of_thread() + 8 * half) * kPitch<kDim>;
#pragma unroll
    for (int j = 0; j < kDim / 8; ++j)
      *reinterpret_cast<float2*>(row + 8 * j + thread % 4 * 2) =
          make_float2(sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]);
    if (thread % 4 == 0)
      *reinterpret_cast<float4*>(row + kDim) =
          make_float4(half == 0 ? most : most_below, half == 0 ? total : total_below, 0, 0);
  }
}

/// Sends every other block of the cluster its rows; one thread.
template <int kRows, int kDim>
__device__ __forceinline__ void send_rows(const HopperForm& form, int rank, std::uint32_t sums, Barriers& barriers) {
  constexpr int kBytes = kPitch<kDim> * static_cast<int>(sizeof(float));
  const int split = form.split, share_rows = form.share_rows;
  for (int i = 1; i < split; ++i) {
    const int to = (rank + i) % split;  // not all to the same at once
    const int begin = kRows * to / split, end = kRows * (to + 1) / split;
    const std::uint32_t there = sums + (kRows + (rank - (rank > to ? 1 : 0)) * share_rows) * kBytes;
    hw::copy_to_block(hw::address_in(there, to), sums + begin * kBytes, (end - begin) * kBytes,
                      hw::address_in(hw::shared_address(&barriers.received), to));
  }
}

/// Joins the cluster's sums for this block's rows, in the order of its blocks, and stores the results.
template <class T, int kGroups, int kDim>
__device__ __forceinline__ void join_rows(const HopperForm& form, const Item& item, int rank, const float* sums, T* out,
                                          float* logsumexp) {
  constexpr int kRows = kGroups * kGroupRows, kPack = 8, kPacks = kDim / kPack;
  const int split = form.split, begin = kRows * rank / split, end = kRows * (rank + 1) / split;
  const auto row_of = [&](int part, int row) {
    const int from = part == rank ? begin : kRows + (part - (part > rank ? 1 : 0)) * form.share_rows;
    return sums + (from + row) * kPitch<kDim>;
  };
  T* const to = out + item.batch * form.out_batch + item.head * form.out_head;
  const int items = (end - begin) * kPacks;
  for (int index = static_cast<int>(threadIdx.x); index < items; index += kGroups * hw::kWarpgroup) {
    const int row = index / kPacks, column = (index - row * kPacks) * kPack, query = item.row + begin + row;
    if (query >= form.queries) continue;
    float most = cuda::Max::kNeutral;
    for (int part = 0; part < split; ++part) most = fmaxf(most, row_of(part, row)[kDim]);
    float values[kPack] = {}, added[kPack], total = 0;
    for (int part = 0; part < split; ++part) {
      const float* const from = row_of(part, row);
      const float2 relative = *reinterpret_cast<const float2*>(from + kDim);
      const float factor = power_of_2(relative.x - most);
      total += relative.y * factor;
      cuda::Packs<float, kPack>::expand(cuda::Packs<float, kPack>::read(from + column), added);
#pragma unroll
      for (int i = 0; i < kPack; ++i) values[i] += added[i] * factor;
    }
#pragma unroll
    for (float& value : values) value /= total;
    if (column < form.value_dim) cuda::Packs<T, kPack>::store(values, to + query * form.out_token + column);
    if (logsumexp != nullptr && column == 0)
      logsumexp[item.batch * form.sum_batch + item.head * form.sum_head + query] = natural_log(most, total);
  }
}

/// All of a shared tile that follows its sums: the last item of a block, so that the rings are free.
template <class T, int kGroups, int kDim, class SoftmaxOfGroup>
__device__ __forceinline__ void share_results(const HopperForm& form, const Item& item, int group,
                                              const SoftmaxOfGroup& softmax, const float (&sums)[kDim / 2],
                                              std::byte* ring, Barriers& barriers, T* out, float* logsumexp) {
  constexpr int kRows = kGroups * kGroupRows;
  const auto meet = [] { hw::meet(kAllMeet, kGroups * hw::kWarpgroup); };
  const int rank = static_cast<int>(blockIdx.x) % form.split;
  auto* const stored = reinterpret_cast<float*>(ring);
  meet();  // the rings are read no more
  hw::arrive_in_cluster();
  put_sums<kDim>(group, softmax.exponent(0), softmax.exponent(1), softmax.totals[0], softmax.totals[1], sums, stored);
  hw::fence_for_copies();
  meet();
  hw::wait_for_cluster();  // nor those of others
  if (threadIdx.x == 0) send_rows<kRows, kDim>(form, rank, hw::shared_address(ring), barriers);
  hw::wait(barriers.received, 0);
  __syncwarp();
  hw::arrive_in_cluster();
  join_rows<T, kGroups, kDim>(form, item, rank, stored, out, logsumexp);
  hw::wait_for_cluster();  // until then copies of other blocks read this shared memory
}

#endif  // HR_HAS_HOPPER

template <class T, int kGroups, int kKeys, int kStages, int kResident, int kDim, bool kBiased>
__global__ void __launch_bounds__(kThreads<kGroups>, kResident)
    hopper_attention_kernel(const __grid_constant__ HopperForm form, const __grid_constant__ HopperMaps maps,
                            const HopperPlaces places) {
#if HR_HAS_HOPPER
  constexpr int kRows = kGroups * kGroupRows;
  extern __shared__ __align__(1024) std::byte queries[];
  __shared__ Barriers barriers;
  __shared__ int seen_of_warps[kGroups * 4];
  cuda::let_next_begin();
  std::byte* const staged = queries + kBytesOf<kDim, kRows>;
  std::byte* const ring = staged + kBytesOf<kDim, kRows>;
  const int group = static_cast<int>(threadIdx.x) / hw::kWarpgroup;
  if (threadIdx.x == 0) {
    constexpr int kWarps = kGroups * 4;
    hw::init_barrier(barriers.full_q, 1);
    hw::init_barrier(barriers.empty_q, kWarps);
    for (int i = 0; i < kStages; ++i) {
      hw::init_barrier(barriers.full_k[i], 1);
      hw::init_barrier(barriers.empty_k[i], kWarps);
      hw::init_barrier(barriers.full_v[i], 1);
      hw::init_barrier(barriers.empty_v[i], kWarps);
    }
    hw::init_barrier(barriers.received, 1);
    hw::fence_barrier_init();
    if (form.split > 1) {
      const int rank = static_cast<int>(blockIdx.x) % form.split;
      const int rows = kRows * (rank + 1) / form.split - kRows * rank / form.split;
      hw::arrive_expecting(barriers.received, (form.split - 1) * rows * kPitch<kDim> * static_cast<int>(sizeof(float)));
    }
  }
  __syncthreads();
  if (group == kGroups) {
    if constexpr (kGroups > 1) hw::give_registers<kCopyRegisters<kGroups>>();
    if (threadIdx.x / 32 == kGroups * 4 && hw::is_elected())
      copy_all<kRows, kKeys, kStages, kDim>(form, maps, queries, ring, barriers);
    return;
  }
  if constexpr (kGroups > 1) hw::take_registers<kRegisters<kGroups>>();
  cuda::wait_for_previous();
  const Turn<kGroups, kResident == 1 && (kGroups > 1)> turn{group};
  turn.open();
  const std::uint32_t mine = hw::shared_address(queries) + group * kGroupRows * kRowBytes;
  const std::uint32_t to = hw::shared_address(staged) + group * kBytesOf<kDim, kGroupRows>;
  Progress progress;
  Item item;
  for (int index = 0; find_item<kRows, kKeys>(form, index, item); ++index) {
    Softmax<kKeys, kBiased> softmax(kBiased ? 1 : form.scale);
    float sums[kDim / 2];
    attend<T, kRows, kKeys, kStages, kDim, kBiased>(form, item, group, turn, mine, hw::shared_address(ring),
                                                    places.bias, barriers, seen_of_warps[threadIdx.x / 32], progress,
                                                    softmax, sums);
    asm volatile("" : "+r"(index));  // the item's place is worked out again rather than kept in registers
    find_item<kRows, kKeys>(form, index, item);
    if constexpr (!kBiased)
      if (item.is_shared) {
        share_results<T, kGroups, kDim>(form, item, group, softmax, sums, ring, barriers, static_cast<T*>(places.out),
                                        places.logsumexp);
        break;
      }
    const float inverses[2] = {softmax.inverse(0), softmax.inverse(1)};
    const float logs[2] = {natural_log(softmax.exponent(0), softmax.totals[0]),
                           natural_log(softmax.exponent(1), softmax.totals[1])};
    scale_rows<kDim>(sums, inverses);
    store_results<T, kDim>(form, maps, item, group, logs, sums, to, places.logsumexp);
  }
  if (threadIdx.x % hw::kWarpgroup == 0) hw::wait_for_stores_to_read();
#endif
}

cuda::LaunchShape shape_of(const HopperForm& form, int threads, void* stream = nullptr) {
  return cuda::large_shape(form.clusters() * form.split, threads, form.shared_bytes, stream, form.split);
}

/// Calls use(kernel, threads of a block) for a tile.
template <class Use>
void with_kernel(const HopperTile& tile, const HopperForm& form, DType dtype, const Use& use) {
  const auto with = [&](auto groups, auto keys, auto stages, auto resident, auto dim, auto biased) {
    cuda::with_small_type_of(dtype, [&](auto type) {
      use(hopper_attention_kernel<decltype(type), groups(), keys(), stages(), resident(), dim(), biased() != 0>,
          kThreads<groups()>);
    });
  };
  const int width = pieces_of(form.dim) * kPieceDim;
#define HR_TILE(of_groups, of_keys, stages, resident, of_width, takes_bias)                                    \
  if (tile.warpgroups == (of_groups) && tile.keys == (of_keys) && width == (of_width)) {                       \
    const auto with_dim = [&](auto dim, auto biased) {                                                         \
      with(Constant<of_groups>(), Constant<of_keys>(), Constant<stages>(), Constant<resident>(), dim, biased); \
    };                                                                                                         \
    if constexpr (takes_bias)                                                                                  \
      if (form.bias != HopperBias::kNone) return with_dim(Constant<of_width>(), Constant<1>());                \
    const auto with_bare = [&](auto dim) { with_dim(dim, Constant<0>()); };                                    \
    if constexpr ((of_width) == kPieceDim)                                                                     \
      return cuda::with_one_of<32, 48, 64>(form.dim, with_bare);                                               \
    else                                                                                                       \
      return cuda::with_one_of<96, 128>(form.dim, with_bare);                                                  \
  }
#include "kernels/attention/hopper_tiles.def"
#undef HR_TILE
}

}  // namespace

void launch_hopper(void* stream, DType dtype, const HopperTile& tile, const HopperForm& form, const HopperMaps& maps,
                   const HopperPlaces& places) {
  with_kernel(tile, form, dtype, [&](auto kernel, int threads) {
    cuda::launch_large(kernel, shape_of(form, threads, stream), form, maps, places);
  });
  cuda::check_launched("hopper attention kernel");
}

int hopper_clusters_at_once(const HopperTile& tile, const HopperForm& form) {
  int clusters = 0;
  with_kernel(tile, form, DType::kBF16,
              [&](auto kernel, int threads) { clusters = cuda::clusters_at_once(kernel, shape_of(form, threads)); });
  cuda::check_launched("hopper attention kernel");
  return clusters;
}

}  // namespace headroom::attentions
