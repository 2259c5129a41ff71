// attention in bf16 on AMX tiles: y[i, :] = sum_j p[i, j] v[j, :] / sum_j p[i, j],  p[i, j] = exp(scale q[i] k[j] - m)
//
// Shapes   as in attention_cpu.cpp, without bias, mask and logsumexp.
// Dtypes   bf16 in memory; matmuls of bf16 with f32 sums; p by a table, rounded to bf16, then summed and multiplied by
//          the values (attention_amx_softmax_inl.hpp).
// Scratch  keys and values once more, in the tiles' layout. Each thread has those of a few heads: it packs a head
//          when it comes to it and finds it in its cache. With fewer heads than threads, all heads are packed
//          together.
//
// The softmax has the same result under any m that keeps p and its sums within range, so the largest score of a row
// is not searched for. m = 22 serves all rows whose largest score is within 44 of 0, as nearly all are. An item is
// computed again under its rows' largest scores if its sums are out of range, or if its keys and queries are huge
// or not finite. Sums over values of up to 1e26 in magnitude, not 3e38, then stay within f32.
//
// In causal order an item ends at the group of the last key that its last query sees, and blocks of keys that none of
// its queries sees have no item. Only groups that the diagonal cuts have exponentials left out row by row.
//
// Work is cut into items, 16 queries by a block of keys, and items into groups of 32 keys. While the softmax of one
// group runs row by row, tile instructions are interleaved between its rows: for the scores of a group two later
// and the values of a group two earlier. The core finds all three in its window and fills both units, and the
// results of one have reached the first-level cache before another reads them. Four of the eight tiles hold the
// sums of 16 queries by 64 columns of values from one end of an item to the other, two a group's scores, two the
// operands. A head_dim beyond 64 needs more sums than that. Its values are multiplied by the exponentials of a
// whole item, which are kept meanwhile, one item later. In cycles for 16 scores, with a head_dim of 64:
//
//   tile multiply-adds                       4.0  16 for 16 x 16 x 32
//   tiles of keys and values, loaded         5.3  21 for one from the second-level cache, which all 16 queries share
//   softmax, table and fixed m, as here      3.3  13 operations for 32 scores, two a cycle
//   softmax, cubic and largest score         10   31 operations for 32 scores, and the reduction of a row
//
// GFLOP/s on two cores with AMX, best of alternating repeats, at [20, 3, 272, 64], [1, 2, 1024, 64], [1, 2, 4096, 64]
// and [1, 2, 4096, 128]; attention_cpu.cpp there has 280, 250, 240 and 300:
//
//   items of 32 queries by 288 keys, each stage a whole item after the other     870  1130  1200  1670
//   items of 16 queries by 288 keys, values a whole item after the softmax       970  1250  1410  1530
//   as here                                                                     1090  1670  1800  1670
//
// Prefetching the next group's tiles makes it 3 to 20% slower.

#include "kernels/attention/attention_amx_tiles.hpp"
#include "kernels/attention/attention_problem.hpp"
#include "kernels/core/library_kernel.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/support.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <bit>
#include <cmath>
#include <memory>
#include <utility>

#include "kernels/attention/attention_amx_pack_inl.hpp"
#include "kernels/attention/attention_amx_softmax_inl.hpp"
#include "kernels/matmul/amx_tile_shape_inl.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi,amx-tile,amx-bf16,fma")
namespace headroom::amx {
namespace {

/// Exponentials are 2^(x - kShift) until a row's sums leave [kLowest, kHighest].
constexpr float kShift = 32;
constexpr float kLowest = 0x1p-96F, kHighest = 0x1p32F;

/// positions_of_first() of 0 to 32 keys.
constexpr auto kFirstPositions = [] {
  std::array<std::uint32_t, kGroupKeys + 1> positions{};
  for (std::size_t keys = 0; keys < positions.size(); ++keys)
    positions[keys] = positions_of_first(static_cast<std::int64_t>(keys));
  return positions;
}();

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
    alignas(64) const std::array<std::uint8_t, 64> table = exponential_table();
    scale_ = static_cast<float>(std::fabs(tiles.problem.scale) * 1.4426950408889634 * 256);
    table_ = _mm512_load_si512(table.data());
  }

