// attention in bf16 on AMX tiles: y[i, :] = sum_j p[i, j] v[j, :] / sum_j p[i, j],  p[i, j] = exp(scale q[i] k[j] - m)
//
// Shapes   as in attention_cpu.cpp. bf16 in memory; products of bf16 with f32 sums; p by a table, rounded to bf16, then
//          summed and multiplied by the values (attention_amx_softmax_inl.hpp).
// Scratch  keys and values once more, in the tiles' form: those of three heads for each thread, which packs a head when
//          it comes to it and finds it in its cache; of all heads together where there are fewer heads than threads.
//
// Softmax has the same result under any m that keeps p and its sums within range, so the largest score of a row is not
// looked for: m = 22 serves all rows whose largest score is within 44 of 0, as nearly all are. An item whose sums say
// otherwise, or whose keys and queries are huge or not finite, is done again under its rows' largest scores. Sums over
// values of up to 1e26 in magnitude, not 3e38, then stay within f32.
//
// Work is cut into items, 32 queries by a block of keys, and while item i has its softmax, row by row, the tiles work
// between its rows on the second product of item i - 1 and on the first of item i + 1. The core finds both in its
// window and fills both units. In cycles for 16 scores, with a head_dim of 64:
//
//   tile products                                 4.0  16 for 16 x 16 x 32
//   softmax, table and fixed m, as here           3.3  13 operations for 32 scores, two a cycle
//   softmax, cubic and largest score              10   31 operations for 32 scores, and what brings a row together
//   writing scores and p where they are not in    7    4.5 for a line; 1 where it is
//   the first-level cache
//
// Measured with the last but one of these on two cores with AMX whose linear reaches 1980 GFLOP/s: 850 at
// [20, 3, 272, 64], 1190 at [1, 2, 4096, 64], 1620 at [1, 2, 4096, 128]; attention_cpu.cpp there has 280, 240, 300. As
// here, with tiles' loads and stores but not their products, a core takes 17, 13 and 19 cycles for 16 scores, from 24,
// 16 and 24. Tried: the tile work of an item before its softmax instead of between its rows, 550, 970, 1070; 4 blocks
// of queries a task, 840, 1160, 1080 (but better on 16 threads: 3510, 4420, 5530 against 2900, 4400, 3500); scores of
// 2, 3 or 5 groups of keys at a time, to keep them near the core, 2 to 10% slower for what each round costs.

#include "kernels/attention.hpp"
#include "kernels/attention_amx_tiles.hpp"
#include "kernels/attention_problem.hpp"
#include "kernels/parallel.hpp"

#if defined(__x86_64__)
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // GCC 12 takes its own _mm512_undefined_ps() for a mistake
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <immintrin.h>

#include <atomic>
#include <bit>
#include <cmath>
#include <memory>

#include "kernels/attention_amx_pack_inl.hpp"
#include "kernels/attention_amx_softmax_inl.hpp"

HWY_PUSH_ATTRIBUTES("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx512vbmi,amx-tile,amx-bf16,fma")
namespace headroom::amx {
namespace {

/// Exponentials are 2^(x - kShift) until a row's sums leave [kLowest, kHighest].
constexpr float kShift = 32;
constexpr float kLowest = 0x1p-96F, kHighest = 0x1p32F;

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
    AmxItem next = items.get();
    enter(next);
    start(nullptr, &next);
    while (steps_ > 0) step();
    AmxItem previous{};
    bool has_previous = false;
    while (true) {
      AmxItem item = next;
      items.next();
      const bool has_next = !items.done();
      if (has_next) {
        next = items.get();
        enter(next);
      }
      if (has_previous) rescale_sums(previous);
      start(has_previous ? &previous : nullptr, has_next ? &next : nullptr);
      softmax(item);
      if (has_previous && previous.last) store(previous);
      previous = item;
      has_previous = true;
      if (!has_next) break;
    }
    rescale_sums(previous);
    start(&previous, nullptr);
    while (steps_ > 0) step();
    store(previous);
  }

