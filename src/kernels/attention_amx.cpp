// attention in bf16 on AMX tiles: y[i, :] = sum_j p[i, j] v[j, :] / sum_j p[i, j],  p[i, j] = exp(scale q[i] k[j] - m)
//
// Shapes   as in attention_cpu.cpp. bf16 in memory; products of bf16 with f32 sums, exponentials in f32, p rounded to
//          bf16 between the products.
// Scratch  keys and values once more, in the tiles' form: those of three heads for each thread, which packs a head when
//          it comes to it and finds it in its cache; of all heads together where there are fewer heads than threads.
//
// A tile product of 16 x 16 x 32 takes 16 cycles; the softmax of as many scores takes the vector units several times as
// long. With a head_dim of 64 the two need about the same time, so they run side by side. Work is cut into items, 32
// queries by a block of keys, and while item i has its softmax, row by row, the tiles work between its rows on the
// second product of item i - 1 and on the first of item i + 1. The core finds both in its window and fills both units.
//
// Measured on two cores with AMX whose linear reaches 1980 GFLOP/s (single runs on a shared machine): 850 at
// [20, 3, 272, 64], 1190 at [1, 2, 4096, 64], 1620 at [1, 2, 4096, 128]; attention_cpu.cpp there has 280, 240, 300.
// Tried: the tile work of an item before its softmax instead of between its rows, 550, 970, 1070; 5, 16 or 32 groups
// of keys an item, within the noise of 9; 4 blocks of queries a task, 840, 1160, 1080 (but better on 16 threads: 3510,
// 4420, 5530 against 2900, 4400, 3500); rounding by shifts and a blend instead of vcvtne2ps2bf16, the same. On 272
// tokens the softmax alone takes 0.58 of the time, and the tiles alone 0.61.

#include "kernels/attention.hpp"
#include "kernels/attention_problem.hpp"
#include "kernels/parallel.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#endif
#include <immintrin.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "hwy/base.h"
#endif

namespace headroom {
namespace {

constexpr std::int64_t kBlockQueries = 32;  // two tiles of 16 rows
constexpr std::int64_t kGroupKeys = 32;     // the depth of a tile product
constexpr std::int64_t kMaxBlockGroups =
    9;  // groups of keys in an item: its scores and exponentials stay near the core
/// Items at work at once: one is entered, one in softmax, one meets its values. Each may be of another task and head.
constexpr std::int64_t kInFlight = 3;
constexpr std::int64_t kMaxTaskBlocks = 8;  // blocks of queries that share a pass over the keys
constexpr std::int64_t kTile = 512;         // bf16 elements

constexpr std::int64_t divide_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

/// The problem, cut up, and where each part lies in scratch, in bytes.
struct AmxTiles {
  AttentionProblem problem;
  std::int64_t key_steps = 0;     ///< key_dim in depths of a tile
  std::int64_t value_pairs = 0;   ///< value_dim in pairs of tiles, 32 columns
  std::int64_t groups = 0;        ///< of keys
  std::int64_t block_groups = 0;  ///< of keys in an item
  std::int64_t key_blocks = 0;
  std::int64_t query_blocks = 0;  ///< of a head
  std::int64_t task_blocks = 0;   ///< of queries in a task
  std::int64_t tasks = 0;         ///< of a head
  // Of a packed head.
  std::int64_t keys = 0, values = 0, has_nan = 0, head_bytes = 0;
  bool shared = false;  ///< all packed heads first of all, for every thread; else a few in each thread's part
  // Of a thread.
  std::int64_t packed = 0;
  std::int64_t queries = 0, scores = 0, exponentials = 0, sums = 0, row_max = 0, row_sum = 0, factor = 0;
  std::int64_t thread_bytes = 0;

