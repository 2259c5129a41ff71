#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/tensors/divide_up.hpp"
#include "kernels/attention/attention_problem.hpp"

// How attention_amx.cpp cuts its work into items and where each part lies in scratch.

namespace headroom {

inline constexpr std::int64_t kBlockQueries = 16;  ///< of an item: the rows of a tile
inline constexpr std::int64_t kGroupKeys = 32;     ///< the depth of a tile multiply-add
inline constexpr std::int64_t kTile = 512;         ///< bf16 elements of a tile
inline constexpr std::int64_t kSumsTile = 256;     ///< f32 elements of a tile
/// The most groups of keys in an item. Up to 64 columns of values have their sums in tiles from the first group of
/// an item to the last, and are multiplied by the exponentials of a group kLag groups later. More columns are
/// multiplied by those of all groups an item later.
inline constexpr std::int64_t kMostGroups = 48, kMostGroupsOfWide = 16;
inline constexpr std::int64_t kLag = 2;
inline constexpr std::int64_t kAhead = 2;  ///< groups whose scores are made before the softmax of one
/// Rings of blocks of 16 queries by 32 keys, of a power of 2: of scores, and of exponentials.
inline constexpr std::int64_t kScoreRing = 4, kRing = 4, kRingOfWide = 2 * kMostGroupsOfWide;
static_assert(kScoreRing > kAhead && kRing > kLag);
/// Items at work at once: up to kAhead have scores made, one is in softmax, one meets its values. Each may be of
/// another task and head.
inline constexpr std::int64_t kInFlight = kAhead + 2;
inline constexpr std::int64_t kMaxTaskBlocks = 24;  ///< blocks of queries that share a pass over the keys

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
  // Offsets in a packed head.
  std::int64_t keys = 0, values = 0, largest_keys = 0, head_bytes = 0;
  bool shared = false;  ///< all packed heads first of all, for every thread; else a few in each thread's part
  // Offsets in a thread's scratch.
  std::int64_t packed = 0;
  std::int64_t queries = 0, scores = 0, exponentials = 0, sums = 0, references = 0, offsets = 0, row_sums = 0,
               largest_queries = 0;
  std::int64_t item_scores = 0, item_exponentials = 0;  ///< of one whole item
  std::int64_t thread_bytes = 0;

  [[nodiscard]] std::int64_t heads() const { return problem.batch * problem.heads; }
  [[nodiscard]] std::int64_t shared_bytes() const { return shared ? heads() * head_bytes : 0; }
  /// Whether the sums of an item take more than four tiles.
  [[nodiscard]] bool is_wide() const { return value_pairs > 2; }
  /// How many keys a query sees, from the first one on; below 0 if the diagonal is farther away.
  [[nodiscard]] std::int64_t seen_keys(std::int64_t query) const {
    return std::min(problem.keys, query + problem.diagonal + 1);
  }
  /// From one row of a whole item to the next, in elements.
  [[nodiscard]] std::int64_t row() const { return block_groups * kGroupKeys; }
};

[[nodiscard]] inline AmxTiles cut_into_tiles(const AttentionProblem& problem, int threads) {
  AmxTiles tiles{.problem = problem};
  tiles.key_steps = divide_up(problem.key_dim, 32);
  tiles.value_pairs = divide_up(problem.value_dim, 32);
  tiles.groups = divide_up(problem.keys, kGroupKeys);
  tiles.key_blocks = divide_up(tiles.groups, tiles.is_wide() ? kMostGroupsOfWide : kMostGroups);
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
  tiles.largest_keys = reserve(tiles.head_bytes, tiles.groups * kBf16);
  tiles.shared = tiles.heads() < threads;
  tiles.packed = reserve(tiles.thread_bytes, tiles.shared ? 0 : kInFlight * tiles.head_bytes);
  const std::int64_t slots = kInFlight * tiles.task_blocks;
  tiles.queries = reserve(tiles.thread_bytes, slots * tiles.key_steps * kTile * kBf16);
  constexpr std::int64_t kBlock = kBlockQueries * kGroupKeys;
  tiles.scores = reserve(tiles.thread_bytes, kScoreRing * kBlock * kF32);
  tiles.exponentials = reserve(tiles.thread_bytes, (tiles.is_wide() ? kRingOfWide : kRing) * kBlock * kBf16);
  tiles.sums = reserve(tiles.thread_bytes, slots * 2 * tiles.value_pairs * kSumsTile * kF32);
  tiles.references = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  tiles.offsets = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  tiles.row_sums = reserve(tiles.thread_bytes, slots * 2 * kBlockQueries * 16 * kF32);
  tiles.largest_queries = reserve(tiles.thread_bytes, slots * kBf16);
  tiles.item_scores = reserve(tiles.thread_bytes, kBlockQueries * tiles.row() * kF32);
  tiles.item_exponentials = reserve(tiles.thread_bytes, kBlockQueries * tiles.row() * kBf16);
  return tiles;
}

