// scaled_attention on Hopper's tensor cores (sm_90a) in heads of 64 and 128: o = softmax(scale q k^T) v with operands
// of 8 bits, scores stay in registers.
//
// Shapes     q[b, h, s, d], k[b, g, t, d], v[b, g, d, t rounded up to a multiple of 128] with its keys in the order of
//            quantize_values -> o[b, h, s, d]: d 64 or 128, h a multiple of g; any strides that are multiples of 16
//            bytes. Scales q[b, h, s], k[b, g, t], v[b, g, d].
// Dtypes     q and k i8, exact sums in s32, or e4m3; v e4m3; scores, softmax and sums over tiles of keys in f32,
//            probabilities e4m3; o bf16 or f16
// Bytes      q + k + v once + 2 o; k and v once for each tile of queries from the second-level cache
// FLOPs      2 * b*h*s*t * 2 * d, and b*h*s*t exponentials
//
// The floors of 64 queries by 128 keys on one multiprocessor, in clocks: multiply-adds 4 * 64*128*d / 8192, 512 in
// heads of 128 and 256 in heads of 64; exponentials 64*128 / 16 = 512. One of these alone would be 1,900 TFLOP/s in
// heads of 128. A scheduler issues some 590 instructions for them with i8 and 520 with e4m3, 64 elements of a warp: a
// conversion (i8), a product by the key's scale, a maximum, a multiply-add and an exponential each, half a conversion
// to e4m3, and a multiply-add for a sum.
// These overlap only between warpgroups: in one of them scores, exponentials and the weighted sum follow each other. So
// a block has three warpgroups where registers allow it, 160 each, and they alternate. If they do not, all three come
// to wait for the tensor cores at once, and then for the unit of the exponentials. (24 heads x 4608 of 128 with i8 on
// an H200, time over that of hopper.cu: two warpgroups that overlap their own matmuls 1.05, the same with the values in
// halves 0.94, three in any order 0.90, three that alternate 0.83: bench/results/h200/attn8_orders.txt.)
// Exponentials by polynomials cost more than they save: instructions are the scarcer.
//
// A block has 64 queries for each warpgroup, and a warp that copies, as in hopper.cu. Differences:
// - Two blocks that share a tile exchange sums between the threads that have the same rows, a half each.
// - Tensor cores add e4m3 products in few bits (docs/gpu_facts.md). So the weighted sum of each 128 keys begins at 0,
//   and is added to the sums in f32. The same multiply-add scales these, so that the largest score is always exact.
// - The accumulator of the scores has 2 neighbouring keys of each 8 in a thread, the operand of the second matmul 4 of
//   each 16. The values have their keys in that order, so that a thread's probabilities need only be packed.
// - The largest probability of a row becomes 448, e4m3's largest number: then those of 2^-14 of it have all 3 bits, and
//   those of 2^-17 are not lost. A row is divided by the sum of rounded probabilities, which is one more column of the
//   weighted sum: 8 rows of ones behind the values. So values that are all equal give just that.
// - The scales of a thread's keys lie together, so that it reads four at once. A row's scale is a factor of its
//   exponents.
//
// SageAttention2 (arXiv 2411.10958) has these two levels of sums; FlashAttention-3 (arXiv 2407.08608) permutes values.

#include <cuda_runtime_api.h>

#include "backends/cuda/early_launch.cuh"
#include "kernels/attention/hopper8_form.hpp"
#include "kernels/attention/hopper_blocks.cuh"
#include "kernels/attention/hopper_softmax.cuh"
#include "kernels/core/cuda/device.cuh"
#include "kernels/core/cuda/hopper.cuh"
#include "kernels/core/cuda/large_launch.cuh"
#include "kernels/core/cuda/launched.hpp"
#include "kernels/core/cuda/wgmma.cuh"

