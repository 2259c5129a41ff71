// attention_backward on Hopper's tensor cores (sm_90a) for heads of up to 128: the gradients of q, k and v from that of
// attention's result, without scores in memory.
//
// Shapes     q[b, h, s, d], k[b, g, t, d], v[b, g, t, e], d_out[b, h, s, e], logsumexp[b, h, s], delta[b, h, s] -> d_q,
//            d_k, d_v like q, k, v: d and e multiples of 8 up to 128, h a multiple of g; any strides of the first four
//            and of the results that are multiples of 16 bytes
// Dtypes     bf16 or f16, logsumexp and delta in f32; scores, probabilities and sums in f32, probabilities and the
//            gradients of scores rounded to the dtype before the matmuls that sum them up
// Bytes      each operand once for each tile that reads it, from the second-level cache
// FLOPs      2 * b*h*s*t * (3 d + 2 e) are needed; 2 * b*h*s*t * (5 d + 4 e) are done, and 2 * b*h*s*t exponentials;
//            in causal order about half
//
// With p = exp(scale q k^T - logsumexp) and d_s = p * (d_out v^T - delta): d_v = p^T d_out, d_k = scale d_s^T q and
// d_q = scale d_s k. One pass over the keys and one over the queries sum these up, each in registers from the first
// to the last token of the other side, so that the same bits come out in every run. Scores are computed in both: the
// sums of d_q over blocks of keys would otherwise go through memory in an order that blocks must keep.
//
// Both passes are one kernel. A block has tiles of 64 tokens for each warpgroup, its own: keys and values, or queries
// and d_out. Units of tokens of the other side go by in a ring that one thread fills (TMA). A warpgroup computes scores
// and the gradients of probabilities of its tokens (rows) by the unit's (columns), and from these, in registers, the
// first operand of the matmuls that sum. Their second operand is the unit again, read across. The matmuls of the next
// unit begin while those that sum are in flight. Blocks take tiles one after the other from a counter, those with most
// units first; which block computes a tile changes nothing.
//
// Measured   (H200, bench/results/h200/training.txt, without delta) cuDNN's time over that of both passes, in causal
//            order: heads of 64, 1,024 tokens 1.16; heads of 128, 1,024 tokens 1.13, 4,096 0.96 and 16,384 0.92; 4,608
//            tokens dense 0.93. Long sequences would need five matmuls in place of seven.
//
// Tried      Three warpgroups and units of 128 queries in the pass over keys of 64: too many registers, so that
//            multiply-adds are issued one after the other. In heads of 128: three stages in the pass over keys (no
//            gain).
//
// Online recomputation from the logarithms of sums: FlashAttention-2 (arXiv 2307.08691), algorithm 2; the pipeline on
// Hopper: FlashAttention-3 (arXiv 2407.08608).

#include <cuda_runtime_api.h>

#include "backends/cuda/early_launch.cuh"
#include "base/tensors/divide_up.hpp"
#include "kernels/attention/hopper_backward_form.hpp"
#include "kernels/attention/hopper_blocks.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/fragments.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"
#include "kernels/core/cuda/wgmma.cuh"