  void run(AmxItems items) {
    ScoreWalk ahead{.items = items, .item = {}, .first = {}};
    for (std::int64_t i = 0; i < kAhead; ++i)
      if (const ScoreWork work = next_scores(ahead); work.queries != nullptr) make_scores(work, scores(i), kGroupKeys);
    AmxItem previous{};  // at first one that is not the last of any queries
    ValueWork values;
    for (; !items.done(); items.next()) {
      const AmxItem item = items.get();
      for (std::int64_t at = 0; at < item.groups; ++at) work_[static_cast<std::size_t>(at)] = next_scores(ahead);
      const std::int64_t lag = tiles_.is_wide() ? item.groups : std::min(kLag, item.groups);
      start_row_sums(item);
      softmax(item, 0, lag, work_.data(), values);
      weigh_all(values);
      values = value_work(item);
      softmax(item, lag, item.groups, work_.data(), values);
      finish(previous);  // only now, when its sums have reached memory
      block_ += item.groups;
      if (!is_in_range(item)) {
        repeat(item);
        values.left = 0;
      }
      previous = item;
    }
    weigh_all(values);
    finish(previous);
  }

 private:
  /// The tile work on the scores of a group of keys: tiles 4 and 5 = q k^T.
  struct ScoreWork {
    const Bits* queries = nullptr;  ///< null: there is none
    std::int64_t query_step = 0, query_row_bytes = 0;
    const Bits* keys = nullptr;
  };
  /// Goes over all groups of all items.
  struct ScoreWalk {
    AmxItems items;
    AmxItem item{};
    std::int64_t at = 0;  ///< groups of the item done
    ScoreWork first;      ///< of its first group
  };
  /// The tile work on the values of an item: for 64 columns of the values after the other, and in each for all groups
  /// of keys, tiles 0 to 3 += p v.
  struct ValueWork {
    std::int64_t left = 0;  ///< groups, over all columns
    const Bits* exponentials = nullptr;
    std::int64_t first_block = 0, ring = 0;  ///< of the exponentials: that of the first group, and how many there are
    std::int64_t block_step = 0, row_bytes = 0;
    const Bits* values = nullptr;
    std::int64_t value_step = 0;   ///< from one group to the next
    std::int64_t pair_values = 0;  ///< from 32 columns to the next
    float* sums = nullptr;
    std::int64_t groups = 0, at = 0, pairs_left = 0;
    bool resumes = false;  ///< there are sums of other keys
  };

