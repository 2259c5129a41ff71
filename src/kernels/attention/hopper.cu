// attention on Hopper's tensor cores (sm_90a) for heads of up to 128: o = softmax(scale q k^T + bias) v, scores stay
// in registers.
//
// Shapes     q[b, h, s, d], k[b, g, t, d], v[b, g, t, e] -> o[b, h, s, e], logsumexp[b, h, s] or none: d and e
//            multiples of 8 up to 128, h a multiple of g; any strides that are multiples of 16 bytes, so that heads
//            may be interleaved, or next to those of a merged linear. A bias or a mask [b or 1, h or 1, s or 1, t].
// Dtypes     bf16 or f16, a mask of bool; scores, softmax and sums in f32, probabilities rounded to the dtype before
//            the second matmul.
// Bytes      (q + k + v + o) * 2, k and v once for each tile of queries from the second-level cache, the bias once
// FLOPs      2 * b*h*s*t * (d + e), and b*h*s*t exponentials; in causal order about half
//
// The two floors of 64 queries by 128 keys on one multiprocessor: multiply-adds 4 * 64*128*d / 4096 clocks, 512 in
// heads of 64 and 1024 in heads of 128; exponentials 64*128 / 16 = 512 clocks. In heads of 64 either alone would be
// 946 to 998 TFLOP/s, in heads of 128 the multiply-adds alone. The speed depends on how much the two overlap.
//
// A thread block has a tile: 64, 128 or 192 queries of a head, 64 for each warpgroup, which keeps its scores,
// probabilities and sums in registers: in heads of 128 with 128 keys at a time 64 + 32 + 64 of 224 for a thread, with
// 144 keys 72 + 36 + 64. One thread of one more warp copies (TMA) queries once, and keys and values to rings. A
// warpgroup begins the scores of the next keys and the weighted sum of those before, and computes exponentials while
// the sum is in flight. Warpgroups that have a multiprocessor to themselves alternate in issuing multiply-adds, so
// that the exponentials of one overlap the multiply-adds of another. A head lies in shared memory in pieces of 64
// elements, padded with zeros (copies fill them in), and the matmuls are 32, 48, 64, 96 or 128 deep and wide.
//
// Exponents are relative to a row's largest score so far. It is replaced only by a score that is larger by a factor
// of 2^8, because f32 sums and 16-bit floats are as exact at 2^8 as at 1. So sums are seldom scaled
// (FlashAttention-4 does so).
//
// In causal order, with any diagonal, a tile ends at the last key that its last query sees. Only units of keys that the
// diagonal or the end of the keys cuts test elements. Tiles with most keys come first.
//
// A bias with a row for each query is copied (TMA) to a ring too, and added from there to scores (ldmatrix has their
// layout). One that all queries share, or in rows at no multiples of 16 bytes, and a mask are read to registers while
// the multiply-adds run. A query that sees nothing gets 0, and a logsumexp of -infinity.
//
// 4096 queries of 5 heads are 160 tiles of 128 on 132 multiprocessors: two rounds for the work of 1.2. Two remedies:
// - A cluster of blocks may have, after whole tiles, one more whose keys it shares: 4 blocks have 5 tiles in 1.25
//   rounds. Each sends the others their rows of its sums with largest scores (copies between blocks' shared memory),
//   and adds up its own in the order of the blocks.
// - Each block has whole tiles, and the units of keys of the rest are spread evenly over all blocks, so that a block
//   may begin and end inside of a tile. It writes its sums to memory; the last block of a tile joins them in order.
// Both give the same bits in every run.
//
// Online softmax and its order of matmuls: FlashAttention-3 (arXiv 2407.08608), sections 3.1 and 3.2.
//
// Measured   (H200, bench/results/h200/attention.txt) cuDNN's time over this kernel's, at full clock after rest and
//            under the power limit: 24 heads of 128 x 4608 1.054 and 1.066 (687 and 609 TFLOP/s), x 1536 1.160 and
//            1.151, x 4112 1.138 and 1.181; 16 heads x 32768 1.045 and 1.035; causal 1.08 to 1.67; heads of 64 1.07
//            to 1.15. T5's attention with its bias, 64 heads of 64 x 512: 2.51 times as fast as by two matmuls and a
//            softmax.
//
// Tried      (H200, the same file) 160 keys at a time, in heads of 128: 1% slower than 144 or as fast. All units spread
//            over blocks from the beginning: at 24 x 4608 6% slower after rest, because blocks that are at different
//            keys share no reads of them; a second kernel that joins the parts took 8 us of the 311 at 24 x 4112.
//            (H100, bench/results/h100/attention_ways.txt) Two of eight exponentials as polynomials of degree 3, on
//            units that are idle else, in tiles of 128 keys (FlashAttention-4 does so). In heads of 40 and 64 tiles
//            of 192 queries took 3 to 12% longer and those of 128 between 2% longer and 5% less; the fastest tile of
//            a shape gained 0.8% at most. In heads of 32 and of 8 the fastest tile gained 8% and 4%. For 4096 queries
//            of 5 heads tiles of 128 queries, two rounds of them: 80.8 us; one for each block and one shared by 2:
//            63.8; 110 tiles of 192, one for each block: 53.5.