namespace headroom::attentions {
namespace {

using cuda::Constant;

template <int kGroups>
constexpr int kThreads = (kGroups + 1) * hw::kWarpgroup;
/// Registers of a thread that copies, and of one that computes; their total is that of the initial allocation.
template <int kGroups>
constexpr int kCopyRegisters = kGroups == 3 ? 32 : 24;
template <int kGroups>
constexpr int kRegisters = kGroups == 3 ? 160 : 240;

#if HR_HAS_HOPPER

constexpr int kKeys = kKeysOf8;
constexpr int kKeyBytes = kKeys * kRowBytes;
template <int kDim>
constexpr int kStageBytes = stage_bytes_of_8(kDim);
constexpr std::uint32_t kFourOnes = 0x38383838;  // in e4m3

/// A block's barriers, and its items: the warp that copies says which there are.
struct Barriers {
  Item items[2];  // that of full_q's phase
  hw::Barrier full_q, empty_q;
  hw::Barrier full_k[kMostStages], empty_k[kMostStages];
  hw::Barrier full_v[kMostStages], empty_v[kMostStages];
  hw::Barrier may_send[kMostGroups], received[kMostGroups];  // of a tile that another block shares
  float2 relative[kMostGroups][kGroupRows / 2];              // of rows received: the exponent, and the sum
};

/// One warp: copies all that the block reads. Scales of keys go word by word, since rows may begin anywhere.
template <int kRows, int kStages, int kDim>
__device__ __forceinline__ void copy_all(const HopperForm& form, const HopperMaps& maps, const Hopper8Scales& scales,
                                         std::byte* queries, std::byte* ring, Barriers& barriers) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  // Of the scale of key `lane` of 32: each thread's columns lie together, as KeyScales reads them.
  const std::uint32_t place = lane % 8 / 2 * kScalePitch + lane / 8 * 8 + lane % 2 * 4;
  std::uint32_t tiles = 0, units = 0;
  Item item;
  for (;; ++tiles) {
    const bool is_left = find_item<kRows, kKeys>(form, static_cast<int>(tiles), item);
    if (!is_left) item.begin = item.end = 0;
    if (tiles == 0) cuda::wait_for_previous();
    hw::wait(barriers.empty_q, (tiles & 1) ^ 1);
    if (lane == 0) {
      barriers.items[tiles & 1] = item;
      hw::arrive_expecting(barriers.full_q, is_left ? kRows * kRowBytes : 0);
      if (is_left) hw::copy_box(queries, maps.q, barriers.full_q, 0, item.row, item.head, item.batch);
    }
    if (!is_left) return;
    const int head = item.head / form.sharers;
    const float* const key_scales = scales.k + item.batch * scales.k_batch + head * scales.k_head;
    for (int unit = item.begin; unit < item.end; ++unit, ++units) {
      const std::uint32_t stage = units % kStages, phase = units / kStages & 1;
      std::byte* const to = ring + stage * kStageBytes<kDim>;
      const std::uint32_t to_scales = hw::shared_address(to) + kStageBytes<kDim> - kScaleBytes + place;
      hw::wait(barriers.empty_k[stage], phase ^ 1);
      if (lane == 0) {
        hw::arrive_expecting(barriers.full_k[stage], kKeyBytes);
        hw::copy_box(to, maps.k, barriers.full_k[stage], 0, unit * kKeys, head, item.batch);
      }
#pragma unroll
      for (int i = 0; i < kKeys; i += 32) {
        const int key = unit * kKeys + i + lane;
        hw::copy_word(to_scales + i, key_scales + min(key, form.keys - 1), key < form.keys);
      }
      hw::arrive_after_words(barriers.full_k[stage]);
      hw::wait(barriers.empty_v[stage], phase ^ 1);
      if (lane == 0) {
        hw::arrive_expecting(barriers.full_v[stage], kDim * kRowBytes);
        hw::copy_box(to + kKeyBytes, maps.v, barriers.full_v[stage], unit * kKeys, 0, head, item.batch);
      }
    }
  }
}

/// Four probabilities in e4m3, the first in the lowest byte; larger ones than 448 are that.
__device__ __forceinline__ std::uint32_t pack_f8(float a, float b, float c, float d) {
  std::uint32_t packed;
  asm("{\n.reg .b16 low, high;\n"
      "cvt.rn.satfinite.e4m3x2.f32 low, %2, %1;\n"
      "cvt.rn.satfinite.e4m3x2.f32 high, %4, %3;\n"
      "mov.b32 %0, {low, high};\n}"
      : "=r"(packed)
      : "f"(a), "f"(b), "f"(c), "f"(d));
  return packed;
}

/// Exponentials as the first operand of the second matmul, 32 keys each, in the order of quantize_values.
__device__ __forceinline__ void to_weights(const float (&powers)[kKeys / 2], uint4 (&weights)[kKeys / 32]) {
#pragma unroll
  for (int i = 0; i < kKeys / 32; ++i) {
    const float* const p = powers + 16 * i;
    weights[i] = make_uint4(pack_f8(p[0], p[1], p[4], p[5]), pack_f8(p[2], p[3], p[6], p[7]),
                            pack_f8(p[8], p[9], p[12], p[13]), pack_f8(p[10], p[11], p[14], p[15]));
  }
}

/// Two rows of a thread: the maxima that their exponentials are relative to, and the sums of these.
struct Softmax8 {
  static constexpr float kTop = 8.8073549F;  // log2(448)