  [[nodiscard]] std::int64_t heads() const { return problem.batch * problem.heads; }
  [[nodiscard]] std::int64_t shared_bytes() const { return shared ? heads() * head_bytes : 0; }
};

AmxTiles cut(const AttentionProblem& problem, int threads) {
  AmxTiles tiles{.problem = problem};
  tiles.key_steps = divide_up(problem.key_dim, 32);
  tiles.value_pairs = divide_up(problem.value_dim, 32);
  tiles.groups = divide_up(problem.keys, kGroupKeys);
  tiles.key_blocks = divide_up(tiles.groups, kMaxBlockGroups);
  tiles.block_groups = divide_up(tiles.groups, tiles.key_blocks);
  tiles.key_blocks = divide_up(tiles.groups, tiles.block_groups);
  tiles.query_blocks = divide_up(problem.queries, kBlockQueries);
  tiles.task_blocks = group_queries(tiles.heads(), tiles.query_blocks, 1, kMaxTaskBlocks, threads);
  tiles.tasks = divide_up(tiles.query_blocks, tiles.task_blocks);

  const auto reserve = [](std::int64_t& total, std::int64_t bytes) {
    return std::exchange(total, total + divide_up(bytes, 64) * 64);
  };
  constexpr std::int64_t kBf16 = 2, kF32 = 4;
  tiles.keys = reserve(tiles.head_bytes, tiles.groups * 2 * tiles.key_steps * kTile * kBf16);
  tiles.values = reserve(tiles.head_bytes, tiles.groups * 2 * tiles.value_pairs * kTile * kBf16);
  tiles.has_nan = reserve(tiles.head_bytes, tiles.groups);
  tiles.shared = tiles.heads() < threads;
  tiles.packed = reserve(tiles.thread_bytes, tiles.shared ? 0 : kInFlight * tiles.head_bytes);
  const std::int64_t slots = kInFlight * tiles.task_blocks;
  tiles.queries = reserve(tiles.thread_bytes, slots * 2 * tiles.key_steps * kTile * kBf16);
  tiles.scores = reserve(tiles.thread_bytes, 2 * tiles.block_groups * kBlockQueries * kGroupKeys * kF32);
  tiles.exponentials = reserve(tiles.thread_bytes, 2 * tiles.block_groups * kBlockQueries * kGroupKeys * kBf16);
  tiles.sums = reserve(tiles.thread_bytes, slots * kBlockQueries * tiles.value_pairs * 32 * kF32);
  tiles.row_max = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  tiles.row_sum = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  tiles.factor = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  return tiles;
}

}  // namespace
}  // namespace headroom