namespace headroom::attentions {
namespace {

namespace hw = cuda::hopper;
using cuda::Constant;

constexpr int kNumbersThreads = 256;

// Registers of a thread that copies, and of one that computes; their total is that of the initial allocation. Two sums
// in heads of 128 take 128 of them.
template <class S>
constexpr bool kTakesAll = S::kOwnsKeys && S::kDim > kPieceDim;
template <class S>
constexpr int kBackwardCopyRegisters = kTakesAll<S> ? 24 : 40;
template <class S>
constexpr int kBackwardRegisters = kTakesAll<S> ? 240 : 232;

/// A pass's tile as constants, and its places in shared memory.
template <bool kOwnsKeysOf, int kGroupsOf, int kUnitOf, int kStagesOf, int kDimOf>
struct PassShape {
  static constexpr bool kOwnsKeys = kOwnsKeysOf;
  static constexpr int kGroups = kGroupsOf, kUnit = kUnitOf, kStages = kStagesOf, kDim = kDimOf;
  static constexpr int kRows = kGroups * kGroupRows, kThreads = (kGroups + 1) * hw::kWarpgroup;
  static constexpr int kOwnBytes = kBytesOf<kDim, kRows>, kUnitBytes = kBytesOf<kDim, kUnit>;
  static constexpr int kResults = kOwnsKeys ? 2 : 1;
  static constexpr int kNumberBytes = kOwnsKeys ? kUnit * static_cast<int>(sizeof(QueryNumbers)) : 0;
  static constexpr int kRingAt = (2 + kResults) * kOwnBytes;
  static constexpr int kNumbersAt = kRingAt + kStages * 2 * kUnitBytes;
  static constexpr int kSharedBytes = kNumbersAt + kStages * kNumberBytes;
};

#if HR_HAS_HOPPER

/// A tile of a block: its head among those of its side, its first token, and the units that it needs.
struct BackwardItem {
  int batch, head, row;
  int begin, end;
};

struct BackwardBarriers {
  BackwardItem items[2];  // that of full_own's phase; without units left, batch is -1
  hw::Barrier full_own, empty_own;
  hw::Barrier full[kMostUnitStages], empty[kMostUnitStages];
};

/// The next tile of any block. Neighbours share a head; those of one head with most units come first.
template <class S>
__device__ __forceinline__ BackwardItem take_item(const BackwardForm& form, int* tickets) {
  const int tokens = S::kOwnsKeys ? form.keys : form.queries;
  const int heads = S::kOwnsKeys ? form.heads / form.sharers : form.heads;
  const int tiles = (tokens - 1) / S::kRows + 1;
  const int ticket = atomicAdd(tickets + (S::kOwnsKeys ? 0 : 1), 1);
  BackwardItem item{-1, 0, 0, 0, 0};
  if (ticket >= form.batch * heads * tiles) return item;
  const int head = ticket / tiles, tile = ticket - head * tiles;
  item.batch = head / heads;
  item.head = head - item.batch * heads;
  if (S::kOwnsKeys) {
    item.row = tile * S::kRows;
    item.end = (form.queries - 1) / S::kUnit + 1;
    item.begin = min(max(item.row - form.diagonal, 0) / S::kUnit, item.end);
  } else {
    item.row = (tiles - 1 - tile) * S::kRows;
    const int last = min(min(item.row + S::kRows, form.queries) - 1 + form.diagonal, form.keys - 1);
    item.end = last < 0 ? 0 : last / S::kUnit + 1;
  }
  return item;
}

/// One thread: copies all that the block reads.
template <class S>
__device__ __forceinline__ void copy_tiles(const BackwardForm& form, const BackwardMaps& maps,
                                           const BackwardPlaces& places, std::byte* shared,
                                           BackwardBarriers& barriers) {
  const auto copy = [](std::byte* to, const cuda::TensorMap& map, hw::Barrier& barrier, int rows, int row, int head,
                       int batch) {
#pragma unroll
    for (int piece = 0; piece < kPieces<S::kDim>; ++piece)
      hw::copy_box(to + piece * rows * kRowBytes, map, barrier, piece * kPieceDim, row, head, batch);
  };
  hw::prefetch(maps.own_scored);
  hw::prefetch(maps.own_made);
  hw::prefetch(maps.unit_scored);
  hw::prefetch(maps.unit_made);
  cuda::wait_for_previous();
  std::uint32_t tiles = 0, units = 0;
  for (;; ++tiles) {
    const BackwardItem item = take_item<S>(form, places.tickets);
    const bool is_left = item.batch >= 0;
    hw::wait(barriers.empty_own, (tiles & 1) ^ 1);
    barriers.items[tiles & 1] = item;
    hw::arrive_expecting(barriers.full_own, is_left ? 2 * S::kOwnBytes : 0);
    if (!is_left) return;
    copy(shared, maps.own_scored, barriers.full_own, S::kRows, item.row, item.head, item.batch);
    copy(shared + S::kOwnBytes, maps.own_made, barriers.full_own, S::kRows, item.row, item.head, item.batch);
    const int sharers = S::kOwnsKeys ? form.sharers : 1;
    for (int sharer = 0; sharer < sharers; ++sharer) {
      const int head = S::kOwnsKeys ? item.head * form.sharers + sharer : item.head / form.sharers;
      for (int unit = item.begin; unit < item.end; ++unit, ++units) {
        const std::uint32_t stage = units % S::kStages, phase = units / S::kStages & 1;
        std::byte* const to = shared + S::kRingAt + stage * 2 * S::kUnitBytes;
        hw::wait(barriers.empty[stage], phase ^ 1);
        hw::arrive_expecting(barriers.full[stage], 2 * S::kUnitBytes + S::kNumberBytes);
        copy(to, maps.unit_scored, barriers.full[stage], S::kUnit, unit * S::kUnit, head, item.batch);
        copy(to + S::kUnitBytes, maps.unit_made, barriers.full[stage], S::kUnit, unit * S::kUnit, head, item.batch);
        if constexpr (S::kOwnsKeys)
          hw::copy_bytes(shared + S::kNumbersAt + stage * S::kNumberBytes,
                         places.numbers +
                             static_cast<std::int64_t>(item.batch * form.heads + head) * form.padded_queries +
                             unit * S::kUnit,
                         S::kNumberBytes, barriers.full[stage]);
      }
    }
  }
}

__device__ __forceinline__ float4 load_shared(std::uint32_t from) {
  float4 read;
  asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(read.x), "=f"(read.y), "=f"(read.z), "=f"(read.w)
               : "r"(from)
               : "memory");
  return read;
}

/// Begins d[64, N] = own[64, kDim] unit[N, kDim]^T.
template <class T, class S, int kCount>
__device__ __forceinline__ void begin_rows_by_columns(float (&d)[kCount], std::uint32_t own, std::uint32_t unit) {
  constexpr int kGroupBytes = 8 * kRowBytes, kPieceSteps = kPieceDim / 16;
  const std::uint64_t a = hw::describe_operand(own, kGroupBytes), b = hw::describe_operand(unit, kGroupBytes);
  hw::begin_wgmma();
  hw::multiply</*kAdds=*/false>(T(), d, a, b);
#pragma unroll
  for (int i = 1; i < S::kDim / 16; ++i) {
    const int piece = i / kPieceSteps * (kRowBytes / 16), step = 2 * (i % kPieceSteps);
    hw::multiply(T(), d, a + S::kRows * piece + step, b + S::kUnit * piece + step);
  }
  hw::commit_wgmma();
}

/// Begins d[64, kDim] += weights[64, N] unit[N, kDim].
template <class T, class S>
__device__ __forceinline__ void begin_sums(float (&d)[S::kDim / 2], const uint4 (&weights)[S::kUnit / 16],
                                           std::uint32_t unit) {
  const std::uint64_t b = hw::describe_operand(unit, 8 * kRowBytes, S::kUnit * kRowBytes);
  hw::begin_wgmma();
#pragma unroll
  for (int i = 0; i < S::kUnit / 16; ++i) hw::multiply</*kAcross=*/true>(T(), d, weights[i], b + kRowBytes * i);
  hw::commit_wgmma();
}

/// Whether some rows of a warpgroup do not see some columns of a unit.
template <class S>
__device__ __forceinline__ bool is_cut(const BackwardForm& form, int first_row, int unit) {
  const int column = unit * S::kUnit;
  if constexpr (S::kOwnsKeys) return column + form.diagonal < first_row + kGroupRows - 1;
  return min(form.keys, first_row + form.diagonal + 1) - column < S::kUnit;
}

/// Makes 0 what a thread's two rows do not see: queries before a key, or keys after a query and beyond the last.
template <class S>
__device__ __forceinline__ void clear_hidden(const BackwardForm& form, int first_row, int unit,
                                             float (&values)[S::kUnit / 2]) {
  const int column = unit * S::kUnit + static_cast<int>(threadIdx.x) % 4 * 2, row = first_row + row_of_thread();
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int token = row + 8 * half;
    const int bound = (S::kOwnsKeys ? token - form.diagonal : min(form.keys, token + form.diagonal + 1)) - column;
#pragma unroll
    for (int j = 0; j < S::kUnit / 8; ++j)
#pragma unroll
      for (int i = 0; i < 2; ++i)
        if (S::kOwnsKeys ? 8 * j + i < bound : 8 * j + i >= bound) values[4 * j + 2 * half + i] = 0;
  }
}