  float scale[2];                                              // of the rows, times log2(e); above 0
  float most[2] = {cuda::Max::kNeutral, cuda::Max::kNeutral};  // scores without it
  float totals[2] = {0, 0};
  float factors[2] = {0, 0};  // of earlier sums, as of the last keys taken

  /// The power of 2 that exponents are relative to.
  [[nodiscard]] __device__ __forceinline__ float exponent(int row) const { return fmaf(most[row], scale[row], -kTop); }

  /// Updates the maxima by more scores.
  __device__ __forceinline__ void raise(const float (&scores)[kKeys / 2]) {
    float now[2] = {most[0], most[1]};
    find_most<kKeys>(scores, now);
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      factors[row] = power_of_2((most[row] - now[row]) * scale[row]);
      most[row] = now[row];
    }
  }

  /// Makes scores exponentials.
  __device__ __forceinline__ void take(float (&scores)[kKeys / 2]) const {
    const float exponents[2] = {exponent(0), exponent(1)};
#pragma unroll
    for (int i = 0; i < kKeys / 2; ++i)
      scores[i] = power_of_2(fmaf(scores[i], scale[i / 2 % 2], -exponents[i / 2 % 2]));
  }
};

/// The keys' scales of a stage, of this thread's columns: 2 (t % 4) and the next of every eight. They are read two
/// loads ahead.
class KeyScales {
 public:
  __device__ __forceinline__ explicit KeyScales(std::uint32_t stage_end)
      : from_(stage_end - kScaleBytes + threadIdx.x % 4 * kScalePitch), ahead_{load(0), load(1)} {}

  /// Of columns in 16 keys, in order; called for each of the eight groups in turn.
  __device__ __forceinline__ float4 next(int group) {
    const float4 scales = ahead_[group % 2];
    if (group + 2 < kKeys / 16) ahead_[group % 2] = load(group + 2);
    return scales;
  }

 private:
  [[nodiscard]] __device__ __forceinline__ float4 load(int group) const {
    float4 loaded;
    asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];"
                 : "=f"(loaded.x), "=f"(loaded.y), "=f"(loaded.z), "=f"(loaded.w)
                 : "r"(from_ + 16 * group)
                 : "memory");
    return loaded;
  }

  std::uint32_t from_;
  float4 ahead_[2];
};

template <class Element>
using SumOf = std::conditional_t<std::is_same_v<Element, hw::I8>, int, float>;