#if defined(__x86_64__)

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,amx-tile,amx-bf16,fma")
namespace headroom {
namespace {

using Bits = std::uint16_t;  // of a bf16

/// 16 rows of up to 32 bf16, rows at `stride`; what lies outside the count of rows or of columns is 0.
void load_rows(const Bits* from, std::int64_t stride, std::int64_t rows, std::int64_t columns, __m512i* to) {
  const auto mask = static_cast<__mmask32>(columns >= 32 ? 0xFFFFFFFFU : (1U << columns) - 1);
  for (std::int64_t i = 0; i < 16; ++i)
    to[i] = i < rows ? _mm512_maskz_loadu_epi16(mask, from + i * stride) : _mm512_setzero_si512();
}

/// Swaps rows and columns of 16 x 16 elements of 32 bits.
void transpose(__m512i* x) {
  __m512i a[16], b[16];
  for (int i = 0; i < 8; ++i) {
    a[2 * i] = _mm512_unpacklo_epi32(x[2 * i], x[2 * i + 1]);
    a[2 * i + 1] = _mm512_unpackhi_epi32(x[2 * i], x[2 * i + 1]);
  }
  for (int i = 0; i < 16; i += 4) {
    b[i] = _mm512_unpacklo_epi64(a[i], a[i + 2]);
    b[i + 1] = _mm512_unpackhi_epi64(a[i], a[i + 2]);
    b[i + 2] = _mm512_unpacklo_epi64(a[i + 1], a[i + 3]);
    b[i + 3] = _mm512_unpackhi_epi64(a[i + 1], a[i + 3]);
  }
  for (int k = 0; k < 4; ++k) {  // blocks of 128 bits
    const __m512i even0 = _mm512_shuffle_i32x4(b[k], b[4 + k], 0x88);
    const __m512i odd0 = _mm512_shuffle_i32x4(b[k], b[4 + k], 0xDD);
    const __m512i even1 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0x88);
    const __m512i odd1 = _mm512_shuffle_i32x4(b[8 + k], b[12 + k], 0xDD);
    x[k] = _mm512_shuffle_i32x4(even0, even1, 0x88);
    x[4 + k] = _mm512_shuffle_i32x4(odd0, odd1, 0x88);
    x[8 + k] = _mm512_shuffle_i32x4(even0, even1, 0xDD);
    x[12 + k] = _mm512_shuffle_i32x4(odd0, odd1, 0xDD);
  }
}

/// Keys and values of one group as tiles: a tile's row holds pairs that lie one behind the other in the product's
/// depth, a pair for each of 16 columns. Keys [key_steps][2] tiles; values [value_pairs][groups][2].
void pack_group(const AmxTiles& tiles, std::int64_t head, std::int64_t group, const Bits* k, const Bits* v,
                std::byte* packed) {
  const AttentionProblem& problem = tiles.problem;
  const std::int64_t first = group * kGroupKeys;
  const std::int64_t count = std::min(kGroupKeys, problem.keys - first);
  __m512i rows[16];
  __mmask32 nan = 0;
  const Bits* key = k + problem.head_offset(problem.k, head) + first * problem.k.token;
  Bits* key_tile = reinterpret_cast<Bits*>(packed + tiles.keys) + group * 2 * tiles.key_steps * kTile;
  for (std::int64_t step = 0; step < tiles.key_steps; ++step) {
    for (std::int64_t n = 0; n < 2; ++n, key_tile += kTile) {
      load_rows(key + n * 16 * problem.k.token + step * 32, problem.k.token, count - n * 16,
                problem.key_dim - step * 32, rows);
      for (const __m512i row : rows)
        nan |= _mm512_cmpgt_epu16_mask(_mm512_and_si512(row, _mm512_set1_epi16(0x7FFF)), _mm512_set1_epi16(0x7F80));
      transpose(rows);
      for (int i = 0; i < 16; ++i) _mm512_store_si512(key_tile + i * 32, rows[i]);
    }
  }
  packed[tiles.has_nan + group] = std::byte{nan != 0};

  const Bits* value = v + problem.head_offset(problem.v, head) + first * problem.v.token;
  Bits* value_tiles = reinterpret_cast<Bits*>(packed + tiles.values);
  alignas(64) Bits interleaved[64];  // element i of the first row, of the second, and so on
  for (int i = 0; i < 64; ++i) interleaved[i] = static_cast<Bits>(i / 2 + i % 2 * 32);
  const __m512i lower = _mm512_load_si512(interleaved);
  const __m512i upper = _mm512_load_si512(interleaved + 32);
  __m512i odd_rows[16];
  for (std::int64_t pair = 0; pair < tiles.value_pairs; ++pair) {
    Bits* tile = value_tiles + (pair * tiles.groups + group) * 2 * kTile;
    const std::int64_t columns = problem.value_dim - pair * 32;
    load_rows(value + pair * 32, 2 * problem.v.token, (count + 1) / 2, columns, rows);
    load_rows(value + pair * 32 + problem.v.token, 2 * problem.v.token, count / 2, columns, odd_rows);
    for (int i = 0; i < 16; ++i) {
      _mm512_store_si512(tile + i * 32, _mm512_permutex2var_epi16(rows[i], lower, odd_rows[i]));
      _mm512_store_si512(tile + kTile + i * 32, _mm512_permutex2var_epi16(rows[i], upper, odd_rows[i]));
    }
  }
}

/// 32 queries by one block of keys.
struct Item {
  std::int64_t head, first_query, queries;
  std::int64_t key_block, first_group, groups;
  bool last;            ///< block of keys
  std::int64_t slot;    ///< of what its queries keep from one block of keys to the next
  std::int64_t buffer;  ///< of its scores and exponentials: items take turns
};

/// Walks the items of tasks [begin, end): for each task and block of keys, each block of queries.
class Items {
 public:
  Items(const AmxTiles& tiles, std::int64_t begin, std::int64_t end) : tiles_(tiles), task_(begin), end_(end) {}