  /// The address of a packed head.
  [[nodiscard]] std::byte* packed(const AmxItem& item) const {
    return tiles_.shared ? addresses_.shared + item.head * tiles_.head_bytes
                         : scratch_ + tiles_.packed + item.head % kInFlight * tiles_.head_bytes;
  }
  [[nodiscard]] Bits* queries(const AmxItem& item) const {
    return reinterpret_cast<Bits*>(scratch_ + tiles_.queries) + item.slot * tiles_.key_steps * kTile;
  }
  /// Blocks of 16 queries and 32 keys, numbered in the order of their visits.
  [[nodiscard]] float* scores(std::int64_t block) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.scores) + block % kScoreRing * kBlockQueries * kGroupKeys;
  }
  [[nodiscard]] std::int64_t ring() const { return tiles_.is_wide() ? kRingOfWide : kRing; }
  [[nodiscard]] Bits* exponentials(std::int64_t block) const {
    return reinterpret_cast<Bits*>(scratch_ + tiles_.exponentials) +
           (block & (ring() - 1)) * kBlockQueries * kGroupKeys;
  }
  /// [value_pairs][2 halves of the columns] tiles.
  [[nodiscard]] float* sums(const AmxItem& item) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.sums) + item.slot * 2 * tiles_.value_pairs * kSumsTile;
  }
  /// Sums of the exponentials of each row, in 16 parts, as they are after a number of blocks of keys, 1 or more.
  [[nodiscard]] float* row_sums(const AmxItem& item, std::int64_t key_blocks) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.row_sums) + (item.slot * 2 + key_blocks % 2) * kBlockQueries * 16;
  }
  [[nodiscard]] float* of_rows(std::int64_t at, const AmxItem& item) const {
    return reinterpret_cast<float*>(scratch_ + at) + item.slot * kBlockQueries;
  }

  /// Packs keys and values at a new head, unless threads share them, and queries at their first block of keys.
  void enter(const AmxItem& item) {
    if (!tiles_.shared && item.head != head_) {
      head_ = item.head;
      for (std::int64_t group = 0; group < tiles_.groups; ++group)
        pack_group(tiles_, head_, group, addresses_.k, addresses_.v, packed(item));
    }
    if (item.key_block == 0) load_queries(item);
  }

  /// Whether tiles may be loaded from where the queries of an item lie: whole ones, under a scale that is not negative.
  [[nodiscard]] bool are_tiles(const AmxItem& item) const {
    return item.queries == kBlockQueries && tiles_.problem.key_dim % 32 == 0 && tiles_.problem.scale >= 0;
  }
  [[nodiscard]] const Bits* query_rows(const AmxItem& item) const {
    const AttentionProblem& problem = tiles_.problem;
    return addresses_.q + problem.head_offset(problem.q, item.head) + item.first_query * problem.q.token;
  }

  /// The queries of an item as [key_steps] tiles, negated if the scale is negative, unless they are tiles already;
  /// and the largest of them in either case.
  void load_queries(const AmxItem& item) {
    const AttentionProblem& problem = tiles_.problem;
    const Bits* from = query_rows(item);
    const bool copy = !are_tiles(item);
    const __m512i sign = _mm512_set1_epi16(problem.scale < 0 ? static_cast<short>(0x8000) : short{0});
    Bits* tile = queries(item);
    __m512i rows[16];
    __m512i largest = _mm512_setzero_si512();
    for (std::int64_t step = 0; step < tiles_.key_steps; ++step, tile += kTile) {
      load_rows(from + step * 32, problem.q.token, item.queries, problem.key_dim - step * 32, rows);
      largest = larger_of(largest, rows);
      if (!copy) continue;
      for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 32, _mm512_xor_si512(rows[i], sign));
    }
    reinterpret_cast<Bits*>(scratch_ + tiles_.largest_queries)[item.slot] = largest_of(largest);
    std::fill_n(of_rows(tiles_.references, item), kBlockQueries, 0.0F);
    std::fill_n(of_rows(tiles_.offsets, item), kBlockQueries, kOffset - 256 * kShift);
  }

  /// The work on the scores of an item's first group of keys.
  [[nodiscard]] ScoreWork score_work(const AmxItem& item) const {
    const bool in_place = are_tiles(item);
    return {.queries = in_place ? query_rows(item) : queries(item),
            .query_step = in_place ? 32 : kTile,
            .query_row_bytes = 2 * (in_place ? tiles_.problem.q.token : 32),
            .keys = reinterpret_cast<const Bits*>(packed(item) + tiles_.keys) + item.first_group * group_keys()};
  }
  /// Elements of a packed group of keys.
  [[nodiscard]] std::int64_t group_keys() const { return 2 * tiles_.key_steps * kTile; }

  /// The work on the scores of the next group of a walk, whose item is entered with its first; none after the last.
  [[nodiscard]] ScoreWork next_scores(ScoreWalk& walk) {
    if (walk.at == walk.item.groups) {
      if (walk.items.done()) return {};
      walk.item = walk.items.get();
      walk.items.next();
      walk.at = 0;
      enter(walk.item);
      walk.first = score_work(walk.item);
    }
    ScoreWork work = walk.first;
    work.keys += walk.item.group(walk.at++) * group_keys();
    return work;
  }

  [[nodiscard]] ValueWork value_work(const AmxItem& item) const {
    return {.left = item.groups * divide_up(tiles_.value_pairs, 2),
            .exponentials = exponentials(0),
            .first_block = block_,
            .ring = ring(),
            .block_step = kBlockQueries * kGroupKeys,
            .row_bytes = 2 * kGroupKeys,
            .values = reinterpret_cast<const Bits*>(packed(item) + tiles_.values) +
                      (item.first_group + item.group(0)) * 2 * kTile,
            .value_step = (item.backward ? -2 : 2) * kTile,
            .pair_values = tiles_.groups * 2 * kTile,
            .sums = sums(item),
            .groups = item.groups,
            .pairs_left = tiles_.value_pairs,
            .resumes = item.key_block != 0};
  }

  /// One of the multiply-adds of some scores: depths of 32 after the other, two of 16 keys in each.
  [[gnu::always_inline]] static void multiply_scores(const ScoreWork& work, std::int64_t step) {
    order_memory();
    if (step == 0) {
      _tile_zero(4);
      _tile_zero(5);
    }
    if (step % 2 == 0) _tile_loadd(6, work.queries + step / 2 * work.query_step, work.query_row_bytes);
    _tile_loadd(7, work.keys + step * kTile, 64);
    if (step % 2 == 0) {
      _tile_dpbf16ps(4, 6, 7);
    } else {
      _tile_dpbf16ps(5, 6, 7);
    }
  }
  [[gnu::always_inline]] static void store_scores(float* to, std::int64_t row) {
    order_memory();
    _tile_stored(4, to, 4 * row);
    _tile_stored(5, to + 16, 4 * row);
    order_memory();
  }
  void make_scores(const ScoreWork& work, float* to, std::int64_t row) const {
    for (std::int64_t step = 0; step < 2 * tiles_.key_steps; ++step) multiply_scores(work, step);
    store_scores(to, row);
  }

  /// One of the four multiply-adds of a group of keys and 64 columns of its values; the last two are for the second 32.
  [[gnu::always_inline]] static void multiply_values(ValueWork& work, int step) {
    order_memory();
    const Bits* const values = work.values + work.at * work.value_step;
    const bool has_second = work.pairs_left > 1;
    if (step == 0) {
      if (work.at == 0) start_sums(work);
      const std::int64_t block = (work.first_block + work.at) & (work.ring - 1);
      _tile_loadd(6, work.exponentials + block * work.block_step, work.row_bytes);
      _tile_loadd(7, values, 64);
      _tile_dpbf16ps(0, 6, 7);
    } else if (step == 1) {
      _tile_loadd(7, values + kTile, 64);
      _tile_dpbf16ps(1, 6, 7);
    } else if (step == 2 && has_second) {
      _tile_loadd(7, values + work.pair_values, 64);
      _tile_dpbf16ps(2, 6, 7);
    } else if (step == 3 && has_second) {
      _tile_loadd(7, values + work.pair_values + kTile, 64);
      _tile_dpbf16ps(3, 6, 7);
    }
    if (step < 3) return;
    --work.left;
    if (++work.at == work.groups) store_sums(work);
  }
  /// All four.
  [[gnu::always_inline]] static void weigh(ValueWork& work) {
    for (int step = 0; step < 4; ++step) multiply_values(work, step);
  }
  static void weigh_all(ValueWork& work) {
    while (work.left > 0) weigh(work);
  }
  [[gnu::always_inline]] static void start_sums(const ValueWork& work) {
    if (!work.resumes) {
      _tile_zero(0);
      _tile_zero(1);
      _tile_zero(2);
      _tile_zero(3);
      return;
    }
    _tile_loadd(0, work.sums, 64);
    _tile_loadd(1, work.sums + kSumsTile, 64);
    if (work.pairs_left == 1) return;
    _tile_loadd(2, work.sums + 2 * kSumsTile, 64);
    _tile_loadd(3, work.sums + 3 * kSumsTile, 64);
  }
  [[gnu::always_inline]] static void store_sums(ValueWork& work) {
    _tile_stored(0, work.sums, 64);
    _tile_stored(1, work.sums + kSumsTile, 64);
    if (work.pairs_left > 1) {
      _tile_stored(2, work.sums + 2 * kSumsTile, 64);
      _tile_stored(3, work.sums + 3 * kSumsTile, 64);
    }
    order_memory();
    work.at = 0;
    work.pairs_left -= 2;
    work.sums += 4 * kSumsTile;
    work.values += 2 * work.pair_values;
  }

  /// The tile work before a row of a softmax: multiply-adds of scores before the first half of the rows, of values
  /// before the second. kKeySteps and kValuePairs are the problem's, or 0 where they are not known here.
  template <int kKeySteps, int kValuePairs, int kRow>
  [[gnu::always_inline]] void work_before_row(const ScoreWork& scored, float* to, ValueWork& weighted) const {
    constexpr int kHalf = kBlockQueries / 2;
    if constexpr (kRow < kHalf) {
      if (scored.queries == nullptr) return;
      if constexpr (kKeySteps == 0) {
        const std::int64_t steps = 2 * tiles_.key_steps;
        for (std::int64_t i = kRow * steps / kHalf; i < (kRow + 1) * steps / kHalf; ++i) multiply_scores(scored, i);
      } else {
        constexpr int kFirst = divide_up(2 * kKeySteps * kRow, kHalf),
                      kEnd = divide_up(2 * kKeySteps * (kRow + 1), kHalf);
        for (int step = kFirst; step < kEnd; ++step) multiply_scores(scored, step);
      }
    } else {
      if constexpr (kRow == kHalf)
        if (scored.queries != nullptr) store_scores(to, kGroupKeys);
      if constexpr (kValuePairs == 0) {
        const std::int64_t groups = divide_up(tiles_.value_pairs, 2);
        constexpr int kAt = kRow - kHalf;
        for (std::int64_t i = kAt * groups / kHalf; i < (kAt + 1) * groups / kHalf && weighted.left > 0; ++i)
          weigh(weighted);
      } else {
        constexpr int kSteps = 4 * static_cast<int>(divide_up(kValuePairs, 2));
        constexpr int kAt = kRow - kHalf;
        constexpr int kFirst = divide_up(kSteps * kAt, kHalf), kEnd = divide_up(kSteps * (kAt + 1), kHalf);
        for (int step = kFirst; step < kEnd; ++step)
          if (weighted.left > 0) multiply_values(weighted, step % 4);
      }
    }
  }

  [[nodiscard]] RowOfScores row_of_scores(const AmxItem& item) const {
    const std::int64_t last_keys =
        std::min(kGroupKeys, tiles_.problem.keys - (item.first_group + item.groups - 1) * kGroupKeys);
    return {.exponential = {.scale = _mm512_set1_ps(scale_), .table = table_},
            .groups = item.groups,
            .last_keys = last_keys,
            .last = positions_of_first(last_keys)};
  }

  /// The sums of the exponentials that an item starts with.
  void start_row_sums(const AmxItem& item) const {
    constexpr std::size_t kCount = kBlockQueries * 16;
    float* const to = row_sums(item, item.key_block + 1);
    if (item.key_block == 0)
      std::fill_n(to, kCount, 0.0F);
    else
      std::copy_n(row_sums(item, item.key_block), kCount, to);
  }

  /// Exponentials of the scores of groups [begin, end) of an item, one group after the other. Tile work is
  /// interleaved between their rows: on `scored`, groups kAhead later, and on `weighted`.
  void softmax(const AmxItem& item, std::int64_t begin, std::int64_t end, const ScoreWork* scored,
               ValueWork& weighted) const {
    const std::int64_t edge = std::clamp(item.backward ? item.groups - item.whole : item.whole, begin, end);
    if (begin < edge) softmax(item, begin, edge, item.backward, scored, weighted);
    if (edge < end) softmax(item, edge, end, !item.backward, scored, weighted);
  }
  /// The same for groups that the diagonal all cuts, or none.
  void softmax(const AmxItem& item, std::int64_t begin, std::int64_t end, bool is_cut, const ScoreWork* scored,
               ValueWork& weighted) const {
    constexpr auto kRows = std::make_integer_sequence<int, kBlockQueries>();
    if (is_cut) return softmax<0, 0, true>(item, begin, end, scored, weighted, kRows);
    if (tiles_.key_steps == 2 && tiles_.value_pairs == 2)
      return softmax<2, 2, false>(item, begin, end, scored, weighted, kRows);
    if (tiles_.key_steps == 4 && tiles_.value_pairs == 4)
      return softmax<4, 4, false>(item, begin, end, scored, weighted, kRows);
    softmax<0, 0, false>(item, begin, end, scored, weighted, kRows);
  }
  template <int kKeySteps, int kValuePairs, bool kIsCut, int... kRow>
  void softmax(const AmxItem& item, std::int64_t begin, std::int64_t end, const ScoreWork* scored,
               ValueWork& weighted_left, std::integer_sequence<int, kRow...> /*rows*/) const {
    const RowOfScores row = row_of_scores(item);
    const float* const offsets = of_rows(tiles_.offsets, item);
    float* const row_sums_now = row_sums(item, item.key_block + 1);
    __m512 sums[] = {_mm512_load_ps(row_sums_now + 16 * kRow)...};  // in registers, all 16
    ValueWork weighted = weighted_left;
    for (std::int64_t at = begin; at < end; ++at) {
      const std::int64_t group = item.group(at);
      const __mmask32 whole = group + 1 < item.groups ? 0xFFFFFFFFU : row.last;
      const std::int64_t first_key = (item.first_group + group) * kGroupKeys;
      const auto valid = [&](std::int64_t query) {
        if constexpr (!kIsCut) return whole;
        const std::int64_t seen = tiles_.seen_keys(item.first_query + query) - first_key;
        return __mmask32{kFirstPositions[static_cast<std::size_t>(std::clamp<std::int64_t>(seen, 0, kGroupKeys))]};
      };
      const float* const from = scores(block_ + at);
      float* const ahead = scores(block_ + at + kAhead);
      Bits* const to = exponentials(block_ + at);
      const ScoreWork work = scored[at];
      ((work_before_row<kKeySteps, kValuePairs, kRow>(work, ahead, weighted),
        sums[kRow] = exponentiate(row.exponential, _mm512_load_ps(from + kRow * kGroupKeys),
                                  _mm512_load_ps(from + kRow * kGroupKeys + 16), _mm512_set1_ps(offsets[kRow]),
                                  valid(kRow), sums[kRow], to + kRow * kGroupKeys)),
       ...);
    }
    weighted_left = weighted;
    (_mm512_store_ps(row_sums_now + 16 * kRow, sums[kRow]), ...);
  }

  /// Whether an item's largest query and key exclude scores that are NaN or too large for exponentiate().
  [[nodiscard]] bool is_moderate(const AmxItem& item) const {
    const Bits* const keys = reinterpret_cast<const Bits*>(packed(item) + tiles_.largest_keys) + item.first_group;
    const float key = from_bits(*std::max_element(keys, keys + item.groups));
    const float query = from_bits(reinterpret_cast<const Bits*>(scratch_ + tiles_.largest_queries)[item.slot]);
    return key * query * scale_ * static_cast<float>(tiles_.problem.key_dim) < 0x1p30F;
  }
  static float from_bits(Bits bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  /// Whether offsets alone suited the scores of an item.
  [[nodiscard]] bool is_in_range(const AmxItem& item) const {
    const __m512 references = _mm512_loadu_ps(of_rows(tiles_.references, item));
    if (_mm512_cmp_ps_mask(references, _mm512_setzero_ps(), _CMP_NEQ_UQ) != 0) return false;
    SumRange range;
    for (std::int64_t row = 0; row < kBlockQueries; ++row)
      range.add(_mm512_load_ps(row_sums(item, item.key_block + 1) + 16 * row));
    return range.within(kLowest, kHighest) && is_moderate(item);
  }

  /// Does all of an item again, each row under terms that suit its largest score. Those that have been in use are left
  /// only for an overflow: sums under them are in range already.
  void repeat(const AmxItem& item) {
    const RowOfScores whole_row = row_of_scores(item);
    auto* const item_scores = reinterpret_cast<float*>(scratch_ + tiles_.item_scores);
    auto* const item_exponentials = reinterpret_cast<Bits*>(scratch_ + tiles_.item_exponentials);
    ScoreWork work = score_work(item);
    for (std::int64_t group = 0; group < item.groups; ++group, work.keys += group_keys())
      make_scores(work, item_scores + group * kGroupKeys, tiles_.row());
    for (std::int64_t i = 0; i < item.queries; ++i) {
      const float* const from = item_scores + i * tiles_.row();
      Bits* const to = item_exponentials + i * tiles_.row();
      const RowOfScores row = seen_part_of(whole_row, item, i);
      std::fill(to + row.groups * kGroupKeys, to + item.groups * kGroupKeys, Bits{0});
      float& reference = of_rows(tiles_.references, item)[i];
      float& offset = of_rows(tiles_.offsets, item)[i];
      float* const sum = row_sums(item, item.key_block + 1) + 16 * i;
      __m512 before = _mm512_setzero_ps();
      if (row.groups == 0) {  // it sees none of the item's keys
        _mm512_store_ps(sum, item.key_block == 0 ? before : _mm512_load_ps(row_sums(item, item.key_block) + 16 * i));
        continue;
      }
      RowTerms terms = terms_for(scale_, largest_score(row, from));
      if (item.key_block != 0) {
        before = _mm512_load_ps(row_sums(item, item.key_block) + 16 * i);
        const RowTerms used{.reference = reference, .offset = offset};
        if (const float rises = rise(scale_, used, terms); rises >= -256 * kShift) {
          terms = used;
        } else {
          const float factor = std::exp2(rises / 256);
          before = _mm512_mul_ps(before, _mm512_set1_ps(factor));
          rescale_sums(item, i, factor);
        }
      }
      reference = terms.reference;
      offset = terms.offset;
      _mm512_store_ps(sum, exponentiate_row(row, from, terms, before, to));
    }
    ValueWork values = value_work(item);
    values.exponentials = item_exponentials;
    values.first_block = 0;
    values.ring = std::int64_t{1} << 62;
    values.block_step = kGroupKeys;
    values.row_bytes = 2 * tiles_.row();
    values.values = reinterpret_cast<const Bits*>(packed(item) + tiles_.values) + item.first_group * 2 * kTile;
    values.value_step = 2 * kTile;
    weigh_all(values);
  }

  /// The part of an item's row, its first keys, that a query of the item sees.
  [[nodiscard]] RowOfScores seen_part_of(RowOfScores row, const AmxItem& item, std::int64_t query) const {
    const std::int64_t seen = tiles_.seen_keys(item.first_query + query) - item.first_group * kGroupKeys;
    if (seen >= (row.groups - 1) * kGroupKeys + row.last_keys) return row;
    row.groups = divide_up(std::max<std::int64_t>(0, seen), kGroupKeys);
    row.last_keys = seen - (row.groups - 1) * kGroupKeys;
    row.last = positions_of_first(row.last_keys);
    return row;
  }

  /// Multiplies a row's sums over earlier keys by the factor of a new maximum.
  void rescale_sums(const AmxItem& item, std::int64_t row, float factor) const {
    float* at = sums(item) + 16 * row;
    for (std::int64_t tile = 0; tile < 2 * tiles_.value_pairs; ++tile, at += kSumsTile)
      _mm512_store_ps(at, _mm512_mul_ps(_mm512_load_ps(at), _mm512_set1_ps(factor)));
  }

  /// Writes the results of an item whose values are summed up, if it is the last of its queries.
  void finish(const AmxItem& item) {
    if (!item.last) return;
    const AttentionProblem& problem = tiles_.problem;
    Bits* to = addresses_.out + problem.head_offset(problem.out, item.head) + item.first_query * problem.out.token;
    const __m512 reference = _mm512_loadu_ps(of_rows(tiles_.references, item));  // NaN where a score is
    const __mmask16 nan = _mm512_cmp_ps_mask(reference, reference, _CMP_UNORD_Q);
    const __m512 sum = sum_each_row(row_sums(item, item.key_block + 1));
    const __mmask16 sees_any =
        problem.may_see_none() ? _mm512_cmp_ps_mask(sum, _mm512_setzero_ps(), _CMP_NEQ_UQ) : 0xFFFF;
    alignas(64) float inverse[kBlockQueries];
    _mm512_store_ps(inverse, _mm512_mask_mov_ps(_mm512_maskz_div_ps(sees_any, _mm512_set1_ps(1), sum), nan, reference));
    for (std::int64_t at = 0; at < problem.value_dim; at += 32) {
      const float* row = sums(item) + at / 32 * 2 * kSumsTile;
      for (std::int64_t i = 0; i < item.queries; ++i, row += 16)
        store_row(row, row + kSumsTile, inverse[i], problem.value_dim - at, to + at + i * problem.out.token);
    }
  }

  const AmxTiles& tiles_;
  Addresses addresses_;
  std::byte* scratch_;
  std::array<ScoreWork, kMostGroups> work_;  // of the item in softmax: groups kAhead later
  std::int64_t head_ = -1;                   // packed last
  std::int64_t block_ = 0;                   // of the item in softmax: its first
  float scale_;                              // 256 log2(e) |scale|
  __m512i table_;                            // exponential_table()
};