/// Scores of 64 queries by 128 keys but for the queries' scales. It ends the warpgroup's turn.
template <class Element, int kDim, class TurnOfGroup>
__device__ __forceinline__ void multiply_keys(std::uint32_t queries, std::uint32_t stage, const TurnOfGroup& turn,
                                              float (&scores)[kKeys / 2]) {
  constexpr int kSteps = kDim / 32;
  const std::uint64_t q = hw::describe_operand(queries, 8 * kRowBytes), k = hw::describe_operand(stage, 8 * kRowBytes);
  SumOf<Element> sums[kKeys / 2] = {};
  hw::begin_wgmma();
  hw::multiply</*kAdds=*/false>(Element(), sums, q, k);
#pragma unroll
  for (int i = 1; i < kSteps; ++i) hw::multiply(Element(), sums, q + 2 * i, k + 2 * i);
  hw::commit_wgmma();
  turn.pass();
  KeyScales scales(stage + kStageBytes<kDim>);
  hw::wait_for_wgmma<0>();
  hw::settle(sums);
#pragma unroll
  for (int group = 0; group < kKeys / 16; ++group) {
    const float4 of = scales.next(group);
#pragma unroll
    for (int i = 0; i < 8; ++i) {
      const float scale = i < 4 ? (i % 2 == 0 ? of.x : of.y) : (i % 2 == 0 ? of.z : of.w);
      scores[8 * group + i] = static_cast<float>(sums[8 * group + i]) * scale;
    }
  }
}

/// sums = factor of the row * sums + the weighted sum of 128 keys, over kChannels of the values from `first` on. With
/// kWithOnes the columns of ones behind them give the sums of the weights, which are added to `totals` likewise.
template <int kChannels, bool kWithOnes, int kDim>
__device__ __forceinline__ void add_values(int first, const uint4 (&weights)[kKeys / 32], std::uint32_t values,
                                           const float (&factors)[2], float (&sums)[kDim / 2], float (&totals)[2]) {
  float added[(kChannels + (kWithOnes ? kOnesRows : 0)) / 2] = {};
  const std::uint64_t v = hw::describe_operand(values + first * kRowBytes, 8 * kRowBytes);
  hw::begin_wgmma();
  hw::multiply</*kAdds=*/false>(hw::F8(), added, weights[0], v);
#pragma unroll
  for (int i = 1; i < kKeys / 32; ++i) hw::multiply(hw::F8(), added, weights[i], v + 2 * i);
  hw::commit_wgmma();
  hw::wait_for_wgmma<0>();
  hw::settle(added);
#pragma unroll
  for (int i = 0; i < kChannels / 2; ++i) {
    float& sum = sums[first / 2 + i];
    sum = fmaf(sum, factors[i / 2 % 2], added[i]);
  }
  if (kWithOnes)
#pragma unroll
    for (int row = 0; row < 2; ++row) totals[row] = fmaf(totals[row], factors[row], added[kChannels / 2 + 2 * row]);
}

/// A warpgroup: sums of its 64 queries over the keys of an item, with the maxima that they are relative to. `units` are
/// those of all items so far. In its turn a warpgroup adds the values of some keys and begins the scores of the next
/// ones: the exponentials of one are computed while another multiplies.
template <class Element, int kStages, int kDim, class TurnOfGroup>
__device__ __forceinline__ void attend(const HopperForm& form, const Item& item, int group, const TurnOfGroup& turn,
                                       std::uint32_t queries, std::uint32_t ring, Barriers& barriers,
                                       std::uint32_t& units, Softmax8& softmax, float (&sums)[kDim / 2]) {
  const bool signals = threadIdx.x % 32 == 0;
#pragma unroll
  for (float& sum : sums) sum = 0;
  turn.wait();
  for (int unit = item.begin; unit < item.end; ++unit, ++units) {
    const std::uint32_t stage = units % kStages, phase = units / kStages & 1;
    const std::uint32_t keys = ring + stage * kStageBytes<kDim>;
    float scores[kKeys / 2];
    hw::wait(barriers.full_k[stage], phase);
    multiply_keys<Element, kDim>(queries, keys, turn, scores);
    __syncwarp();
    if (signals) hw::arrive(barriers.empty_k[stage]);
    if (signals && unit + 1 == item.end) {
      hw::arrive(barriers.empty_q);
      if (item.is_part && form.split > 1)
        hw::arrive_in_block(barriers.may_send[group], static_cast<int>(blockIdx.x % 2) ^ 1);
    }
    if (const int left = form.keys - unit * kKeys; left < kKeys) hide_scores<kKeys>(scores, {left, left});
    softmax.raise(scores);
    softmax.take(scores);
    uint4 weights[kKeys / 32];
    to_weights(scores, weights);
    hw::wait(barriers.full_v[stage], phase);
    turn.wait();
    const std::uint32_t values = keys + kKeyBytes;
    if constexpr (kDim > 64)  // in two parts, for which there are registers
      add_values<kDim - 64, false, kDim>(0, weights, values, softmax.factors, sums, softmax.totals);
    add_values<64, true, kDim>(kDim - 64, weights, values, softmax.factors, sums, softmax.totals);
    if (signals) hw::arrive(barriers.empty_v[stage]);
  }
  turn.pass();
}

