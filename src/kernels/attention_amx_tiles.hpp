#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/attention_problem.hpp"

// How attention_amx.cpp cuts its work into items and where each part lies in scratch.

namespace headroom {

inline constexpr std::int64_t kBlockQueries = 32;   ///< of an item: two tiles of 16 rows
inline constexpr std::int64_t kGroupKeys = 32;      ///< the depth of a tile product
inline constexpr std::int64_t kTile = 512;          ///< bf16 elements of a tile
inline constexpr std::int64_t kSumsTile = 256;      ///< f32 elements of a tile
inline constexpr std::int64_t kMaxBlockGroups = 9;  ///< of keys, in an item
/// Items at work at once: one is entered, one in softmax, one meets its values. Each may be of another task and head.
inline constexpr std::int64_t kInFlight = 3;
inline constexpr std::int64_t kMaxTaskBlocks = 8;  ///< blocks of queries that share a pass over the keys

[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t n, std::int64_t unit) { return (n + unit - 1) / unit; }

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
  std::int64_t keys = 0, values = 0, largest_keys = 0, head_bytes = 0;
  bool shared = false;  ///< all packed heads first of all, for every thread; else a few in each thread's part
  // Of a thread.
  std::int64_t packed = 0;
  std::int64_t queries = 0, scores = 0, exponentials = 0, sums = 0, offsets = 0, row_sums = 0, factors = 0;
  std::int64_t largest_queries = 0;
  std::int64_t thread_bytes = 0;

  [[nodiscard]] std::int64_t heads() const { return problem.batch * problem.heads; }
  [[nodiscard]] std::int64_t shared_bytes() const { return shared ? heads() * head_bytes : 0; }
  /// From one row of an item's scores, and exponentials, to the next, in elements.
  [[nodiscard]] std::int64_t row() const { return block_groups * kGroupKeys; }
};

[[nodiscard]] inline AmxTiles cut_into_tiles(const AttentionProblem& problem, int threads) {
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
  tiles.largest_keys = reserve(tiles.head_bytes, tiles.groups * kBf16);
  tiles.shared = tiles.heads() < threads;
  tiles.packed = reserve(tiles.thread_bytes, tiles.shared ? 0 : kInFlight * tiles.head_bytes);
  const std::int64_t slots = kInFlight * tiles.task_blocks;
  tiles.queries = reserve(tiles.thread_bytes, slots * 2 * tiles.key_steps * kTile * kBf16);
  tiles.scores = reserve(tiles.thread_bytes, 2 * kBlockQueries * tiles.row() * kF32);
  tiles.exponentials = reserve(tiles.thread_bytes, 2 * kBlockQueries * tiles.row() * kBf16);
  tiles.sums = reserve(tiles.thread_bytes, slots * 4 * tiles.value_pairs * kSumsTile * kF32);
  tiles.offsets = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  tiles.row_sums = reserve(tiles.thread_bytes, slots * 2 * kBlockQueries * 16 * kF32);
  tiles.factors = reserve(tiles.thread_bytes, slots * kBlockQueries * kF32);
  tiles.largest_queries = reserve(tiles.thread_bytes, slots * kBf16);
  return tiles;
}

/// 32 queries by one block of keys.
struct AmxItem {
  std::int64_t head, first_query, queries;
  std::int64_t key_block, first_group, groups;
  bool last;              ///< block of keys
  std::int64_t slot;      ///< of what its queries keep from one block of keys to the next
  std::int64_t buffer;    ///< of its scores and exponentials: items take turns
  bool rescaled = false;  ///< its softmax gave rows new offsets, so that what was summed before needs their factors
};

/// Walks the items of tasks [begin, end): for each task and block of keys, each block of queries.
class AmxItems {
 public:
  AmxItems(const AmxTiles& tiles, std::int64_t begin, std::int64_t end) : tiles_(tiles), task_(begin), end_(end) {}

  [[nodiscard]] bool done() const { return task_ == end_; }
  [[nodiscard]] AmxItem get() const {
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

}  // namespace headroom