  [[nodiscard]] bool done() const { return task_ == end_; }
  [[nodiscard]] Item get() const {
    const std::int64_t block = first_block() + block_;
    const std::int64_t first_group = key_block_ * tiles_.block_groups;
    return {.head = task_ / tiles_.tasks,
            .first_query = block * kBlockQueries,
            .queries = std::min(kBlockQueries, tiles_.problem.queries - block * kBlockQueries),
            .key_block = key_block_,
            .first_group = first_group,
            .groups = std::min(tiles_.block_groups, tiles_.groups - first_group),
            .last = key_block_ == tiles_.key_blocks - 1,
            .slot = task_ % kInFlight * tiles_.task_blocks + block_,
            .buffer = count_ % 2};
  }
  void next() {
    ++count_;
    if (++block_ < std::min(tiles_.task_blocks, tiles_.query_blocks - first_block())) return;
    block_ = 0;
    if (++key_block_ < tiles_.key_blocks) return;
    key_block_ = 0;
    ++task_;
  }

 private:
  [[nodiscard]] std::int64_t first_block() const { return task_ % tiles_.tasks * tiles_.task_blocks; }

  const AmxTiles& tiles_;
  std::int64_t task_, end_;
  std::int64_t key_block_ = 0, block_ = 0, count_ = 0;
};

struct Addresses {
  const Bits* q;
  const Bits* k;
  const Bits* v;
  Bits* out;
  std::byte* shared;
};

/// One thread's work on its tasks.
class Attention {
 public:
  Attention(const AmxTiles& tiles, const Addresses& addresses, std::byte* scratch)
      : tiles_(tiles), addresses_(addresses), scratch_(scratch) {
    const float scale = static_cast<float>(std::fabs(tiles.problem.scale) * 1.4426950408889634);
    scale_ = scale;
    bit_scale_ = scale * 0x1p23F;
  }

  void run(Items items) {
    Item next = items.get();
    enter(next);
    start(nullptr, &next);
    while (steps_ > 0) step();
    Item previous{};
    bool has_previous = false;
    while (true) {
      const Item item = next;
      items.next();
      const bool has_next = !items.done();
      if (has_next) {
        next = items.get();
        enter(next);
      }
      if (has_previous) shrink_sums(previous);
      start(has_previous ? &previous : nullptr, has_next ? &next : nullptr);
      const std::int64_t steps = steps_;
      const float mask_nan = keys_have_nan(item) ? std::numeric_limits<float>::quiet_NaN() : 0;
      for (std::int64_t row = 0; row < item.queries; ++row) {
        softmax_row(item, row, mask_nan);
        while (steps_ > steps - steps * (row + 1) / item.queries) step();
      }
      if (has_previous && previous.last) store(previous);
      previous = item;
      has_previous = true;
      if (!has_next) break;
    }
    shrink_sums(previous);
    start(&previous, nullptr);
    while (steps_ > 0) step();
    store(previous);
  }

