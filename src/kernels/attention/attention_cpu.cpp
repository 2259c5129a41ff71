// attention: y[i, :] = sum_j p[i, j] v[j, :] / sum_j p[i, j],  p[i, j] = exp(scale q[i, :] . k[j, :] + bias[i, j] -
// m[i])
//
// Shapes   q[b, h, s, d], k[b, g, t, d], v[b, g, t, e], bias[b or 1, h or 1, s or 1, t]? -> y[b, h, s, e],
//          logsumexp[b, h, s]?, rows with innermost stride 1; d, e up to 1024.
// Dtypes   f32 or bf16 in memory, the bias in that of q, or a mask of bool; f32 arithmetic.
// Bytes    each operand once from memory; FLOPs 2 b h s t (d + e), on the same units as the b h s t exponentials. In a
//          causal order, tiles of keys that no query of a block sees are left out.
//
// A thread takes a group of queries of one head and goes over the keys tile by tile (FlashAttention-2, Dao 2023).
// For each tile and block of queries: scores[key, query] = k q^T, exponentials in place, y = factor y + p v. Both
// matmuls are one register-blocked loop over vectors of B and single elements of A. Scores have a query in each
// lane, so that maxima and sums need no work across lanes, and keys are read as they are stored. Powers are of two:
// log2(e) is in q's scale. A key that is not seen has a score of -inf.

#include <cmath>
#include <limits>

#include "base/tensors/divide_up.hpp"
#include "kernels/attention/attention_problem.hpp"
#include "kernels/core/cpu_kernel.hpp"
#include "kernels/core/parallel.hpp"
#include "kernels/core/simd_targets.hpp"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention/attention_cpu.cpp"
#include "hwy/foreach_target.h"
#include "kernels/core/simd_inl.hpp"
#include "kernels/matmul/block_gemm_inl.hpp"

#ifndef HEADROOM_KERNELS_ATTENTION_TILES
#define HEADROOM_KERNELS_ATTENTION_TILES
namespace headroom {
namespace {

constexpr std::int64_t kMaxLanes = 16;
constexpr std::int64_t kBlockQueries = 3 * kMaxLanes;  // at most: kBlockVectors, the columns of a block of scores

/// The problem, cut up, and where each part lies in a thread's scratch, in floats.
struct AttentionTiles {
  AttentionProblem problem;
  std::int64_t group = 0;      ///< queries a thread takes at a time
  std::int64_t groups = 0;     ///< in a head
  std::int64_t key_tile = 0;   ///< keys at a time
  std::int64_t value_row = 0;  ///< value_dim in whole vectors
  std::int64_t q = 0, k = 0, v = 0, scores = 0, sums = 0, row_max = 0, row_sum = 0, factor = 0;
  std::int64_t bias = 0;  ///< of a vector of queries: as stored in memory, and after it by key
  std::int64_t floats = 0;
};

/// The addresses of a group of queries of one head.
template <class T>
struct AttentionGroup {
  std::int64_t first_query, queries;
  const T* q;
  const T* k;
  const T* v;
  const void* bias;
  T* out;
  float* logsumexp;
};

constexpr float kLog2OfE = 1.44269504F;
constexpr float kUnseen = -std::numeric_limits<float>::infinity();

}  // namespace
}  // namespace headroom
#endif