/// A warpgroup's results [64, kDim], times `factor`, to shared memory as copies swizzle it, and from there to memory.
template <class T, class S>
__device__ __forceinline__ void store_gradient(const cuda::TensorMap& map, const BackwardItem& item, int tokens,
                                               int group, float factor, const float (&sums)[S::kDim / 2],
                                               std::uint32_t staged) {
  const int thread = static_cast<int>(threadIdx.x) % hw::kWarpgroup, row = row_of_thread();
  const int first = item.row + group * kGroupRows;
#pragma unroll
  for (int j = 0; j < S::kDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const std::uint32_t to =
          staged + (j / 8 * kGroupRows + row + 8 * half) * kRowBytes + ((j % 8 ^ row % 8) * 16) + thread % 4 * 4;
      hw::put_shared(to, hw::pack(T(), factor * sums[4 * j + 2 * half], factor * sums[4 * j + 2 * half + 1]));
    }
  hw::fence_for_copies();
  hw::meet(kGroupMeets + group, hw::kWarpgroup);
  if (thread != 0 || first >= tokens) return;
#pragma unroll
  for (int piece = 0; piece < kPieces<S::kDim>; ++piece)
    hw::store_box(map, staged + piece * kGroupRows * kRowBytes, piece * kPieceDim, first, item.head, item.batch);
  hw::commit_stores();
}