/// 16 queries by one block of keys.
struct AmxItem {
  std::int64_t head, first_query, queries;
  std::int64_t key_block, first_group, groups;
  std::int64_t whole;  ///< groups, its first ones, of which each of its queries sees all keys
  bool last;           ///< block of keys that its queries see
  std::int64_t slot;   ///< of the state that its queries keep between blocks of keys
  bool backward;       ///< its groups of keys are visited from the last to the first

  /// The `at`-th group of keys that the item visits. Neighbouring items go in opposite directions, so that the last
  /// groups of one are still in the first-level cache when the next one needs them.
  [[nodiscard]] std::int64_t group(std::int64_t at) const { return backward ? groups - 1 - at : at; }
};

/// Walks the items of tasks [begin, end): for each task and block of keys, each block of queries that sees one of them.
/// The first block of keys has an item, one group at least, even if its queries see none.
class AmxItems {
 public:
  AmxItems(const AmxTiles& tiles, std::int64_t begin, std::int64_t end) : tiles_(tiles), task_(begin), end_(end) {
    start_task();
  }

  [[nodiscard]] bool done() const { return task_ == end_; }
  [[nodiscard]] AmxItem get() const {
    const std::int64_t block = first_block_ + block_;
    const std::int64_t first_group = key_block_ * tiles_.block_groups, first_query = block * kBlockQueries;
    const std::int64_t groups = std::min(tiles_.block_groups, seen_groups() - first_group);
    const std::int64_t seen = std::max<std::int64_t>(0, tiles_.seen_keys(first_query));  // by the first query
    const bool sees_all = seen == tiles_.problem.keys;
    return {.head = head_,
            .first_query = first_query,
            .queries = std::min(kBlockQueries, tiles_.problem.queries - first_query),
            .key_block = key_block_,
            .first_group = first_group,
            .groups = groups,
            .whole = sees_all ? groups : std::clamp<std::int64_t>(seen / kGroupKeys - first_group, 0, groups),
            .last = first_group + groups == seen_groups(),
            .slot = tiles_.key_blocks == 1 ? count_ % kInFlight : task_ % kInFlight * tiles_.task_blocks + block_,
            .backward = block % 2 != 0};
  }
  void next() {
    ++count_;
    do {
      if (++block_ < blocks_) continue;
      block_ = 0;
      if (++key_block_ < tiles_.key_blocks) continue;
      key_block_ = 0;
      ++task_;
      start_task();
    } while (!done() && key_block_ * tiles_.block_groups >= seen_groups());
  }

 private:
  /// Groups of keys that the last query of the block sees, or one.
  [[nodiscard]] std::int64_t seen_groups() const {
    const std::int64_t end = std::min(tiles_.problem.queries, (first_block_ + block_ + 1) * kBlockQueries);
    return divide_up(std::max<std::int64_t>(1, tiles_.seen_keys(end - 1)), kGroupKeys);
  }
  void start_task() {
    head_ = task_ / tiles_.tasks;
    first_block_ = task_ % tiles_.tasks * tiles_.task_blocks;
    blocks_ = std::min(tiles_.task_blocks, tiles_.query_blocks - first_block_);
  }

  const AmxTiles& tiles_;
  std::int64_t task_, end_;
  std::int64_t head_ = 0, first_block_ = 0, blocks_ = 0;  // of the task
  std::int64_t key_block_ = 0, block_ = 0, count_ = 0;
};

}  // namespace headroom