 private:
  /// Where a packed head lies.
  [[nodiscard]] std::byte* packed(const Item& item) const {
    return tiles_.shared ? addresses_.shared + item.head * tiles_.head_bytes
                         : scratch_ + tiles_.packed + item.head % kInFlight * tiles_.head_bytes;
  }
  Bits* queries(const Item& item) const {
    return reinterpret_cast<Bits*>(scratch_ + tiles_.queries) + item.slot * 2 * tiles_.key_steps * kTile;
  }
  float* scores(const Item& item) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.scores) + item.buffer * tiles_.block_groups * 1024;
  }
  Bits* exponentials(const Item& item) const {
    return reinterpret_cast<Bits*>(scratch_ + tiles_.exponentials) + item.buffer * tiles_.block_groups * 1024;
  }
  [[nodiscard]] std::int64_t sums_row() const { return tiles_.value_pairs * 32; }
  float* sums(const Item& item) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.sums) + item.slot * kBlockQueries * sums_row();
  }
  float* of_rows(std::int64_t offset, const Item& item) const {
    return reinterpret_cast<float*>(scratch_ + offset) + item.slot * kBlockQueries;
  }

  /// Packs what an item is the first to need.
  void enter(const Item& item) {
    if (!tiles_.shared && item.head != head_) {
      head_ = item.head;
      for (std::int64_t group = 0; group < tiles_.groups; ++group)
        pack_group(tiles_, head_, group, addresses_.k, addresses_.v, packed(item));
    }
    if (item.key_block == 0) load_queries(item);
  }

  /// The queries of an item as [key_steps][2] tiles, their sign turned where the scale is negative.
  void load_queries(const Item& item) {
    const AttentionProblem& problem = tiles_.problem;
    const Bits* from = addresses_.q + problem.head_offset(problem.q, item.head) + item.first_query * problem.q.token;
    const __m512i sign = _mm512_set1_epi16(problem.scale < 0 ? static_cast<short>(0x8000) : short{0});
    Bits* tile = queries(item);
    __m512i rows[16];
    for (std::int64_t step = 0; step < tiles_.key_steps; ++step) {
      for (std::int64_t m = 0; m < 2; ++m, tile += kTile) {
        load_rows(from + m * 16 * problem.q.token + step * 32, problem.q.token, item.queries - m * 16,
                  problem.key_dim - step * 32, rows);
        for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 32, _mm512_xor_si512(rows[i], sign));
      }
    }
    for (std::int64_t i = 0; i < kBlockQueries; ++i) {
      of_rows(tiles_.row_max, item)[i] = -std::numeric_limits<float>::infinity();
      of_rows(tiles_.row_sum, item)[i] = 0;
    }
  }

  bool keys_have_nan(const Item& item) const {
    const std::byte* flags = packed(item) + tiles_.has_nan + item.first_group;
    return std::any_of(flags, flags + item.groups, [](std::byte flag) { return flag != std::byte{0}; });
  }

  /// Prepares the tile work: sums += p v of one item, then scores = q k^T of another.
  void start(const Item* weighted, const Item* scored) {
    steps_ = 0;
    value_left_ = 0;
    if (weighted != nullptr) {
      value_left_ = tiles_.value_pairs;
      value_groups_ = weighted->groups;
      resume_ = weighted->key_block != 0;
      exponentials_ = exponentials(*weighted);
      values_ = reinterpret_cast<const Bits*>(packed(*weighted) + tiles_.values) + weighted->first_group * 2 * kTile;
      sums_ = sums(*weighted);
      steps_ += value_left_ * value_groups_;
    }
    if (scored != nullptr) {
      queries_ = queries(*scored);
      keys_ = reinterpret_cast<const Bits*>(packed(*scored) + tiles_.keys) +
              scored->first_group * 2 * tiles_.key_steps * kTile;
      scores_ = scores(*scored);
      steps_ += scored->groups * tiles_.key_steps;
    }
    at_ = 0;
  }

  /// Four tile products, a depth of 32 for 32 rows and 32 columns; tiles 0 to 3 hold the sums between steps.
  void step() {
    std::atomic_signal_fence(std::memory_order_seq_cst);  // compilers do not see that tile loads read memory
    --steps_;
    if (value_left_ > 0) {
      step_values();
    } else {
      step_scores();
    }
  }

  void step_values() {
    const std::int64_t row_bytes = sums_row() * 4;
    if (at_ == 0 && resume_) {
      _tile_loadd(0, sums_, row_bytes);
      _tile_loadd(1, sums_ + 16, row_bytes);
      _tile_loadd(2, sums_ + 16 * sums_row(), row_bytes);
      _tile_loadd(3, sums_ + 16 * sums_row() + 16, row_bytes);
    } else if (at_ == 0) {
      zero_tiles();
    }
    multiply(exponentials_ + at_ * 2 * kTile, values_ + at_ * 2 * kTile);
    if (++at_ < value_groups_) return;
    _tile_stored(0, sums_, row_bytes);
    _tile_stored(1, sums_ + 16, row_bytes);
    _tile_stored(2, sums_ + 16 * sums_row(), row_bytes);
    _tile_stored(3, sums_ + 16 * sums_row() + 16, row_bytes);
    at_ = 0;
    --value_left_;
    sums_ += 32;
    values_ += tiles_.groups * 2 * kTile;
  }

  void step_scores() {
    if (at_ == 0) zero_tiles();
    multiply(queries_ + at_ * 2 * kTile, keys_);
    keys_ += 2 * kTile;
    if (++at_ < tiles_.key_steps) return;
    _tile_stored(0, scores_, 64);
    _tile_stored(1, scores_ + 256, 64);
    _tile_stored(2, scores_ + 512, 64);
    _tile_stored(3, scores_ + 768, 64);
    at_ = 0;
    scores_ += 1024;
  }

  static void zero_tiles() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }

  static void multiply(const Bits* a, const Bits* b) {
    _tile_loadd(4, a, 64);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTile, 64);
    _tile_loadd(5, a + kTile, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }

  /// 2^x for x = (y / 2^23) - 127, y in units of an f32's bits, within 2e-4 (and 2^-17 from y's own rounding): the
  /// exponent is there already, the mantissa 1 + f becomes 2^f, a cubic that stays in [1, 2).
  static __m512 power_of_two(__m512 y) {
    const __m512i mantissa = _mm512_set1_epi32(0x007FFFFF);
    y = _mm512_max_ps(_mm512_set1_ps(0x1p23F), y);  // 2^-126 for less: subnormal numbers are slow
    const __m512i bits = _mm512_cvtps_epi32(y);
    const __m512i one = _mm512_set1_epi32(0x3F800000);
    const __m512 x =
        _mm512_castsi512_ps(_mm512_ternarylogic_epi32(bits, mantissa, one, 0xEA));  // bits & mantissa | one
    __m512 p = _mm512_fmadd_ps(_mm512_set1_ps(kCubic[3]), x, _mm512_set1_ps(kCubic[2]));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(kCubic[1]));
    p = _mm512_fmadd_ps(p, x, _mm512_set1_ps(kCubic[0]));
    return _mm512_castsi512_ps(
        _mm512_ternarylogic_epi32(mantissa, _mm512_castps_si512(p), bits, 0xCA));  // mantissa ? p : bits
  }

  /// Exponentials of one row of scores under its new maximum. `spoiled` is NaN where a key has one, else 0.
  void softmax_row(const Item& item, std::int64_t row, float spoiled) {
    const float* from = scores(item) + row / 16 * 512 + row % 16 * 16;
    Bits* to = exponentials(item) + row / 16 * kTile + row % 16 * 32;
    const std::int64_t rest =
        std::min(kGroupKeys, tiles_.problem.keys - (item.first_group + item.groups - 1) * kGroupKeys);
    const auto mask = static_cast<std::uint32_t>((std::uint64_t{1} << rest) - 1);
    const __m512 lowest = _mm512_set1_ps(-std::numeric_limits<float>::infinity());
    const std::int64_t whole = item.groups - 1;  // the last group may be short
    const float* last = from + whole * 1024;
    const __m512 last0 = _mm512_mask_loadu_ps(lowest, static_cast<__mmask16>(mask), last);
    const __m512 last1 = _mm512_mask_loadu_ps(lowest, static_cast<__mmask16>(mask >> 16), last + 256);

    __m512 max0 = last0, max1 = last1;
    for (std::int64_t g = 0; g < whole; ++g) {
      max0 = _mm512_max_ps(max0, _mm512_load_ps(from + g * 1024));
      max1 = _mm512_max_ps(max1, _mm512_load_ps(from + g * 1024 + 256));
    }
    float& row_max = of_rows(tiles_.row_max, item)[row];
    float& row_sum = of_rows(tiles_.row_sum, item)[row];
    float& factor = of_rows(tiles_.factor, item)[row];
    const float here = scale_ * _mm512_reduce_max_ps(_mm512_max_ps(max0, max1)) + spoiled;
    factor = 1;
    if (!(here <= row_max)) {  // larger, or NaN
      factor = item.key_block == 0 ? 0 : std::exp2(row_max - here);
      row_max = here;
    }

    const __m512 scale = _mm512_set1_ps(bit_scale_);
    const __m512 offset = _mm512_set1_ps((127 - row_max) * 0x1p23F);
    __m512 sum0 = _mm512_setzero_ps(), sum1 = _mm512_setzero_ps();
    const auto put = [&](__m512 lower, __m512 upper, Bits* at) {
      const __m512 p0 = power_of_two(_mm512_fmadd_ps(lower, scale, offset));
      const __m512 p1 = power_of_two(_mm512_fmadd_ps(upper, scale, offset));
      sum0 = _mm512_add_ps(sum0, p0);
      sum1 = _mm512_add_ps(sum1, p1);
      const __m512bh rounded = _mm512_cvtne2ps_pbh(p1, p0);
      std::memcpy(at, &rounded, sizeof rounded);
    };
    for (std::int64_t g = 0; g < whole; ++g)
      put(_mm512_load_ps(from + g * 1024), _mm512_load_ps(from + g * 1024 + 256), to + g * 2 * kTile);
    put(last0, last1, to + whole * 2 * kTile);
    row_sum = row_sum * factor + _mm512_reduce_add_ps(_mm512_add_ps(sum0, sum1));
  }

  /// Brings what was summed before this item's keys under its maxima.
  void shrink_sums(const Item& item) {
    if (item.key_block == 0) return;
    for (std::int64_t i = 0; i < item.queries; ++i) {
      const float factor = of_rows(tiles_.factor, item)[i];
      if (factor == 1) continue;
      float* row = sums(item) + i * sums_row();
      for (std::int64_t at = 0; at < sums_row(); at += 16)
        _mm512_store_ps(row + at, _mm512_mul_ps(_mm512_load_ps(row + at), _mm512_set1_ps(factor)));
    }
  }

  void store(const Item& item) {
    const AttentionProblem& problem = tiles_.problem;
    Bits* to = addresses_.out + problem.head_offset(problem.out, item.head) + item.first_query * problem.out.token;
    for (std::int64_t i = 0; i < item.queries; ++i, to += problem.out.token) {
      const float row_max = of_rows(tiles_.row_max, item)[i];
      const float inverse = std::isnan(row_max) ? row_max : 1 / of_rows(tiles_.row_sum, item)[i];
      const float* row = sums(item) + i * sums_row();
      for (std::int64_t at = 0; at < problem.value_dim; at += 16) {
        const std::int64_t count = std::min<std::int64_t>(16, problem.value_dim - at);
        const __m256bh rounded = _mm512_cvtneps_pbh(_mm512_mul_ps(_mm512_load_ps(row + at), _mm512_set1_ps(inverse)));
        __m256i bits;
        std::memcpy(&bits, &rounded, sizeof bits);
        _mm256_mask_storeu_epi16(to + at, static_cast<__mmask16>((1U << count) - 1), bits);
      }
    }
  }

  static constexpr float kCubic[] = {0.452777476F, 0.477265336F, -0.00825358689F, 0.078212775F};

  const AmxTiles& tiles_;
  Addresses addresses_;
  std::byte* scratch_;
  std::int64_t head_ = -1;   // packed last
  float scale_, bit_scale_;  // log2(e) |scale|, and that in units of an f32's exponent

  std::int64_t steps_ = 0;  // left of the tile work
  std::int64_t at_ = 0;     // depths done of the sums in the tiles
  std::int64_t value_left_ = 0, value_groups_ = 0;
  bool resume_ = false;
  const Bits* exponentials_ = nullptr;
  const Bits* values_ = nullptr;
  float* sums_ = nullptr;
  const Bits* queries_ = nullptr;
  const Bits* keys_ = nullptr;
  float* scores_ = nullptr;
};