/// A tile whose keys two blocks share: each warpgroup sends the other block's its sums of one half of their 64 rows,
/// and joins those of the other half. A thread has the same rows and channels there. Sums are means in f16; the
/// queries, which nothing reads any more, make room for them.
template <class T, int kDim>
__device__ __forceinline__ void share_with_other(const HopperForm& form, const Item& item, int group,
                                                 const Softmax8& softmax, float (&sums)[kDim / 2],
                                                 const float* value_scales, std::uint32_t mine, Barriers& barriers,
                                                 const HopperPlaces& places) {
  const int lane = static_cast<int>(threadIdx.x) % 32, warp = static_cast<int>(threadIdx.x) % hw::kWarpgroup / 32;
  const int rank = static_cast<int>(blockIdx.x) % 2;
  const std::uint32_t area = mine + warp % 2 * 32 * kDim;  // of a warp that keeps its rows
  const int row = warp % 2 * 16 + lane / 4;
  if (warp / 2 != rank) {
    hw::wait(barriers.may_send[group], 0);
#pragma unroll
    for (int i = 0; i < kDim / 16; ++i) {
      const float* const s = sums + 8 * i;
      hw::store_in_block(area + (32 * i + lane) * 16, rank ^ 1,
                         make_uint4(cuda::pack_f16(s[0], s[1]), cuda::pack_f16(s[2], s[3]), cuda::pack_f16(s[4], s[5]),
                                    cuda::pack_f16(s[6], s[7])),
                         barriers.received[group]);
    }
    if (lane % 4 == 0)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        hw::store_in_block(&barriers.relative[group][row + 8 * half], rank ^ 1,
                           make_float2(softmax.exponent(half), softmax.totals[half]), barriers.received[group]);
    return;
  }
  hw::wait(barriers.received[group], 0);
  float own[2], other[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float2 relative = barriers.relative[group][row + 8 * half];
    const float exponent = softmax.exponent(half), now = fmaxf(exponent, relative.x);
    own[half] = power_of_2(exponent - now) * softmax.totals[half];
    other[half] = power_of_2(relative.x - now) * relative.y;
    const float inverse = 1 / (own[half] + other[half]);
    own[half] *= inverse, other[half] *= inverse;
  }
#pragma unroll
  for (int i = 0; i < kDim / 16; ++i) {
    const uint4 words = hw::get_shared(area + (32 * i + lane) * 16);
    const std::uint32_t of[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      float* const s = sums + 8 * i + 2 * j;
      const float* const scale = value_scales + (2 * i + j / 2) * 8 + lane % 4 * 2;
      s[0] = (s[0] * own[j % 2] + hw::low_of(cuda::F16(), of[j]) * other[j % 2]) * scale[0];
      s[1] = (s[1] * own[j % 2] + hw::high_of(cuda::F16(), of[j]) * other[j % 2]) * scale[1];
    }
  }
  __syncwarp();
  // Rows of 2 kDim bytes, with pieces of 16 bytes permuted by the row.
#pragma unroll
  for (int j = 0; j < kDim / 8; ++j)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      hw::put_shared(area + (lane / 4 + 8 * half) * kDim * 2 + (j ^ lane / 4) * 16 + lane % 4 * 4,
                     hw::pack(T(), sums[4 * j + 2 * half], sums[4 * j + 2 * half + 1]));
  __syncwarp();
  T* const to = static_cast<T*>(places.out) + item.batch * form.out_batch + item.head * form.out_head;
  constexpr int kOfRow = kDim / 8;  // pieces
#pragma unroll
  for (int i = 0; i < 16 * kOfRow / 32; ++i) {
    const int at = i * 32 + lane, of_warp = at / kOfRow, piece = at % kOfRow;
    const int query = item.row + group * kGroupRows + warp * 16 + of_warp;
    const uint4 made = hw::get_shared(area + of_warp * kDim * 2 + (piece ^ of_warp % 8) * 16);
    if (query < form.queries) *reinterpret_cast<uint4*>(to + query * form.out_token + piece * 8) = made;
  }
}