#include <cuda_runtime_api.h>

#include "backends/cuda/early_launch.cuh"
#include "kernels/attention/hopper_blocks.cuh"
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
template <int kGroups, bool kTakesMost>
constexpr int kCopyRegisters = kGroups == 3 ? 32
                               : kTakesMost ? 40
                                            : 56;
template <int kGroups, bool kTakesMost>
constexpr int kRegisters = kGroups == 3 ? 160
                           : kTakesMost ? 232
                                        : 224;

/// Of a stage of a bias that is copied: pieces of 64 keys of all queries, one after the other.
template <int kRows, int kKeys>
constexpr int kBiasBytes = bias_bytes(kRows, kKeys);

#if HR_HAS_HOPPER

/// A block's barriers, and its items: the thread that copies says which there are.
struct Barriers {
  Item items[2];  // that of full_q's phase
  hw::Barrier full_q, empty_q;
  hw::Barrier full_k[kMostStages], empty_k[kMostStages];
  hw::Barrier full_v[kMostStages], empty_v[kMostStages];
  hw::Barrier full_bias[kMostBiasStages], empty_bias[kMostBiasStages];
  hw::Barrier received;  // all that others of the cluster have summed up for this block
};

/// One thread: copies all that the block reads.
template <int kRows, int kKeys, int kStages, int kDim, bool kBiased>
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
  const int sharers = form.sharers;
  std::uint32_t tiles = 0, units = 0;
  Item item;
  [[maybe_unused]] const auto copy_bias = [&](int unit, std::uint32_t count) {
    const std::uint32_t stages = form.bias_stages, stage = count & (stages - 1);
    std::byte* const to = ring + kStages * 2 * kBytes + stage * kBiasBytes<kRows, kKeys>;
    hw::wait(barriers.empty_bias[stage], (count & stages) != 0 ? 0 : 1);
    hw::arrive_expecting(barriers.full_bias[stage], kBiasBytes<kRows, kKeys>);
#pragma unroll
    for (int piece = 0; piece < kKeys / kPieceDim; ++piece)
      hw::copy_box(to + piece * kRows * kRowBytes, maps.bias, barriers.full_bias[stage],
                   unit * kKeys + piece * kPieceDim, item.row, form.bias_head == 0 ? 0 : item.head,
                   form.bias_batch == 0 ? 0 : item.batch);
  };
  for (;; ++tiles) {
    const bool is_left = find_item<kRows, kKeys>(form, static_cast<int>(tiles), item);
    if (!is_left) item.begin = item.end = 0;
    if (tiles == 0) cuda::wait_for_previous();
    hw::wait(barriers.empty_q, (tiles & 1) ^ 1);
    barriers.items[tiles & 1] = item;
    hw::arrive_expecting(barriers.full_q, is_left ? kBytesOf<kDim, kRows> : 0);
    if (!is_left) return;
    copy(queries, maps.q, barriers.full_q, kRows, item.row, item.head, item.batch);
    const int head = item.head / sharers;
    for (int unit = item.begin; unit < item.end; ++unit, ++units) {
      const std::uint32_t stage = units % kStages, phase = units / kStages & 1;
      std::byte* const to = ring + stage * 2 * kBytes;
      hw::wait(barriers.empty_k[stage], phase ^ 1);
      hw::arrive_expecting(barriers.full_k[stage], kBytes);
      copy(to, maps.k, barriers.full_k[stage], kKeys, unit * kKeys, head, item.batch);
      if constexpr (kBiased)
        if (form.bias_stages > 0) copy_bias(unit, units);
      hw::wait(barriers.empty_v[stage], phase ^ 1);
      hw::arrive_expecting(barriers.full_v[stage], kBytes);
      copy(to + kBytes, maps.v, barriers.full_v[stage], kKeys, unit * kKeys, head, item.batch);
    }
  }
}