struct alignas(64) TileConfig {
  std::uint8_t palette = 1;
  std::uint8_t start_row = 0;
  std::uint8_t reserved[14] = {};
  std::uint16_t row_bytes[16] = {64, 64, 64, 64, 64, 64, 64, 64};
  std::uint8_t rows[16] = {16, 16, 16, 16, 16, 16, 16, 16};
};
static_assert(sizeof(TileConfig) == 64);
/// Not on the stack: GCC's intrinsic tells the compiler of the first 8 bytes only, and the rest would not be stored.
constexpr TileConfig kTileConfig;

/// While it lives, the calling thread's tiles have 16 rows of 64 bytes. Nothing else may use tiles meanwhile.
class [[nodiscard]] TileShape {
 public:
  TileShape() { _tile_loadconfig(&kTileConfig); }
  ~TileShape() { _tile_release(); }
  TileShape(const TileShape&) = delete;
  TileShape& operator=(const TileShape&) = delete;
};

void attend(const AmxTiles& tiles, std::int64_t begin, std::int64_t end, const Addresses& addresses,
            std::byte* scratch) {
  const TileShape shape;
  Attention(tiles, addresses, scratch).run(Items(tiles, begin, end));
}

}  // namespace
}  // namespace headroom
HWY_POP_ATTRIBUTES