#endif  // HR_HAS_HOPPER

template <class T, class Element, int kGroups, int kStages, int kDim>
__global__ void __launch_bounds__(kThreads<kGroups>, 1)
    hopper8_attention_kernel(const __grid_constant__ HopperForm form, const __grid_constant__ HopperMaps maps,
                             const HopperPlaces places, const Hopper8Scales scales) {
#if HR_HAS_HOPPER
  constexpr int kRows = kGroups * kGroupRows;
  extern __shared__ __align__(1024) std::byte queries[];
  __shared__ Barriers barriers;
  __shared__ int given;
  cuda::let_next_begin();
  std::byte* const staged = queries + kRows * kRowBytes;
  std::byte* const ring = staged + kBytesOf<kDim, kRows>;
  const int group = static_cast<int>(threadIdx.x) / hw::kWarpgroup;
  if (threadIdx.x == 0) {
    constexpr int kWarps = kGroups * 4, kCopies = 1 + 32;
    hw::init_barrier(barriers.full_q, 1);
    hw::init_barrier(barriers.empty_q, kWarps);
    for (int i = 0; i < kStages; ++i) {
      hw::init_barrier(barriers.full_k[i], kCopies);
      hw::init_barrier(barriers.empty_k[i], kWarps);
      hw::init_barrier(barriers.full_v[i], 1);
      hw::init_barrier(barriers.empty_v[i], kWarps);
    }
    for (int i = 0; i < kGroups; ++i) {
      hw::init_barrier(barriers.may_send[i], 4);
      hw::init_barrier(barriers.received[i], 1);
    }
    hw::fence_barrier_init();
    for (int i = 0; i < kGroups; ++i)
      hw::arrive_expecting(barriers.received[i],
                           kGroupRows / 2 * (kDim * kPartBytes8 + static_cast<int>(sizeof(float2))));
  }
  for (int i = static_cast<int>(threadIdx.x); i < kStages * kOnesRows * kRowBytes / 4; i += kThreads<kGroups>) {
    constexpr int kWords = kOnesRows * kRowBytes / 4;
    std::byte* const ones = ring + i / kWords * kStageBytes<kDim> + kKeyBytes + kDim * kRowBytes;
    hw::put_shared(hw::shared_address(ones) + i % kWords * 4, kFourOnes);
  }
  hw::fence_for_copies();
  __syncthreads();
  if (form.split > 1) hw::begin_in_cluster();
  if (group == kGroups) {
    hw::give_registers<kCopyRegisters<kGroups>>();
    if (threadIdx.x / 32 == kGroups * 4) copy_all<kRows, kStages, kDim>(form, maps, scales, queries, ring, barriers);
    return;
  }
  hw::take_registers<kRegisters<kGroups>>();
  cuda::wait_for_previous();
  const std::uint32_t mine = hw::shared_address(queries) + group * kGroupRows * kRowBytes;
  const std::uint32_t to = hw::shared_address(staged) + group * kBytesOf<kDim, kGroupRows>;
  const Turn<kGroups, (kGroups > 1)> turn{group};
  turn.open();
  std::uint32_t units = 0;
  for (std::uint32_t index = 0;; ++index) {
    hw::wait(barriers.full_q, index & 1);
    const Item& item = barriers.items[index & 1];  // in shared memory, so that it takes no registers
    if (item.begin == item.end) break;
    if (item.is_part && form.split > 1) hw::wait_for_cluster();  // the other block's barriers are there
    Softmax8 softmax;
    const float* const query_scales = scales.q + item.batch * scales.q_batch + item.head * scales.q_head;
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const int query = item.row + group * kGroupRows + row_of_thread() + 8 * half;
      softmax.scale[half] = query_scales[min(query, form.queries - 1)] * form.scale;
    }
    float sums[kDim / 2];
    attend<Element, kStages, kDim>(form, item, group, turn, mine, hw::shared_address(ring), barriers, units, softmax,
                                   sums);
    const float* const value_scales = scales.v + item.batch * scales.v_batch + item.head / form.sharers * scales.v_head;
    const float inverses[2] = {1 / softmax.totals[0], 1 / softmax.totals[1]};
    scale_rows<kDim>(sums, inverses);
    if (item.is_part) {
      static_assert(sizeof(cuda::F16) == kPartBytes8);
      if (form.split > 1) {
        share_with_other<T, kDim>(form, item, group, softmax, sums, value_scales, mine, barriers, places);
        break;
      }
      const auto scale_of = [&](int channel) { return value_scales[channel]; };
      const int slot = index == static_cast<std::uint32_t>(form.whole) ? 0 : 1;
      give_part<T, cuda::F16, kGroups, kKeys, kDim>(form, item, group, softmax, sums, slot, given, places, scale_of);
      continue;
    }
#pragma unroll
    for (int i = 0; i < kDim / 2; ++i) sums[i] *= value_scales[i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2];
    store_results<T, kDim>(form, maps, item, group, inverses, sums, to, nullptr);
  }
  if (threadIdx.x % hw::kWarpgroup == 0) hw::wait_for_stores_to_read();