/// A warpgroup: the gradients of its tokens of a tile, over all units. `scored` is the sum of d_s with what the scores
/// are made with, `made` that of p with d_out.
template <class T, class S>
__device__ __forceinline__ void sum_up(const BackwardForm& form, const BackwardItem& item, int group,
                                       const BackwardPlaces& places, std::byte* shared, BackwardBarriers& barriers,
                                       std::uint32_t& units, float (&scored)[S::kDim / 2],
                                       float (&made)[S::kOwnsKeys ? S::kDim / 2 : 1]) {
  const bool signals = threadIdx.x % 32 == 0;
  const int first_row = item.row + group * kGroupRows;
  int left = (item.end - item.begin) * (S::kOwnsKeys ? form.sharers : 1), unit = item.begin;
  const std::uint32_t base = hw::shared_address(shared), own = base + group * kGroupRows * kRowBytes;
  float scores[S::kUnit / 2], gradients[S::kUnit / 2];
  [[maybe_unused]] uint4 weights[S::kUnit / 16];
  uint4 score_weights[S::kUnit / 16];
  [[maybe_unused]] QueryNumbers of_rows[2];
  if constexpr (!S::kOwnsKeys) {
    const std::int64_t head = item.batch * form.heads + item.head;
    const QueryNumbers* const from = places.numbers + head * form.padded_queries + first_row + row_of_thread();
    of_rows[0] = from[0];
    of_rows[1] = from[8];
  }
  const auto unit_at = [&](std::uint32_t index) { return base + S::kRingAt + index % S::kStages * 2 * S::kUnitBytes; };
  const auto begin_scores = [&](std::uint32_t index) {
    hw::wait(barriers.full[index % S::kStages], index / S::kStages & 1);
    begin_rows_by_columns<T, S>(scores, own, unit_at(index));
    begin_rows_by_columns<T, S>(gradients, own + S::kOwnBytes, unit_at(index) + S::kUnitBytes);
  };
  // What queries have: logsumexp and delta of this row, or of the queries of columns 8 j + 2 (t % 4) and the next.
  const auto numbers_at = [&](std::uint32_t index, int j) {
    float4 pair{};
    if constexpr (S::kOwnsKeys)
      pair = load_shared(base + S::kNumbersAt + index % S::kStages * S::kNumberBytes + j * 64 + threadIdx.x % 4 * 16);
    return pair;
  };
  const auto logsumexp_of = [&](const float4& pair, int i) {
    if constexpr (S::kOwnsKeys)
      return i % 2 == 0 ? pair.x : pair.z;
    else
      return of_rows[i / 2].logsumexp;
  };
  const auto delta_of = [&](const float4& pair, int i) {
    if constexpr (S::kOwnsKeys)
      return i % 2 == 0 ? pair.y : pair.w;
    else
      return of_rows[i / 2].delta;
  };

  hw::clear(scored);
  if constexpr (S::kOwnsKeys) hw::clear(made);
  if (left == 0) {
    if (signals) hw::arrive(barriers.empty_own);
    return;
  }
  begin_scores(units);
  for (bool is_first = true;; is_first = false) {
    hw::wait_for_wgmma<1>();  // the gradients of probabilities are in flight, and all sums are not
    hw::settle(scores);
    if (!is_first) {
      hw::settle(score_weights);
      if (signals) hw::arrive(barriers.empty[(units - 1) % S::kStages]);
    }
    const float scale = form.scale * 1.44269504088896341F;
#pragma unroll
    for (int j = 0; j < S::kUnit / 8; ++j) {
      const float4 pair = numbers_at(units, j);
#pragma unroll
      for (int i = 0; i < 4; ++i)
        scores[4 * j + i] = power_of_2(fmaf(scores[4 * j + i], scale, -logsumexp_of(pair, i)));
    }
    const bool has_hidden = is_cut<S>(form, first_row, unit);
    if (has_hidden) clear_hidden<S>(form, first_row, unit, scores);
    if constexpr (S::kOwnsKeys) {
      to_weights<T, S::kUnit>(scores, weights);
      hw::settle(weights);
      begin_sums<T, S>(made, weights, unit_at(units) + S::kUnitBytes);
      hw::wait_for_wgmma<1>();
    } else {
      hw::wait_for_wgmma<0>();
    }
    hw::settle(gradients);
    if (left == 1 && signals) hw::arrive(barriers.empty_own);
#pragma unroll
    for (int j = 0; j < S::kUnit / 8; ++j) {
      const float4 pair = numbers_at(units, j);
#pragma unroll
      for (int i = 0; i < 4; ++i) gradients[4 * j + i] = scores[4 * j + i] * (gradients[4 * j + i] - delta_of(pair, i));
    }
    if (has_hidden) clear_hidden<S>(form, first_row, unit, gradients);  // hidden ones may be anything
    if constexpr (S::kOwnsKeys) {  // the weights have been read: their registers are free
      hw::settle(gradients);
      hw::wait_for_wgmma<0>();
      hw::settle(weights);
    }
    to_weights<T, S::kUnit>(gradients, score_weights);
    hw::settle(score_weights);
    begin_sums<T, S>(scored, score_weights, unit_at(units));
    ++units;
    if (--left == 0) break;
    if (++unit == item.end) unit = item.begin;  // of the next head of queries
    begin_scores(units);
  }
  hw::wait_for_wgmma<0>();
  hw::settle(scored);
  if constexpr (S::kOwnsKeys) hw::settle(made);
  hw::settle(score_weights);
  if (signals) hw::arrive(barriers.empty[(units - 1) % S::kStages]);
}