 private:
  /// Where a packed head lies.
  [[nodiscard]] std::byte* packed(const AmxItem& item) const {
    return tiles_.shared ? addresses_.shared + item.head * tiles_.head_bytes
                         : scratch_ + tiles_.packed + item.head % kInFlight * tiles_.head_bytes;
  }
  [[nodiscard]] Bits* queries(const AmxItem& item) const {
    return reinterpret_cast<Bits*>(scratch_ + tiles_.queries) + item.slot * 2 * tiles_.key_steps * kTile;
  }
  [[nodiscard]] float* scores(const AmxItem& item) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.scores) + item.buffer * kBlockQueries * tiles_.row();
  }
  [[nodiscard]] Bits* exponentials(const AmxItem& item) const {
    return reinterpret_cast<Bits*>(scratch_ + tiles_.exponentials) + item.buffer * kBlockQueries * tiles_.row();
  }
  /// [value_pairs][2 halves of the queries][2 halves of the columns] tiles.
  [[nodiscard]] float* sums(const AmxItem& item) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.sums) + item.slot * 4 * tiles_.value_pairs * kSumsTile;
  }
  /// Sums of the exponentials of each row, in 16 parts, as they are after a number of blocks of keys, 1 or more.
  [[nodiscard]] float* row_sums(const AmxItem& item, std::int64_t key_blocks) const {
    return reinterpret_cast<float*>(scratch_ + tiles_.row_sums) + (item.slot * 2 + key_blocks % 2) * kBlockQueries * 16;
  }
  /// Those of one row before an item.
  [[nodiscard]] const float* row_sums_before(const AmxItem& item, std::int64_t row) const {
    alignas(64) static constexpr float kZeros[16] = {};
    return item.key_block == 0 ? kZeros : row_sums(item, item.key_block) + 16 * row;
  }
  [[nodiscard]] float* of_rows(std::int64_t at, const AmxItem& item) const {
    return reinterpret_cast<float*>(scratch_ + at) + item.slot * kBlockQueries;
  }

  /// Packs what an item is the first to need.
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
    return item.queries % 16 == 0 && tiles_.problem.key_dim % 32 == 0 && tiles_.problem.scale >= 0;
  }
  [[nodiscard]] const Bits* query_rows(const AmxItem& item) const {
    const AttentionProblem& problem = tiles_.problem;
    return addresses_.q + problem.head_offset(problem.q, item.head) + item.first_query * problem.q.token;
  }

  /// The queries of an item as [key_steps][2] tiles, their sign turned where the scale is negative, unless they are
  /// tiles already; the largest of them in either case.
  void load_queries(const AmxItem& item) {
    const AttentionProblem& problem = tiles_.problem;
    const Bits* from = query_rows(item);
    const bool copy = !are_tiles(item);
    const __m512i sign = _mm512_set1_epi16(problem.scale < 0 ? static_cast<short>(0x8000) : short{0});
    Bits* tile = queries(item);
    __m512i rows[16];
    __m512i largest = _mm512_setzero_si512();
    for (std::int64_t step = 0; step < tiles_.key_steps; ++step) {
      for (std::int64_t m = 0; m < 2; ++m, tile += kTile) {
        load_rows(from + m * 16 * problem.q.token + step * 32, problem.q.token, item.queries - m * 16,
                  problem.key_dim - step * 32, rows);
        largest = larger_of(largest, rows);
        if (!copy) continue;
        for (int i = 0; i < 16; ++i) _mm512_store_si512(tile + i * 32, _mm512_xor_si512(rows[i], sign));
      }
    }
    reinterpret_cast<Bits*>(scratch_ + tiles_.largest_queries)[item.slot] = largest_of(largest);
    std::fill_n(of_rows(tiles_.offsets, item), kBlockQueries, kOffset - 256 * kShift);
  }

  /// Prepares the tile work: sums += p v of one item, then scores = q k^T of another. Where an item has 16 queries or
  /// fewer, the second half of its rows is left out.
  void start(const AmxItem* weighted, const AmxItem* scored) {
    steps_ = 0;
    value_left_ = 0;
    if (weighted != nullptr) {
      value_left_ = tiles_.value_pairs;
      value_groups_ = weighted->groups;
      values_have_two_ = weighted->queries > 16;
      resume_ = weighted->key_block != 0;
      exponentials_ = exponentials(*weighted);
      values_ = reinterpret_cast<const Bits*>(packed(*weighted) + tiles_.values) + weighted->first_group * 2 * kTile;
      sums_ = sums(*weighted);
      steps_ += value_left_ * value_groups_;
    }
    if (scored != nullptr) {
      scores_have_two_ = scored->queries > 16;
      const bool in_place = are_tiles(*scored);
      const std::int64_t stride = in_place ? tiles_.problem.q.token : 32;
      queries_ = in_place ? query_rows(*scored) : queries(*scored);
      query_half_ = 16 * stride;
      query_step_ = in_place ? 32 : 2 * kTile;
      query_row_bytes_ = 2 * stride;
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
    if (at_ == 0 && resume_) {
      _tile_loadd(0, sums_, 64);
      _tile_loadd(1, sums_ + kSumsTile, 64);
      _tile_loadd(2, sums_ + 2 * kSumsTile, 64);
      _tile_loadd(3, sums_ + 3 * kSumsTile, 64);
    } else if (at_ == 0) {
      zero_tiles();
    }
    const Bits* const p = exponentials_ + at_ * kGroupKeys;
    multiply(p, values_have_two_ ? p + 16 * tiles_.row() : nullptr, 2 * tiles_.row(), values_ + at_ * 2 * kTile);
    if (++at_ < value_groups_) return;
    _tile_stored(0, sums_, 64);
    _tile_stored(1, sums_ + kSumsTile, 64);
    if (values_have_two_) {
      _tile_stored(2, sums_ + 2 * kSumsTile, 64);
      _tile_stored(3, sums_ + 3 * kSumsTile, 64);
    }
    at_ = 0;
    --value_left_;
    sums_ += 4 * kSumsTile;
    values_ += tiles_.groups * 2 * kTile;
  }

  void step_scores() {
    if (at_ == 0) zero_tiles();
    const Bits* const q = queries_ + at_ * query_step_;
    multiply(q, scores_have_two_ ? q + query_half_ : nullptr, query_row_bytes_, keys_);
    keys_ += 2 * kTile;
    if (++at_ < tiles_.key_steps) return;
    const std::int64_t row = tiles_.row();
    _tile_stored(0, scores_, 4 * row);
    _tile_stored(1, scores_ + 16, 4 * row);
    if (scores_have_two_) {
      _tile_stored(2, scores_ + 16 * row, 4 * row);
      _tile_stored(3, scores_ + 16 * row + 16, 4 * row);
    }
    at_ = 0;
    scores_ += kGroupKeys;
  }

  static void zero_tiles() {
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
  }

  /// Rows of `upper` and `lower`, the first and the last 16 of 32, lie `row_bytes` apart; `lower` may be missing.
  static void multiply(const Bits* upper, const Bits* lower, std::int64_t row_bytes, const Bits* b) {
    _tile_loadd(4, upper, row_bytes);
    _tile_loadd(6, b, 64);
    _tile_loadd(7, b + kTile, 64);
    if (lower != nullptr) _tile_loadd(5, lower, row_bytes);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if (lower == nullptr) return;
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }

  /// Whether no score of an item can be NaN or above what exponentiate_rows() takes, by its largest query and key.
  [[nodiscard]] bool is_moderate(const AmxItem& item) const {
    const Bits* const keys = reinterpret_cast<const Bits*>(packed(item) + tiles_.largest_keys) + item.first_group;
    const float key = from_bits(*std::max_element(keys, keys + item.groups));
    const float query = from_bits(reinterpret_cast<const Bits*>(scratch_ + tiles_.largest_queries)[item.slot]);
    return key * query * scale_ * static_cast<float>(tiles_.problem.key_dim) < 0x1p30F;
  }
  static float from_bits(Bits bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

  /// Exponentials of an item's scores, and the tile work between its rows.
  void softmax(AmxItem& item) {
    const std::int64_t last_keys =
        std::min(kGroupKeys, tiles_.problem.keys - (item.first_group + item.groups - 1) * kGroupKeys);
    const RowsOfScores rows{.groups = item.groups,
                            .last_keys = last_keys,
                            .last = positions_of_first(last_keys),
                            .stride = tiles_.row(),
                            .scale = scale_,
                            .table = table_};
    const float* const offsets = of_rows(tiles_.offsets, item);
    float* const after = row_sums(item, item.key_block + 1);
    SumRange range;
    const std::int64_t steps = steps_;
    std::int64_t due = 0;  // tile work, in parts of which a step has as many as there are rows
    for (std::int64_t row = 0; row < item.queries; ++row) {
      exponentiate_rows(rows, 1, scores(item) + row * rows.stride, offsets + row, row_sums_before(item, row),
                        after + 16 * row, exponentials(item) + row * rows.stride, range);
      for (due += steps; due >= item.queries; due -= item.queries) step();
    }
    if (!is_moderate(item) || !range.within(kLowest, kHighest)) {
      for (std::int64_t row = 0; row < item.queries; ++row) repeat_row(rows, item, row);
    }
  }

  /// Exponentials of a row under an offset that suits its largest score. One that has been in use is left only for an
  /// overflow: sums under it are in range already.
  void repeat_row(const RowsOfScores& rows, AmxItem& item, std::int64_t row) {
    const float* const from = scores(item) + row * rows.stride;
    float& offset = of_rows(tiles_.offsets, item)[row];
    const float largest = kOffset - rows.scale * largest_score(rows, from);  // under which the largest becomes 1
    const bool first = item.key_block == 0;
    float& factor = of_rows(tiles_.factors, item)[row];
    factor = 1;
    if (first || !(offset - largest <= 256 * kShift)) {
      factor = first ? 0 : std::exp2((largest - offset) / 256);
      offset = largest;
    }
    item.rescaled = !first;
    alignas(64) float before[16];
    _mm512_store_ps(before, _mm512_mul_ps(_mm512_load_ps(row_sums_before(item, row)), _mm512_set1_ps(factor)));
    SumRange range;
    exponentiate_rows(rows, 1, from, &offset, before, row_sums(item, item.key_block + 1) + 16 * row,
                      exponentials(item) + row * rows.stride, range);
  }

  /// Brings what was summed before this item's keys under its offsets.
  void rescale_sums(const AmxItem& item) {
    if (!item.rescaled) return;
    for (std::int64_t tile = 0; tile < 4 * tiles_.value_pairs; ++tile) {
      const std::int64_t first = tile / 2 % 2 * 16;
      float* rows = sums(item) + tile * kSumsTile;
      for (std::int64_t i = 0; i < std::min<std::int64_t>(16, item.queries - first); ++i, rows += 16) {
        const __m512 factor = _mm512_set1_ps(of_rows(tiles_.factors, item)[first + i]);
        _mm512_store_ps(rows, _mm512_mul_ps(_mm512_load_ps(rows), factor));
      }
    }
  }

  void store(const AmxItem& item) {
    const AttentionProblem& problem = tiles_.problem;
    Bits* to = addresses_.out + problem.head_offset(problem.out, item.head) + item.first_query * problem.out.token;
    const float* const offsets = of_rows(tiles_.offsets, item);
    alignas(64) float inverse[kBlockQueries];
    for (std::int64_t m = 0; m < 2; ++m) {
      const __m512 offset = _mm512_loadu_ps(offsets + 16 * m);
      const __m512 one = _mm512_set1_ps(1);
      const __m512 sum = sum_each_row(row_sums(item, tiles_.key_blocks) + 256 * m);
      const __mmask16 nan = _mm512_cmp_ps_mask(offset, offset, _CMP_UNORD_Q);
      _mm512_store_ps(inverse + 16 * m, _mm512_mask_mov_ps(_mm512_div_ps(one, sum), nan, offset));
    }
    for (std::int64_t at = 0; at < problem.value_dim; at += 32) {
      const float* tiles = sums(item) + at / 32 * 4 * kSumsTile;
      for (std::int64_t i = 0; i < item.queries; ++i) {
        const float* row = tiles + i / 16 * 2 * kSumsTile + i % 16 * 16;
        store_row(row, row + kSumsTile, inverse[i], problem.value_dim - at, to + at + i * problem.out.token);
      }
    }
  }

  const AmxTiles& tiles_;
  Addresses addresses_;
  std::byte* scratch_;
  std::int64_t head_ = -1;  // packed last
  float scale_;             // 256 log2(e) |scale|
  __m512i table_;           // exponential_table()

  std::int64_t steps_ = 0;  // left of the tile work
  std::int64_t at_ = 0;     // depths done of the sums in the tiles
  std::int64_t value_left_ = 0, value_groups_ = 0;
  bool values_have_two_ = false, scores_have_two_ = false;  // halves of the rows
  bool resume_ = false;
  const Bits* exponentials_ = nullptr;
  const Bits* values_ = nullptr;
  float* sums_ = nullptr;
  const Bits* queries_ = nullptr;
  std::int64_t query_half_ = 0, query_step_ = 0, query_row_bytes_ = 0;
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
  Attention(tiles, addresses, scratch).run(AmxItems(tiles, begin, end));
}

}  // namespace
}  // namespace headroom::amx
HWY_POP_ATTRIBUTES