HWY_BEFORE_NAMESPACE();
namespace headroom {
namespace HWY_NAMESPACE {
namespace {

/// 2^x for x <= 0 within about 1 ulp; 0 below -126.5, NaN for NaN. x = n + r with |r| <= 1/2, 2^r minimax of degree 5
/// (relative error 7.5e-8). Adding 1.5 2^23 + 127 rounds to an integer and leaves the exponent of 2^n in the lowest
/// bits; at -127 that is 0, and so is the result.
HWY_INLINE Vector power_of_two(Vector x) {
  const Float d;
  const hn::RebindToUnsigned<Float> d32;
  const Vector shift = hn::Set(d, 12583039.0F);
  x = hn::IfThenElse(hn::Lt(x, hn::Set(d, -127.0F)), hn::Set(d, -127.0F), x);
  const Vector shifted = hn::Add(x, shift);
  const Vector r = hn::Sub(x, hn::Sub(shifted, shift));
  Vector y = hn::Set(d, 0.0013276472F);
  y = hn::MulAdd(y, r, hn::Set(d, 0.00967554133F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.0555071327F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.240221197F));
  y = hn::MulAdd(y, r, hn::Set(d, 0.693146967F));
  y = hn::MulAdd(y, r, hn::Set(d, 1.00000007F));
  return hn::Mul(y, hn::BitCast(d, hn::ShiftLeft<23>(hn::BitCast(d32, shifted))));
}

/// Turns scores[key, query] of one vector of queries into exponentials under the new maximum, and writes the factor
/// that rescales earlier sums to it. A NaN among the scores makes its column NaN.
HWY_INLINE void softmax_columns(std::int64_t keys, float* HWY_RESTRICT scores, std::int64_t row, float* row_max,
                                float* row_sum, float* factor) {
  const Float d;
  const Vector old_max = hn::LoadU(d, row_max);
  Vector max0 = old_max;
  Vector max1 = old_max;
  std::int64_t j = 0;
  for (; j + 2 <= keys; j += 2) {
    max0 = hn::Max(hn::LoadU(d, scores + j * row), max0);
    max1 = hn::Max(hn::LoadU(d, scores + (j + 1) * row), max1);
  }
  if (j < keys) max0 = hn::Max(hn::LoadU(d, scores + j * row), max0);
  const Vector new_max = hn::Max(max0, max1);
  // If no key has been seen yet, all exponentials are of -inf anyway.
  const Vector reference = hn::IfThenElse(hn::Eq(new_max, hn::Set(d, kUnseen)), hn::Zero(d), new_max);
  Vector sum0 = hn::Zero(d);
  Vector sum1 = hn::Zero(d);
  for (j = 0; j + 2 <= keys; j += 2) {
    const Vector p0 = power_of_two(hn::Sub(hn::LoadU(d, scores + j * row), reference));
    const Vector p1 = power_of_two(hn::Sub(hn::LoadU(d, scores + (j + 1) * row), reference));
    hn::StoreU(p0, d, scores + j * row);
    hn::StoreU(p1, d, scores + (j + 1) * row);
    sum0 = hn::Add(sum0, p0);
    sum1 = hn::Add(sum1, p1);
  }
  if (j < keys) {
    const Vector p = power_of_two(hn::Sub(hn::LoadU(d, scores + j * row), reference));
    hn::StoreU(p, d, scores + j * row);
    sum0 = hn::Add(sum0, p);
  }
  const Vector shrink = power_of_two(hn::Sub(old_max, reference));
  hn::StoreU(hn::MulAdd(hn::LoadU(d, row_sum), shrink, hn::Add(sum0, sum1)), d, row_sum);
  hn::StoreU(new_max, d, row_max);
  hn::StoreU(shrink, d, factor);
}

/// Rows of `length` elements times `scale` as f32, filled up with zeros to `to_row`.
template <class T>
HWY_INLINE void copy_rows(std::int64_t rows, std::int64_t length, const T* from, std::int64_t from_row, float scale,
                          float* to, std::int64_t to_row) {
  const Float d;
  const Vector factor = hn::Set(d, scale);
  for (std::int64_t i = 0; i < rows; ++i) {
    const T* x = from + i * from_row;
    float* y = to + i * to_row;
    std::int64_t at = 0;
    for (; at + lanes() <= length; at += lanes()) hn::StoreU(hn::Mul(load_all(x + at), factor), d, y + at);
    if (at < length) store(hn::Mul(load(x + at, length - at), factor), y + at, HWY_MIN(lanes(), to_row - at));
  }
}

#if HWY_TARGET != HWY_SCALAR
/// One vector with 4 floats of row 0, of row 4, of row 8 and so on.
template <class D>
HWY_INLINE hn::Vec<D> load_blocks(D d, const float* from, std::int64_t row) {
  if constexpr (hn::MaxLanes(D()) <= 4) {
    return hn::LoadU(d, from);
  } else {
    const hn::Half<D> half;
    const auto lower = load_blocks(half, from, row);
    const auto upper = load_blocks(half, from + static_cast<std::int64_t>(hn::MaxLanes(half)) * row, row);
    return hn::Combine(d, upper, lower);
  }
}
#endif

/// to[i, row] = from[row, i] for lanes() rows and i < length; reads up to 3 elements past the rows' ends.
HWY_INLINE void transpose_rows(std::int64_t length, const float* from, std::int64_t from_row, float* to,
                               std::int64_t to_row) {
#if HWY_TARGET == HWY_SCALAR
  static_cast<void>(from_row);
  for (std::int64_t i = 0; i < length; ++i) to[i * to_row] = from[i];
#else
  const Float d;
  const hn::RepartitionToWide<Float> pairs;
  for (std::int64_t i = 0; i < length; i += 4) {
    // In each block of 4 lanes: a, b, c, d are four rows, 0 to 3 four elements of each.
    const Vector a = load_blocks(d, from + i, from_row);
    const Vector b = load_blocks(d, from + i + from_row, from_row);
    const Vector c = load_blocks(d, from + i + 2 * from_row, from_row);
    const Vector e = load_blocks(d, from + i + 3 * from_row, from_row);
    const auto ab01 = hn::BitCast(pairs, hn::InterleaveLower(d, a, b));
    const auto ab23 = hn::BitCast(pairs, hn::InterleaveUpper(d, a, b));
    const auto ce01 = hn::BitCast(pairs, hn::InterleaveLower(d, c, e));
    const auto ce23 = hn::BitCast(pairs, hn::InterleaveUpper(d, c, e));
    const auto put = [&](std::int64_t k, auto v) HWY_ATTR {
      if (i + k < length) hn::StoreU(hn::BitCast(d, v), d, to + (i + k) * to_row);
    };
    put(0, hn::InterleaveLower(pairs, ab01, ce01));
    put(1, hn::InterleaveUpper(pairs, ab01, ce01));
    put(2, hn::InterleaveLower(pairs, ab23, ce23));
    put(3, hn::InterleaveUpper(pairs, ab23, ce23));
  }
#endif
}

/// A block of queries: `vectors` vectors of them, the last of which may not be full.
struct QueryBlock {
  std::int64_t first;  // query of the group
  std::int64_t count;
  std::int64_t vectors;
};

HWY_INLINE std::int64_t count_blocks(std::int64_t queries) {
  return ((queries + lanes() - 1) / lanes() + kBlockVectors - 1) / kBlockVectors;
}
HWY_INLINE QueryBlock block_of(std::int64_t queries, std::int64_t index) {
  const std::int64_t vectors = (queries + lanes() - 1) / lanes();
  const std::int64_t blocks = count_blocks(queries);
  const std::int64_t from = vectors * index / blocks;
  const std::int64_t count = vectors * (index + 1) / blocks - from;
  return {from * lanes(), HWY_MIN(count * lanes(), queries - from * lanes()), count};
}

/// The state of the scores of one vector of queries for a tile of keys; the first of these is `query` of the head.
struct ScoreTile {
  float* scores;  // [keys, row]
  std::int64_t row;
  std::int64_t query, queries;
  std::int64_t key, keys;
};

/// Adds the bias to the scores, from rows of queries in memory.
template <class T>
void add_bias(const AttentionTiles& tiles, const void* bias, const ScoreTile& tile, float* scratch) {
  const Float d;
  const AttentionProblem& problem = tiles.problem;
  const std::int64_t padded = round_up(tile.keys, 4), step = problem.bias_strides.token;
  const std::int64_t first = tile.query * step + tile.key;
  float* const as_read = scratch + tiles.bias;
  float* const by_key = as_read + kMaxLanes * round_up(tiles.key_tile, 4) + kMaxLanes;
  for (std::int64_t i = tile.queries; i < lanes(); ++i)
    std::memset(as_read + i * padded, 0, static_cast<std::size_t>(padded) * sizeof(float));
  if (problem.bias == AttentionProblem::Bias::kAdded) {
    copy_rows(tile.queries, tile.keys, static_cast<const T*>(bias) + first, step, kLog2OfE, as_read, padded);
  } else {
    const auto* sees = static_cast<const std::uint8_t*>(bias) + first;
    for (std::int64_t i = 0; i < tile.queries; ++i)
      for (std::int64_t j = 0; j < tile.keys; ++j) as_read[i * padded + j] = sees[i * step + j] != 0 ? 0.0F : kUnseen;
  }
  transpose_rows(tile.keys, as_read, padded, by_key, lanes());
  for (std::int64_t j = 0; j < tile.keys; ++j) {
    float* const at = tile.scores + j * tile.row;
    hn::StoreU(hn::Add(hn::LoadU(d, at), hn::LoadU(d, by_key + j * lanes())), d, at);
  }
}

/// Leaves keys 0..i + diagonal to query i.
HWY_INLINE void hide_later_keys(const ScoreTile& tile, std::int64_t diagonal) {
  const Float d;
  const Vector query = hn::Iota(d, 0.0F);
  for (std::int64_t j = 0; j < tile.keys; ++j) {
    const std::int64_t first = tile.key + j - diagonal - tile.query;  // query of the tile that sees the key
    if (first <= 0) continue;
    float* const at = tile.scores + j * tile.row;
    const auto seen = hn::Ge(query, hn::Set(d, static_cast<float>(HWY_MIN(first, lanes()))));
    hn::StoreU(hn::IfThenElse(seen, hn::LoadU(d, at), hn::Set(d, kUnseen)), d, at);
  }
}

/// log(sum(exp(scores))) of the group's queries: maxima are of powers of two.
void store_logsumexp(const AttentionTiles& tiles, std::int64_t queries, const float* scratch, float* to) {
  constexpr float kLn2 = 0.693147181F;
  const bool may_see_none = tiles.problem.may_see_none();
  for (std::int64_t i = 0; i < queries; ++i) {
    const float sum = scratch[tiles.row_sum + i];
    to[i] = (scratch[tiles.row_max + i] + std::log2(sum)) * kLn2;
    if (sum == 0 && !may_see_none) to[i] = std::numeric_limits<float>::quiet_NaN();  // of scores of -inf alone
  }
}

template <class T>
void attend(const AttentionTiles& tiles, const AttentionGroup<T>& group, float* scratch) {
  const Float d;
  const AttentionProblem& problem = tiles.problem;
  const auto [first_query, queries, q, k, v, bias, out, logsumexp] = group;
  const std::int64_t blocks = count_blocks(queries);
  const float scale = static_cast<float>(problem.scale * 1.4426950408889634);

  // q as [key_dim][queries of a block], through the memory for keys.
  const std::int64_t padded_dim = round_up(problem.key_dim, 4);
  for (std::int64_t i = 0; i < blocks; ++i) {
    const QueryBlock block = block_of(queries, i);
    for (std::int64_t n = 0; n < block.vectors; ++n) {
      const std::int64_t first = block.first + n * lanes();
      const std::int64_t rows = HWY_MIN(lanes(), queries - first);
      copy_rows(rows, problem.key_dim, q + first * problem.q.token, problem.q.token, scale, scratch + tiles.k,
                padded_dim);
      for (std::int64_t row = rows; row < lanes(); ++row)
        std::memset(scratch + tiles.k + row * padded_dim, 0, static_cast<std::size_t>(padded_dim) * sizeof(float));
      transpose_rows(problem.key_dim, scratch + tiles.k, padded_dim,
                     scratch + tiles.q + block.first * problem.key_dim + n * lanes(), block.vectors * lanes());
    }
  }
  for (std::int64_t i = 0; i < round_up(queries, lanes()); i += lanes()) {
    hn::StoreU(hn::Set(d, -std::numeric_limits<float>::infinity()), d, scratch + tiles.row_max + i);
    hn::StoreU(hn::Zero(d), d, scratch + tiles.row_sum + i);
  }

  // By the last query; a block's first tile is gone through even if none of its queries sees a key of it.
  const std::int64_t seen_keys = HWY_MAX(1, HWY_MIN(problem.keys, first_query + queries + problem.diagonal));
  for (std::int64_t first = 0; first < seen_keys; first += tiles.key_tile) {
    const std::int64_t keys = HWY_MIN(tiles.key_tile, seen_keys - first);
    copy_rows(keys, problem.key_dim, k + first * problem.k.token, problem.k.token, 1, scratch + tiles.k,
              problem.key_dim);
    copy_rows(keys, problem.value_dim, v + first * problem.v.token, problem.v.token, 1, scratch + tiles.v,
              tiles.value_row);
    for (std::int64_t i = 0; i < blocks; ++i) {
      const QueryBlock block = block_of(queries, i);
      if (first > 0 && first >= first_query + block.first + block.count + problem.diagonal) continue;
      const std::int64_t width = block.vectors * lanes();
      float* scores = scratch + tiles.scores;  // [keys, width]
      multiply(keys, block.vectors, problem.key_dim, {scratch + tiles.k, problem.key_dim, 1},
               scratch + tiles.q + block.first * problem.key_dim, width, scores, width, nullptr);
      for (std::int64_t n = 0; n < width; n += lanes()) {
        const ScoreTile tile{.scores = scores + n,
                             .row = width,
                             .query = first_query + block.first + n,
                             .queries = HWY_MIN(lanes(), block.count - n),
                             .key = first,
                             .keys = keys};
        if (bias != nullptr) add_bias<T>(tiles, bias, tile, scratch);
        if (problem.is_causal()) hide_later_keys(tile, problem.diagonal);
        softmax_columns(keys, scores + n, width, scratch + tiles.row_max + block.first + n,
                        scratch + tiles.row_sum + block.first + n, scratch + tiles.factor + n);
      }
      multiply(block.count, (problem.value_dim + lanes() - 1) / lanes(), keys, {scores, 1, width}, scratch + tiles.v,
               tiles.value_row, scratch + tiles.sums + block.first * tiles.value_row, tiles.value_row,
               first == 0 ? nullptr : scratch + tiles.factor);
    }
  }

  if (logsumexp != nullptr) store_logsumexp(tiles, queries, scratch, logsumexp);
  for (std::int64_t i = 0; i < queries; ++i) {
    const float sum = scratch[tiles.row_sum + i];
    // 0 if a bias, a mask or the diagonal may hide all keys; else all scores are -inf, whose softmax is NaN.
    const Vector inverse = hn::Set(d, sum == 0 && problem.may_see_none() ? 0.0F : 1.0F / sum);
    const float* sums = scratch + tiles.sums + i * tiles.value_row;
    T* y = out + i * problem.out.token;
    std::int64_t at = 0;
    for (; at + lanes() <= problem.value_dim; at += lanes())
      store_all(hn::Mul(hn::LoadU(d, sums + at), inverse), y + at);
    if (at < problem.value_dim) store(hn::Mul(hn::LoadU(d, sums + at), inverse), y + at, problem.value_dim - at);
  }
}

template <class T>
void attend_groups(const AttentionTiles& tiles, std::int64_t begin, std::int64_t end, const LaunchArguments& arguments,
                   float* scratch) {
  const AttentionProblem& problem = tiles.problem;
  const std::int64_t bias_bytes = problem.bias == AttentionProblem::Bias::kMask ? 1 : sizeof(T);
  for (std::int64_t task = begin; task < end; ++task) {
    const std::int64_t head = task / tiles.groups;
    const std::int64_t first = task % tiles.groups * tiles.group;
    const auto of_head = [&](std::size_t input, const AttentionProblem::Strides& strides) {
      return arguments.input<T>(input) + problem.head_offset(strides, head);
    };
    AttentionGroup<T> group{
        .first_query = first,
        .queries = HWY_MIN(tiles.group, problem.queries - first),
        .q = of_head(0, problem.q) + first * problem.q.token,
        .k = of_head(1, problem.k),
        .v = of_head(2, problem.v),
        .bias = nullptr,
        .out = arguments.output<T>(0) + problem.head_offset(problem.out, head) + first * problem.out.token,
        .logsumexp = nullptr};
    if (problem.bias != AttentionProblem::Bias::kNone)
      group.bias = arguments.input<std::byte>(3) + problem.head_offset(problem.bias_strides, head) * bias_bytes;
    if (problem.has_logsumexp)
      group.logsumexp = arguments.output<float>(1) + problem.head_offset(problem.logsumexp, head) + first;
    attend(tiles, group, scratch);
  }
}

/// Groups [begin, end) of all heads' groups.
void attention_groups(const AttentionTiles& tiles, std::int64_t begin, std::int64_t end,
                      const LaunchArguments& arguments, float* scratch) {
  if (tiles.problem.dtype == DType::kF32) return attend_groups<float>(tiles, begin, end, arguments, scratch);
  attend_groups<Bf16>(tiles, begin, end, arguments, scratch);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace headroom
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace headroom {
namespace {

HWY_EXPORT(attention_groups);

constexpr std::int64_t kMaxHeadDim = 1024;
constexpr std::int64_t kKeyTile = 64;
/// A group's queries and sums, in floats: a share of the L2 cache that leaves room for keys and values.
constexpr std::int64_t kGroupFloats = 80 * 1024;

AttentionTiles cut(const AttentionProblem& problem, int threads) {
  AttentionTiles tiles{.problem = problem};
  tiles.value_row = round_up(problem.value_dim, kMaxLanes);
  const std::int64_t most =
      std::min<std::int64_t>(6 * kBlockQueries, kGroupFloats / (problem.key_dim + tiles.value_row));
  tiles.group = group_queries(problem.batch * problem.heads, problem.queries, kBlockQueries, most, threads);
  tiles.groups = (problem.queries + tiles.group - 1) / tiles.group;
  const std::int64_t key_tiles = (problem.keys + kKeyTile - 1) / kKeyTile;
  tiles.key_tile = round_up((problem.keys + key_tiles - 1) / key_tiles, 8);

  const auto reserve = [&](std::int64_t floats) {
    const std::int64_t at = tiles.floats;
    tiles.floats += round_up(floats, kMaxLanes);
    return at;
  };
  tiles.q = reserve(tiles.group * problem.key_dim);
  tiles.k = reserve(std::max(tiles.key_tile, kMaxLanes) * round_up(problem.key_dim, 4) + kMaxLanes);
  tiles.v = reserve(tiles.key_tile * tiles.value_row);
  tiles.scores = reserve(tiles.key_tile * kBlockQueries);
  tiles.sums = reserve(tiles.group * tiles.value_row);
  tiles.row_max = reserve(tiles.group);
  tiles.row_sum = reserve(tiles.group);
  tiles.factor = reserve(kBlockQueries);
  if (problem.bias != AttentionProblem::Bias::kNone)
    tiles.bias = reserve(kMaxLanes * (round_up(tiles.key_tile, 4) + 1 + tiles.key_tile));
  return tiles;
}

KernelPlan plan_attention(const KernelBinding& binding) {
  const AttentionTiles tiles = cut(attention_problem(binding.spec, binding.inputs, binding.outputs), binding.threads);
  const AttentionProblem& problem = tiles.problem;
  const std::int64_t count = problem.batch * problem.heads * tiles.groups;
  const std::int64_t grain = grain_of(tiles.group * problem.keys);
  const int threads = binding.threads;
  const auto launch = [=](const LaunchArguments& arguments) {
    parallel_for(threads, count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
      HWY_DYNAMIC_DISPATCH(attention_groups)
      (tiles, begin, end, arguments, arguments.scratch_memory<float>() + thread * tiles.floats);
    });
  };
  return {launch, static_cast<std::size_t>(threads * tiles.floats) * sizeof(float)};
}

Support supports_attention(const OpSpec& spec) {
  if (Support rejection = supports_attention(spec, kMaxHeadDim)) return rejection;
  const DType dtype = spec.inputs[0].dtype;
  if (dtype != DType::kF32 && dtype != DType::kBF16) return Rejection{fmt::format("stores f32 or bf16, not {}", dtype)};
  return std::nullopt;
}

}  // namespace

const Kernel& highway_attention() {
  static const CpuKernel kernel(
      {.name = "highway.attention", .op = Op::kAttention, .supports = supports_attention, .plan = plan_attention});
  return kernel;
}

}  // namespace headroom
#endif