/// What is added to a thread's scores, or says which of them there are. A bias that the copy engine can bring is read
/// from shared memory when scores are there; others from memory before, two keys in each register.
template <class T, int kRows, int kKeys>
struct BiasOfUnit {
  std::uint32_t pairs[kKeys / 4];

  /// Begins to read. Places outside of the operand are replaced by others: their scores are hidden or not stored.
  __device__ __forceinline__ void read(const HopperForm& form, const Item& item, const void* bias, int first_row,
                                       int unit) {
    const std::int64_t head = item.batch * form.bias_batch + item.head * form.bias_head;
    const int first = unit * kKeys + static_cast<int>(threadIdx.x) % 4 * 2;
    const auto read_pairs = [&](const auto* values, const auto& read_pair) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const std::int64_t query = min(first_row + row_of_thread() + 8 * half, form.queries - 1);
        const auto* const row = values + head + query * form.bias_query;
#pragma unroll
        for (int j = 0; j < kKeys / 8; ++j) pairs[2 * j + half] = read_pair(row, first + 8 * j);
      }
    };
    const auto inside = [&](int key) { return min(key, form.keys - 1); };
    const auto* const bytes = static_cast<const std::uint8_t*>(bias);
    const auto* const halves = static_cast<const std::uint16_t*>(bias);
    const bool is_whole = (unit + 1) * kKeys <= form.keys && form.bias_is_paired;
    if (form.bias == HopperBias::kMask) {
      if (is_whole)
        return read_pairs(bytes, [](const std::uint8_t* row, int key) -> std::uint32_t {
          return *reinterpret_cast<const std::uint16_t*>(row + key);
        });
      return read_pairs(bytes, [&](const std::uint8_t* row, int key) {
        return row[inside(key)] | std::uint32_t{row[inside(key + 1)]} << 8;
      });
    }
    if (is_whole)
      return read_pairs(
          halves, [](const std::uint16_t* row, int key) { return *reinterpret_cast<const std::uint32_t*>(row + key); });
    read_pairs(halves, [&](const std::uint16_t* row, int key) {
      return row[inside(key)] | std::uint32_t{row[inside(key + 1)]} << 16;
    });
  }

  /// Makes scores exponents of 2.
  __device__ __forceinline__ void add_to(float (&scores)[kKeys / 2], const HopperForm& form) const {
    if (form.bias == HopperBias::kMask) {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i)
        scores[i] = (pairs[i / 2] >> i % 2 * 8 & 0xFF) != 0 ? scores[i] * form.scale : cuda::Max::kNeutral;
    } else {
#pragma unroll
      for (int i = 0; i < kKeys / 2; ++i) add(form, pairs[i / 2], i % 2, scores[i]);
    }
  }
  /// The same with a bias in shared memory, from the first row of a warpgroup on.
  __device__ __forceinline__ static void add_copied_to(float (&scores)[kKeys / 2], const HopperForm& form,
                                                       std::uint32_t bias) {
    const int lane = static_cast<int>(threadIdx.x) % 32, row = lane % 8;
    const std::uint32_t rows =
        bias + (static_cast<int>(threadIdx.x) % hw::kWarpgroup / 32 * 16 + lane / 8 % 2 * 8 + row) * kRowBytes;
#pragma unroll
    for (int j = 0; j < kKeys / 8; j += 2) {
      std::uint32_t read[4];  // of eight keys and the next, each of both rows
      const std::uint32_t column = (j % 8 + lane / 16) ^ row;
      hw::load_matrices(rows + j / 8 * kRows * kRowBytes + column * 16, read);
#pragma unroll
      for (int i = 0; i < 8; ++i) add(form, read[i / 2], i % 2, scores[4 * j + i]);
    }
  }

 private:
  /// A bias of -infinity hides a key, a finite one does not.
  __device__ __forceinline__ static void add(const HopperForm& form, std::uint32_t pair, int which, float& score) {
    constexpr float kLogOfE = 1.44269504088896341F, kLowest = -3e38F;
    const float bias = which == 0 ? hw::low_of(T(), pair) : hw::high_of(T(), pair);
    const float lowest = bias == cuda::Max::kNeutral ? bias : kLowest;
    score = larger_or_nan(fmaf(score, form.scale, bias * kLogOfE), lowest);
  }
};