#endif  // HR_HAS_HOPPER

template <class T, class S>
__global__ void __launch_bounds__(S::kThreads, 1)
    hopper_attention_backward_kernel(const __grid_constant__ BackwardForm form,
                                     const __grid_constant__ BackwardMaps maps, const BackwardPlaces places) {
#if HR_HAS_HOPPER
  extern __shared__ __align__(1024) std::byte tile_memory[];
  __shared__ BackwardBarriers barriers;
  cuda::let_next_begin();
  // Once for a warp, the pass over queries issues fewer instructions; that over keys gains nothing.
  const int group = S::kOwnsKeys ? static_cast<int>(threadIdx.x) / hw::kWarpgroup : hw::own_warpgroup();
  if (threadIdx.x == 0) {
    constexpr int kWarps = S::kGroups * 4;
    hw::init_barrier(barriers.full_own, 1);
    hw::init_barrier(barriers.empty_own, kWarps);
    for (int i = 0; i < S::kStages; ++i) {
      hw::init_barrier(barriers.full[i], 1);
      hw::init_barrier(barriers.empty[i], kWarps);
    }
    hw::fence_barrier_init();
  }
  __syncthreads();
  if (group == S::kGroups) {
    hw::give_registers<kBackwardCopyRegisters<S>>();
    if (threadIdx.x / 32 == S::kGroups * 4 && hw::is_elected())
      copy_tiles<S>(form, maps, places, tile_memory, barriers);
    return;
  }
  hw::take_registers<kBackwardRegisters<S>>();
  cuda::wait_for_previous();
  const std::uint32_t staged =
      hw::shared_address(tile_memory) + 2 * S::kOwnBytes + group * kBytesOf<S::kDim, kGroupRows>;
  const int tokens = S::kOwnsKeys ? form.keys : form.queries;
  std::uint32_t units = 0;
  for (std::uint32_t index = 0;; ++index) {
    hw::wait(barriers.full_own, index & 1);
    const BackwardItem& item = barriers.items[index & 1];
    if (item.batch < 0) break;
    float scored[S::kDim / 2], made[S::kOwnsKeys ? S::kDim / 2 : 1];
    sum_up<T, S>(form, item, group, places, tile_memory, barriers, units, scored, made);
    if (threadIdx.x % hw::kWarpgroup == 0) hw::wait_for_stores_to_read();  // those of the tile before
    hw::meet(kGroupMeets + group, hw::kWarpgroup);
    store_gradient<T, S>(maps.scored_gradient, item, tokens, group, form.scale, scored, staged);
    if constexpr (S::kOwnsKeys)
      store_gradient<T, S>(maps.made_gradient, item, tokens, group, 1, made, staged + S::kOwnBytes);
  }
  if (threadIdx.x % hw::kWarpgroup == 0) hw::wait_for_stores_to_read();
#endif
}