#endif

namespace headroom {
namespace {

class PreparedAttention final : public PreparedKernel {
 public:
  PreparedAttention(const AttentionProblem& problem, int threads) : tiles_(cut(problem, threads)), threads_(threads) {}

  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(tiles_.shared_bytes() + threads_ * tiles_.thread_bytes);
  }
  [[nodiscard]] std::string implementation() const override { return "intrinsics:amx_bf16"; }
  void launch(const LaunchArguments& arguments) const override {
#if defined(__x86_64__)
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const Addresses at{.q = static_cast<const Bits*>(arguments.inputs[0]),
                       .k = static_cast<const Bits*>(arguments.inputs[1]),
                       .v = static_cast<const Bits*>(arguments.inputs[2]),
                       .out = static_cast<Bits*>(arguments.outputs[0]),
                       .shared = scratch};
    const AttentionProblem& problem = tiles_.problem;
    if (tiles_.shared) {
      const std::int64_t grain = grain_of(kGroupKeys * (problem.key_dim + problem.value_dim));
      parallel_for(threads_, tiles_.heads() * tiles_.groups, grain, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i)
          pack_group(tiles_, i / tiles_.groups, i % tiles_.groups, at.k, at.v,
                     scratch + i / tiles_.groups * tiles_.head_bytes);
      });
    }
    const std::int64_t grain = grain_of(tiles_.task_blocks * kBlockQueries * problem.keys);
    parallel_for(threads_, tiles_.heads() * tiles_.tasks, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      attend(tiles_, begin, end, at, scratch + tiles_.shared_bytes() + thread * tiles_.thread_bytes);
    });