/// A warpgroup: sums of its 64 queries, from item.row + group * 64 on, over the keys of an item, with the maxima that
/// they are relative to.
template <class T, int kRows, int kKeys, int kStages, int kDim, bool kBiased, class TurnOfGroup>
__device__ __forceinline__ void attend(const HopperForm& form, const Item& item, int group, const TurnOfGroup& turn,
                                       std::uint32_t queries, std::uint32_t ring, const void* bias, Barriers& barriers,
                                       Progress& progress, Softmax<kKeys, kBiased>& softmax, float (&sums)[kDim / 2]) {
  constexpr int kBytes = kBytesOf<kDim, kKeys>, kGroupBytes = 8 * kRowBytes, kPieceSteps = kPieceDim / 16;
  const bool signals = threadIdx.x % 32 == 0;
  const int end = item.end;
  float scores[kKeys / 2] = {};
  uint4 weights[kKeys / 16];
  [[maybe_unused]] BiasOfUnit<T, kRows, kKeys> added;
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
  [[maybe_unused]] const auto add_bias = [&] {
    if (form.bias_stages == 0) return added.add_to(scores, form);
    const std::uint32_t stages = form.bias_stages, stage = progress.keys & (stages - 1);
    hw::wait(barriers.full_bias[stage], (progress.keys & stages) != 0 ? 1 : 0);
    added.add_copied_to(
        scores, form, ring + kStages * 2 * kBytes + stage * kBiasBytes<kRows, kKeys> + group * kGroupRows * kRowBytes);
    __syncwarp();
    if (signals) hw::arrive(barriers.empty_bias[stage]);
  };
  const auto end_scores = [&](int unit) {
    hw::settle(scores);
    if (signals) hw::arrive(barriers.empty_k[progress.keys % kStages]);
    if constexpr (kBiased) add_bias();
    ++progress.keys;
    if (signals && unit + 1 == end) hw::arrive(barriers.empty_q);
    if (unit + form.most_cut < end) return;
    const int seen = item.row + group * kGroupRows + 1 + form.diagonal, first = unit * kKeys;  // by the first row
    if (min(form.keys, seen) - first >= kKeys) return;
    const int row = row_of_thread();
    hide_scores<kKeys>(scores, {min(form.keys, seen + row) - first, min(form.keys, seen + row + 8) - first});
  };
  const auto read_bias = [&](int unit) {
    if constexpr (kBiased)
      if (form.bias_stages == 0) added.read(form, item, bias, item.row + group * kGroupRows, unit);
  };
  const auto end_sums = [&] {
    hw::settle(sums);
    hw::settle(weights);
    if (signals) hw::arrive(barriers.empty_v[progress.values % kStages]);
    ++progress.values;
  };

  read_bias(item.begin);
  begin_scores();
  turn.pass();
  hw::wait_for_wgmma<0>();
  end_scores(item.begin);
  softmax.begin(scores);
  softmax.take(scores);
  to_weights<T, kKeys>(scores, weights);
  hw::clear(sums);
  for (int unit = item.begin + 1; unit < end; ++unit) {
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

/// Results of queries that the diagonal leaves no key: without a bias a softmax makes them NaN.
template <int kDim>
__device__ __forceinline__ void clear_blind_rows(const HopperForm& form, const Item& item, int group, float (&logs)[2],
                                                 float (&sums)[kDim / 2]) {
  const int blind = -form.diagonal - item.row - group * kGroupRows - row_of_thread();  // from a thread's first row on
#pragma unroll
  for (int i = 0; i < kDim / 2; ++i)
    if (i / 2 % 2 * 8 < blind) sums[i] = 0;
#pragma unroll
  for (int half = 0; half < 2; ++half)
    if (half * 8 < blind) logs[half] = cuda::Max::kNeutral;
}

#endif  // HR_HAS_HOPPER

template <class T, int kGroups, int kKeys, int kStages, int kResident, int kDim, bool kBiased>
__global__ void __launch_bounds__(kThreads<kGroups>, kResident)
    hopper_attention_kernel(const __grid_constant__ HopperForm form, const __grid_constant__ HopperMaps maps,
                            const HopperPlaces places) {
#if HR_HAS_HOPPER
  constexpr int kRows = kGroups * kGroupRows;
  [[maybe_unused]] constexpr bool kTakesMost = kBiased && kDim > kPieceDim;
  extern __shared__ __align__(1024) std::byte queries[];
  __shared__ Barriers barriers;
  [[maybe_unused]] __shared__ int given;
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
    for (int i = 0; i < kMostBiasStages; ++i) {
      hw::init_barrier(barriers.full_bias[i], 1);
      hw::init_barrier(barriers.empty_bias[i], kWarps);
    }
    hw::init_barrier(barriers.received, 1);
    hw::fence_barrier_init();
    expect_rows<float, kRows, kDim>(form, barriers.received);
  }
  __syncthreads();
  if (group == kGroups) {
    if constexpr (kGroups > 1) hw::give_registers<kCopyRegisters<kGroups, kTakesMost>>();
    if (threadIdx.x / 32 == kGroups * 4 && hw::is_elected())
      copy_all<kRows, kKeys, kStages, kDim, kBiased>(form, maps, queries, ring, barriers);
    return;
  }
  if constexpr (kGroups > 1) hw::take_registers<kRegisters<kGroups, kTakesMost>>();
  cuda::wait_for_previous();
  const Turn<kGroups, kResident == 1 && (kGroups > 1)> turn{group};
  turn.open();
  const std::uint32_t mine = hw::shared_address(queries) + group * kGroupRows * kRowBytes;
  const std::uint32_t to = hw::shared_address(staged) + group * kBytesOf<kDim, kGroupRows>;
  Progress progress;
  for (std::uint32_t index = 0;; ++index) {
    hw::wait(barriers.full_q, index & 1);
    const Item& item = barriers.items[index & 1];  // in shared memory, so that it takes no registers
    if (item.begin == item.end) break;
    Softmax<kKeys, kBiased> softmax(kBiased ? 1 : form.scale);
    float sums[kDim / 2];
    attend<T, kRows, kKeys, kStages, kDim, kBiased>(form, item, group, turn, mine, hw::shared_address(ring),
                                                    places.bias, barriers, progress, softmax, sums);
    if constexpr (!kBiased) {
      if (item.is_part && form.split > 1) {
        share_results<T, float, kGroups, kDim>(form, item, group, softmax, sums, ring, barriers.received, places);
        break;
      }
      if constexpr (kGroups > 1)
        if (item.is_part) {
          const int slot = index == static_cast<std::uint32_t>(form.whole) ? 0 : 1;
          give_part<T, float, kGroups, kKeys, kDim>(form, item, group, softmax, sums, slot, given, places);
          continue;
        }
    }
    const float inverses[2] = {softmax.inverse(0), softmax.inverse(1)};
    float logs[2] = {natural_log(softmax.exponent(0), softmax.totals[0]),
                     natural_log(softmax.exponent(1), softmax.totals[1])};
    scale_rows<kDim>(sums, inverses);
    if constexpr (!kBiased)
      if (item.row + form.diagonal < 0) clear_blind_rows<kDim>(form, item, group, logs, sums);
    store_results<T, kDim>(form, maps, item, group, logs, sums, to, places.logsumexp);
  }
  if (threadIdx.x % hw::kWarpgroup == 0) hw::wait_for_stores_to_read();
#endif
}

cuda::LaunchShape shape_of(const HopperForm& form, int threads, void* stream = nullptr) {
  return cuda::large_shape(form.blocks(), threads, form.shared_bytes, stream, form.split);
}

/// Calls use(kernel, threads of a block) for a tile.
template <class Use>
void with_kernel(const HopperTile& tile, const HopperForm& form, DType dtype, const Use& use) {
  const auto with = [&](auto groups, auto keys, auto stages, auto resident, auto dim, auto biased) {
    cuda::with_small_type_of(dtype, [&](auto type) {
      constexpr int kStages = biased() != 0 ? kBiasedStages : stages();
      use(hopper_attention_kernel<decltype(type), groups(), keys(), kStages, resident(), dim(), biased() != 0>,
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
  clear_given(stream, form, places.given);
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