#endif

namespace headroom {
namespace {

class PreparedAttention final : public PreparedKernel {
 public:
  PreparedAttention(const AttentionProblem& problem, int threads)
      : tiles_(cut_into_tiles(problem, threads)), threads_(threads) {}

  [[nodiscard]] std::size_t scratch_bytes() const override {
    return static_cast<std::size_t>(tiles_.shared_bytes() + threads_ * tiles_.thread_bytes);
  }
  [[nodiscard]] std::string implementation() const override { return "intrinsics:amx_bf16"; }
  void launch(const LaunchArguments& arguments) const override {
#if defined(__x86_64__)
    auto* const scratch = static_cast<std::byte*>(arguments.scratch);
    const amx::Addresses at{.q = static_cast<const amx::Bits*>(arguments.inputs[0]),
                            .k = static_cast<const amx::Bits*>(arguments.inputs[1]),
                            .v = static_cast<const amx::Bits*>(arguments.inputs[2]),
                            .out = static_cast<amx::Bits*>(arguments.outputs[0]),
                            .shared = scratch};
    const AttentionProblem& problem = tiles_.problem;
    if (tiles_.shared) {
      const std::int64_t grain = grain_of(kGroupKeys * (problem.key_dim + problem.value_dim));
      parallel_for(threads_, tiles_.heads() * tiles_.groups, grain, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin; i < end; ++i)
          amx::pack_group(tiles_, i / tiles_.groups, i % tiles_.groups, at.k, at.v,
                          scratch + i / tiles_.groups * tiles_.head_bytes);
      });
    }
    const std::int64_t grain = grain_of(tiles_.task_blocks * kBlockQueries * problem.keys);
    parallel_for(threads_, tiles_.heads() * tiles_.tasks, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      amx::attend(tiles_, begin, end, at, scratch + tiles_.shared_bytes() + thread * tiles_.thread_bytes);
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