#else
    static_cast<void>(arguments);
    HR_CHECK(false);  // supports() declines everywhere else
#endif
  }

 private:
  AmxTiles tiles_;
  int threads_;
};

class AmxAttention final : public Kernel {
 public:
  [[nodiscard]] std::string_view name() const override { return "amx.attention"; }
  [[nodiscard]] Op op() const override { return Op::kAttention; }

  [[nodiscard]] Support supports(const OpSpec& spec, const Target& target) const override {
    if (spec.op != Op::kAttention) return Rejection{fmt::format("runs attention, not {}", name_of(spec.op))};
    if (target.device != DeviceKind::kCpu)
      return Rejection{fmt::format("runs on a cpu, not on {}", name_of(target.device))};
    if (spec.inputs[0].dtype != DType::kBF16) return Rejection{fmt::format("takes bf16, not {}", spec.inputs[0].dtype)};
    if (target.cpu_isa < CpuIsa::kAmx)
      return Rejection{fmt::format("needs AMX tiles; this CPU has {}", name_of(target.cpu_isa))};
    return supports_attention(spec);
  }

  [[nodiscard]] StrideRule input_strides(const OpSpec& /*spec*/, int /*input*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& /*spec*/, int /*output*/) const override {
    return StrideRule::kInnerDense;
  }
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kBF16; }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const Target& target) const override {
    return std::make_unique<PreparedAttention>(attention_problem(spec, inputs, outputs[0]), target.threads);
  }
};

}  // namespace

const Kernel& amx_attention() {
  static const AmxAttention kernel;
  return kernel;
}

}  // namespace headroom