/// A thread for each row of queries, padding included; the first also opens the counters of tiles.
__global__ void __launch_bounds__(kNumbersThreads) backward_numbers_kernel(BackwardForm form, BackwardPlaces places) {
  cuda::wait_for_previous();
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kNumbersThreads + threadIdx.x;
  if (at < 2) places.tickets[at] = 0;
  const std::int64_t head = at / form.padded_queries;
  const auto query = static_cast<int>(at - head * form.padded_queries);
  if (head >= static_cast<std::int64_t>(form.batch) * form.heads) return;
  QueryNumbers numbers{-cuda::Max::kNeutral, 0};
  if (query < form.queries) {
    const float logsumexp = places.logsumexp[head * form.queries + query];
    if (logsumexp != cuda::Max::kNeutral)
      numbers = {logsumexp * 1.44269504088896341F, places.delta[head * form.queries + query]};
  }
  places.numbers[at] = numbers;
}

/// Calls use(kernel, shape, tile) for a pass in heads of that width.
template <class Use>
void with_pass(BackwardPass pass, int width, const Use& use) {
#define HR_TILE(of_pass, of_width, groups, unit, stages)    \
  if (pass == BackwardPass::of_pass && width == (of_width)) \
    return use(PassShape<BackwardPass::of_pass == BackwardPass::kKeys, groups, unit, stages, of_width>());
#include "kernels/attention/hopper_backward_tiles.def"
#undef HR_TILE
}

}  // namespace

BackwardTile backward_tile(BackwardPass pass, int width) {
  BackwardTile tile;
  with_pass(pass, width, [&](auto shape) {
    using S = decltype(shape);
    tile = {S::kGroups, S::kUnit, S::kStages};
  });
  return tile;
}

void launch_backward_numbers(void* stream, const BackwardForm& form, const BackwardPlaces& places) {
  const std::int64_t rows = static_cast<std::int64_t>(form.batch) * form.heads * form.padded_queries;
  cuda::launch_early(backward_numbers_kernel,
                     {.blocks = dim3(static_cast<unsigned>(divide_up<std::int64_t>(rows, kNumbersThreads))),
                      .threads = dim3(kNumbersThreads),
                      .stream = static_cast<cudaStream_t>(stream)},
                     form, places);
  cuda::check_launched("numbers of hopper attention_backward");
}

void launch_backward_pass(void* stream, DType dtype, BackwardPass pass, const BackwardForm& form,
                          const BackwardMaps& maps, const BackwardPlaces& places) {
  with_pass(pass, form.width, [&](auto shape) {
    using S = decltype(shape);
    static_assert(kBackwardPadding % (S::kOwnsKeys ? S::kUnit : S::kRows) == 0);  // of queries
    const int tokens = S::kOwnsKeys ? form.keys : form.queries;
    const int tiles =
        form.batch * (S::kOwnsKeys ? form.heads / form.sharers : form.heads) * divide_up(tokens, S::kRows);
    const int blocks = tiles < kMultiprocessors ? tiles : kMultiprocessors;
    cuda::with_small_type_of(dtype, [&](auto type) {
      cuda::launch_large(hopper_attention_backward_kernel<decltype(type), S>,
                         cuda::large_shape(blocks, S::kThreads, S::kSharedBytes, stream), form, maps, places);
    });
  });
  cuda::check_launched("hopper attention_backward kernel");
}

}  // namespace headroom::attentions