#endif
}

/// Calls use(kernel, threads of a block) for a tile.
template <class Use>
void with_kernel(const Hopper8Tile& tile, const HopperForm& form, DType scores, DType result, const Use& use) {
  const auto with = [&](auto groups, auto stages, auto dim) {
    cuda::with_small_type_of(result, [&](auto type) {
      const auto with_element = [&](auto element) {
        use(hopper8_attention_kernel<decltype(type), decltype(element), groups(), stages(), dim()>, kThreads<groups()>);
      };
      if (scores == DType::kI8) return with_element(hw::I8());
      with_element(hw::F8());
    });
  };
#define HR_TILE(of_groups, stages, of_dim)                    \
  if (tile.warpgroups == (of_groups) && form.dim == (of_dim)) \
    return with(Constant<of_groups>(), Constant<stages>(), Constant<of_dim>());
#include "kernels/attention/hopper8_tiles.def"
#undef HR_TILE
}

}  // namespace

void launch_hopper8(void* stream, DType scores, DType result, const Hopper8Tile& tile, const HopperForm& form,
                    const HopperMaps& maps, const HopperPlaces& places, const Hopper8Scales& scales) {
  clear_given(stream, form, places.given);
  with_kernel(tile, form, scores, result, [&](auto kernel, int threads) {
    cuda::launch_large(kernel, cuda::large_shape(form.blocks(), threads, form.shared_bytes, stream, form.split), form,
                       maps, places, scales);
  });
  cuda::check_launched("hopper 8-bit attention kernel");
}

}  // namespace headroom::attentions