void attend(const AmxTiles& tiles, std::int64_t begin, std::int64_t end, const Addresses& addresses,
            std::byte* scratch) {
  const TileShape shape;
  Attention(tiles, addresses, scratch).run(AmxItems(tiles, begin, end));
}

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

#endif

namespace headroom {
namespace {

KernelPlan plan_attention_amx([[maybe_unused]] const KernelBinding& binding) {
#if defined(__x86_64__)
  const AmxTiles tiles =
      cut_into_tiles(attention_problem(binding.spec, binding.inputs, binding.outputs), binding.threads);
  const auto launch = [=, threads = binding.threads](const LaunchArguments& arguments) {
    const AttentionProblem& problem = tiles.problem;
    auto* const scratch = arguments.scratch_memory<std::byte>();
    const amx::Addresses at{.q = arguments.input<amx::Bits>(0),
                            .k = arguments.input<amx::Bits>(1),
                            .v = arguments.input<amx::Bits>(2),
                            .out = arguments.output<amx::Bits>(0),
                            .shared = scratch};
    if (tiles.shared) {
      const std::int64_t grain = grain_of(kGroupKeys * (problem.key_dim + problem.value_dim));
      parallel_for(threads, tiles.heads() * tiles.groups, grain, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i)
          amx::pack_group(tiles, i / tiles.groups, i % tiles.groups, at.k, at.v,
                          scratch + i / tiles.groups * tiles.head_bytes);
      });
    }
    const std::int64_t grain = grain_of(tiles.task_blocks * kBlockQueries * problem.keys);
    parallel_for(threads, tiles.heads() * tiles.tasks, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      amx::attend(tiles, begin, end, at, scratch + tiles.shared_bytes() + thread * tiles.thread_bytes);
    });
  };
  return {.launch = launch,
          .scratch_bytes = static_cast<std::size_t>(tiles.shared_bytes() + binding.threads * tiles.thread_bytes),
          .implementation = "intrinsics:amx_bf16"};
#else
  HR_CHECK(false);  // supports() declines everywhere else
#endif
}

Support supports_attention_amx(const OpSpec& spec, const Target& target) {
  if (Support rejection = check_amx(DType::kBF16, spec, target)) return rejection;
  if (spec.has(Role::kBias)) return Rejection{"takes no bias and no mask"};
  if (spec.outputs.size() == 2) return Rejection{"gives no logsumexp"};
  return supports_attention(spec, 256);
}

}  // namespace

const Kernel& amx_attention() {
  static const LibraryKernel kernel({.name = "amx.attention",
                                     .op = Op::kAttention,
                                     .supports = supports_attention_amx,
                                     .strided = kAllStrided,
                                     .plan = plan_attention_amx});
  return kernel;
}

}  // namespace headroom
