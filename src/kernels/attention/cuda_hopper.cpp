#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <ranges>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "kernels/attention/hopper.hpp"

namespace headroom::attentions {
namespace {

constexpr int kSharedBytes = 226 * 1024;  // of a multiprocessor, less 1 KB for each block and its barriers
constexpr int kMostSplit = 8;             // larger clusters are not portable
constexpr int kMostWhole = 16;
constexpr std::size_t kMostMeasured = 12;

/// A compiled variant of the kernel.
struct Compiled {
  int warpgroups, keys, stages, resident, width;
  bool takes_bias;
};
constexpr Compiled kCompiled[] = {
#define HR_TILE(warpgroups, keys, stages, resident, width, takes_bias) \
  {warpgroups, keys, stages, resident, width, takes_bias},
#include "kernels/attention/hopper_tiles.def"
#undef HR_TILE
};

int as_int(std::int64_t value) { return static_cast<int>(value); }

bool is_biased(const AttentionProblem& problem) { return problem.bias != AttentionProblem::Bias::kNone; }

/// The dimension of a head, padded for the matrix multiply-adds.
int padded_dim(const AttentionProblem& problem) {
  const std::int64_t dim = std::max(problem.key_dim, problem.value_dim);
  if (is_biased(problem)) return dim <= kPieceDim ? kPieceDim : kMostDim;
  for (const int padded : {32, 48, 64, 96})
    if (dim <= padded) return padded;
  return kMostDim;
}

/// The variants for heads of a problem's size.
auto compiled_for(const AttentionProblem& problem) {
  return kCompiled | std::views::filter([width = pieces_of(padded_dim(problem)) * kPieceDim](const Compiled& c) {
           return c.width == width;
         });
}

/// The variant for a tile of a problem; null where there is none.
const Compiled* compiled_for(const AttentionProblem& problem, const HopperTile& tile) {
  for (const Compiled& compiled : compiled_for(problem))
    if (compiled.warpgroups == tile.warpgroups && compiled.keys == tile.keys)
      return is_biased(problem) && !compiled.takes_bias ? nullptr : &compiled;
  return nullptr;
}

/// Whether a tile makes sense: 80 keys at a time are for the 77 tokens of a text.
bool is_of_use(const AttentionProblem& problem, const HopperTile& tile) {
  if (problem.queries <= tile.queries() - kGroupRows) return false;
  if (tile.keys == 80) return problem.keys > 64 && problem.keys <= 80;
  return tile.keys <= 64 || problem.keys > 64;
}

/// Heads whose tiles alternate in causal order, so that the tiles with most keys come first: as many as have keys and
/// values in a part of the second-level cache.
int heads_together(const AttentionProblem& problem) {
  constexpr std::int64_t kBytes = 16 << 20;
  if (!problem.is_causal()) return 1;
  const std::int64_t bytes_of_head = problem.keys * (problem.key_dim + problem.value_dim) * 2 / problem.k.sharers;
  return as_int(
      std::clamp<std::int64_t>(kBytes / bytes_of_head, 2, std::max<std::int64_t>(2, problem.batch * problem.heads)));
}

HopperBias bias_of(const AttentionProblem& problem) {
  if (problem.bias == AttentionProblem::Bias::kAdded) return HopperBias::kAdded;
  return problem.bias == AttentionProblem::Bias::kMask ? HopperBias::kMask : HopperBias::kNone;
}

/// Whether the copy engine can bring the bias: in rows of its own for each query, at multiples of 16 bytes.
bool can_copy_bias(const AttentionProblem& problem) {
  const AttentionProblem::Strides& strides = problem.bias_strides;
  return problem.bias == AttentionProblem::Bias::kAdded && (strides.token > 0 || problem.queries == 1) &&
         (strides.batch | strides.head | strides.token) % 8 == 0;
}

/// How the bias is read: through as many stages as shared memory has room for.
void place_bias(const AttentionProblem& problem, const HopperTile& tile, int most_bytes, HopperForm& form) {
  form.bias = bias_of(problem);
  form.bias_batch = problem.bias_strides.batch, form.bias_head = problem.bias_strides.head;
  form.bias_query = problem.bias_strides.token;
  form.bias_is_paired = (form.bias_batch | form.bias_head | form.bias_query) % 2 == 0;
  if (!can_copy_bias(problem)) return;
  for (int stages = kMostBiasStages; stages > 0; stages /= 2) {
    const int bytes = form.shared_bytes + stages * bias_bytes(tile.queries(), tile.keys);
    if (bytes > most_bytes) continue;
    form.bias_stages = stages, form.shared_bytes = bytes;
    return;
  }
}

/// False where there is nothing to spread, too little, or a tile that is not compiled for it: a small one.
bool spread_keys(const AttentionProblem& problem, const HopperTile& tile, HopperForm& form) {
  const std::int64_t rest = form.tiles - std::int64_t{tile.whole} * tile.spread;
  const std::int64_t units = rest * divide_up(form.keys, tile.keys);
  if (rest <= 0 || rest >= tile.spread || units < tile.spread || problem.is_causal() || is_biased(problem) ||
      tile.warpgroups == 1)
    return false;
  form.spread = tile.spread;
  form.units_of_block = as_int(units / tile.spread), form.more_units = as_int(units % tile.spread);
  return true;
}

/// Nothing if the tile is of no use, the cluster has more blocks than there are units of keys, or shared memory
/// does not hold the data that they exchange.
std::optional<HopperForm> form_of(const AttentionProblem& problem, const HopperTile& tile) {
  const Compiled* const compiled = compiled_for(problem, tile);
  if (compiled == nullptr || !is_of_use(problem, tile)) return std::nullopt;
  // Parts of a tile's keys may be hidden from some of its queries.
  if (tile.shares && (problem.is_causal() || is_biased(problem))) return std::nullopt;
  if (tile.shares && divide_up(problem.keys, tile.keys) < tile.split) return std::nullopt;
  const int rows = tile.queries(), dim = padded_dim(problem);
  HopperForm form;
  form.heads = as_int(problem.heads), form.sharers = as_int(problem.k.sharers);
  form.queries = as_int(problem.queries), form.keys = as_int(problem.keys);
  form.dim = dim, form.value_dim = as_int(problem.value_dim);
  form.tiles_of_head = divide_up(form.queries, rows);
  form.all_heads = as_int(problem.batch * problem.heads);
  form.tiles = form.all_heads * form.tiles_of_head;
  form.is_causal = problem.is_causal();
  form.diagonal = as_int(problem.diagonal);
  if (form.is_causal) form.most_cut = (rows + tile.keys - 2) / tile.keys + 1;
  form.heads_together = heads_together(problem);
  form.split = tile.split, form.whole = tile.whole, form.shares = tile.shares ? 1 : 0;
  form.share_rows = divide_up(rows, tile.split);
  form.scale = static_cast<float>(problem.scale * std::numbers::log2e);
  form.out_batch = problem.out.batch, form.out_head = problem.out.head, form.out_token = problem.out.token;
  form.sum_batch = problem.logsumexp.batch, form.sum_head = problem.logsumexp.head;
  if (tile.spread > 0 && !spread_keys(problem, tile, form)) return std::nullopt;
  const int row_bytes = pieces_of(dim) * kRowBytes, stages = is_biased(problem) ? kBiasedStages : compiled->stages;
  const int ring_bytes = stages * 2 * tile.keys * row_bytes;
  const int exchanged = (rows + (tile.split - 1) * form.share_rows) * sums_pitch(dim);
  const int exchanged_bytes = tile.shares ? exchanged * static_cast<int>(sizeof(float)) : 0;
  form.shared_bytes = 2 * rows * row_bytes + std::max(ring_bytes, exchanged_bytes);
  const int most_bytes = kSharedBytes / compiled->resident - 1024;
  place_bias(problem, tile, most_bytes, form);
  if (form.shared_bytes > most_bytes) return std::nullopt;
  return form;
}

/// The tile that spreads the keys of the last tiles over as many blocks as run at once.
HopperTile spread_tile(const AttentionProblem& problem, const Compiled& compiled) {
  HopperTile tile{compiled.warpgroups, compiled.keys, 1, 0, false, kMultiprocessors * compiled.resident};
  const std::int64_t tiles = problem.batch * problem.heads * divide_up<std::int64_t>(problem.queries, tile.queries());
  tile.whole = as_int(tiles / tile.spread);
  return tile;
}

// What it takes to write parts of tiles and to join them, and what more for each part of a tile.
constexpr double kJoinClocks = 28000, kPartClocks = 1500;

/// An estimate of the kernel's time, fitted to times on an H100 (bench/results/h100/attention_ways.txt) taken as of
/// 1.7 GHz. In each wave blocks start, have a tile's queries copied and its results stored, and go through their
/// units of keys one after the other. A unit takes a warpgroup's latency from scores to sums, and a little more
/// than half of the time of the exponentials and multiply-adds of all blocks on a multiprocessor, because these
/// overlap.
double guess_clocks(const HopperTile& tile, const HopperForm& form, int clusters) {
  const double seen = visible_pairs(form.queries, form.keys, form.diagonal) / form.queries;  // by a query, on average
  const double units = form.is_causal ? std::max(1.0, seen / tile.keys + 0.5) : divide_up(form.keys, tile.keys);
  const int at_once = tile.spread > 0 ? tile.spread : std::min(form.clusters(), clusters) * form.split;
  const int blocks = std::max(1, divide_up(at_once, kMultiprocessors));
  const double pairs = 1.0 * tile.queries() * blocks * tile.keys;
  const double exponentials = pairs / 16, multiply_adds = pairs * 2 * form.dim / 2048;
  const double unit = 350 + 4.5 * tile.keys + 0.57 * (exponentials + multiply_adds);
  const double sequential = tile.whole * units + (tile.shares ? std::ceil(units / tile.split) : 0);
  const double exchange = tile.shares ? 3700 + 0.28 * form.share_rows * (tile.split - 1) * sums_pitch(form.dim) : 0;
  const double start = 1250 + 640.0 * tile.warpgroups;
  if (tile.spread > 0) {
    const double parts = units / form.units_of_block + 1;
    return start + unit * (sequential + form.units_of_block + 1) + 2900.0 * (tile.whole + 1) + kJoinClocks +
           parts * kPartClocks;
  }
  const int waves = divide_up(form.clusters(), clusters);
  return waves * (start + sequential * unit + 2900.0 * (tile.whole + form.shares) + exchange);
}

}  // namespace

cuda::BoxedTensor boxed(DType dtype, std::int64_t dim, std::int64_t tokens, std::int64_t heads, std::int64_t batch,
                        const AttentionProblem::Strides& strides, int rows) {
  const int elements = kRowBytes / as_int(static_cast<std::int64_t>(size_of(dtype)));
  const auto stride = [&](std::int64_t extent, std::int64_t given) { return extent == 1 ? elements : given; };
  return {.dtype = dtype,
          .rank = 4,
          .extents = {dim, tokens, heads, batch},
          .strides = {1, stride(tokens, strides.token), stride(heads, strides.head), stride(batch, strides.batch)},
          .box = {elements, rows, 1, 1}};
}

std::string name_of(const HopperTile& tile) {
  const std::string shared = tile.shares ? fmt::format("1 shared by {}", tile.split) : "";
  const std::string rest = tile.spread == 0 ? "" : fmt::format("the rest spread over {}", tile.spread);
  const std::string whole =
      tile.whole == 0 ? "" : fmt::format("{} tile{} a block", tile.whole, tile.whole == 1 ? "" : "s");
  return fmt::format("hopper {} queries x {} keys, {}{}{}", tile.queries(), tile.keys, whole,
                     (tile.shares || tile.spread > 0) && tile.whole > 0 ? " and " : "", shared + rest);
}

Support why_not_hopper(const OpSpec& spec, const Target& target) {
  if (target.compute_capability != 90) return Rejection{"is for GPUs of compute capability 9.0"};
  if (Support rejection = check(spec, kMostDim)) return rejection;
  if (!(spec.attributes[attr::kScale] > 0)) return Rejection{"takes scales above 0"};
  for (const std::size_t index : {0U, 1U, 2U})
    if (spec.inputs[index].shape.numel() > INT32_MAX) return Rejection{"takes operands of up to 2^31 elements"};
  return std::nullopt;
}

std::vector<HopperTile> hopper_tiles(const AttentionProblem& problem) {
  std::vector<HopperTile> tiles;
  for (const Compiled& compiled : compiled_for(problem))
    for (int split = 1; split <= kMostSplit; ++split)
      for (int whole = split == 1 ? 1 : 0; whole <= kMostWhole; ++whole) {
        const HopperTile tile{compiled.warpgroups, compiled.keys, split, whole, split > 1};
        if (form_of(problem, tile)) tiles.push_back(tile);
      }
  for (const Compiled& compiled : compiled_for(problem))
    if (const HopperTile tile = spread_tile(problem, compiled); form_of(problem, tile)) tiles.push_back(tile);
  return tiles;
}

std::vector<HopperTile> best_hopper_tiles(const AttentionProblem& problem, const ClustersAtOnce& clusters_at_once) {
  struct Guess {
    HopperTile tile;
    double clocks;
  };
  std::vector<Guess> guesses;
  const auto add = [&](const HopperTile& tile, int clusters) {
    if (tile.whole > kMostWhole) return;
    if (const std::optional<HopperForm> form = form_of(problem, tile))
      guesses.push_back({tile, guess_clocks(tile, *form, clusters)});
  };
  for (const Compiled& compiled : compiled_for(problem))
    for (int split = 1; split <= kMostSplit; ++split) {
      HopperTile tile{compiled.warpgroups, compiled.keys, split, split == 1 ? 1 : 0, split > 1};
      const std::optional<HopperForm> form = form_of(problem, tile);
      const int clusters = form ? clusters_at_once(tile, *form) : 0;
      if (clusters == 0) continue;
      add(tile, clusters);
      const int tiles = divide_up(form->tiles, clusters);  // of each cluster, if all start at once
      if (tiles == 1) continue;
      tile.whole = split == 1 ? tiles : divide_up(tiles - 1, split);
      add(tile, clusters);
    }
  for (const Compiled& compiled : compiled_for(problem))
    add(spread_tile(problem, compiled), kMultiprocessors * compiled.resident);
  std::ranges::stable_sort(guesses, {}, &Guess::clocks);
  guesses.resize(std::min(guesses.size(), kMostMeasured));
  std::vector<HopperTile> best;
  for (const Guess& guess : guesses) best.push_back(guess.tile);
  return best;
}

Algorithm make_hopper_algorithm(const AttentionProblem& problem, const HopperTile& tile) {
  const std::optional<HopperForm> form_of_tile = form_of(problem, tile);
  HR_CHECK(form_of_tile.has_value());
  const auto box = [&](std::int64_t dim, std::int64_t tokens, std::int64_t heads,
                       const AttentionProblem::Strides& strides,
                       int rows) { return boxed(problem.dtype, dim, tokens, heads, problem.batch, strides, rows); };
  const std::int64_t heads = problem.heads, shared_heads = heads / problem.k.sharers;
  const cuda::BoxedTensor q = box(problem.key_dim, problem.queries, heads, problem.q, tile.queries());
  const cuda::BoxedTensor k = box(problem.key_dim, problem.keys, shared_heads, problem.k, tile.keys);
  const cuda::BoxedTensor v = box(problem.value_dim, problem.keys, shared_heads, problem.v, tile.keys);
  const auto extent = [](std::int64_t given, std::int64_t stride) { return stride == 0 ? 1 : given; };
  const AttentionProblem::Strides& strides = problem.bias_strides;
  const cuda::BoxedTensor bias =
      boxed(problem.dtype, problem.keys, problem.queries, extent(problem.heads, strides.head),
            extent(problem.batch, strides.batch), strides, tile.queries());
  // Sums of two parts for each block, and a count for each tile that is spread.
  const int parts = tile.spread * 2 * tile.queries() * sums_pitch(form_of_tile->dim);
  const cuda::BoxedTensor out = box(problem.value_dim, problem.queries, heads, problem.out, kGroupRows);
  return {.name = name_of(tile),
          .workspace_bytes = static_cast<std::size_t>(parts + tile.spread) * sizeof(float),
          .run = [=, planned = *form_of_tile](void* stream, const Operands& operands, void* workspace) {
            HopperForm form = planned;
            const auto is_at = [&](std::uintptr_t multiple) {
              return reinterpret_cast<std::uintptr_t>(operands.bias) % multiple == 0;
            };
            if (!is_at(16)) form.bias_stages = 0;
            form.bias_is_paired &= is_at(form.bias == HopperBias::kMask ? 2 : 4);
            const HopperMaps maps{
                .q = cuda::make_tensor_map(q, operands.q),
                .k = cuda::make_tensor_map(k, operands.k),
                .v = cuda::make_tensor_map(v, operands.v),
                .out = cuda::make_tensor_map(out, operands.out),
                .bias = form.bias_stages > 0 ? cuda::make_tensor_map(bias, operands.bias) : cuda::TensorMap{}};
            launch_hopper(stream, q.dtype, tile, form, maps,
                          {.out = operands.out,
                           .logsumexp = operands.logsumexp,
                           .bias = operands.bias,
                           .parts = workspace,
                           .given = static_cast<int*>(workspace) + parts});
          }};
}

std::optional<Algorithm> find_hopper_algorithm(const AttentionProblem& problem, const std::string& name) {
  for (const HopperTile& tile : hopper_tiles(problem))
    if (name_of(tile) == name) return make_hopper_algorithm(problem, tile);
  return std::nullopt;
}

}  // namespace headroom::attentions
