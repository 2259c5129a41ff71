#include "plan/tiling.hpp"

#include <algorithm>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "ir/op_definition.hpp"
#include "plan/strides.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMostSteps = 64;         // of a tile
constexpr std::size_t kMostWays = 8;           // to cut a batch that are tried, from the finest
constexpr std::int64_t kLeastMatmulRows = 64;  // of a part; with fewer, vector and matrix units idle
constexpr double kLeastBalance = 0.9;          // of the threads' time spent on parts
constexpr double kLaunchBytes = 16'000;        // bytes that a core moves meanwhile: 0.8 us at 20 GB/s
constexpr double kCacheShare = 0.5;            // of the second-level cache: a core may share it with another thread
constexpr double kNever = std::numeric_limits<double>::infinity();

/// Memory beyond the cache is read, or read and written.
constexpr double kReadOnce = 1, kWriteOnce = 2;

/// A value that a step reads or writes, in memory.
struct Access {
  int storage;
  std::size_t offset;
  double bytes;
  bool by_sample;
  bool written;
  std::size_t pitch;  // bytes from one sample's part of the storage to the next; 0 if there are no such parts
};

/// A step that is launched, as seen by the search.
struct Work {
  std::size_t chosen;
  std::int64_t samples;  // of its results, or 0 if they depend on each other
  // by operand: whether it is batched, so that a sample of the results needs one sample of it
  std::vector<bool> by_sample;
  std::int64_t matmul_rows = 0;
  double weight_bytes = 0;
  std::vector<Access> accesses;
};

class Tiler {
 public:
  Tiler(const Graph& graph, const std::vector<ChosenKernel>& chosen, const Placements& placements,
        const std::vector<bool>& is_weight, const Target& target)
      : graph_(graph), chosen_(chosen), placements_(placements), is_weight_(is_weight), target_(target) {
    for (std::size_t i = 0; i < chosen.size(); ++i)
      if (!placements.elided[i]) add_work(i);
  }

  std::vector<Tile> find() {
    std::vector<Tile> tiles;
    for (std::size_t begin = 0; begin < works_.size();) {
      std::size_t end = begin + 1;
      while (end < works_.size() && straight_run(end) == straight_run(begin)) ++end;
      std::vector<Tile> found = cut(begin, end);
      while (!found.empty() && !complete(found)) found = cut(begin, end);
      std::ranges::move(found, std::back_inserter(tiles));
      begin = end;
    }
    return tiles;
  }

 private:
  int straight_run(std::size_t work) const { return placements_.timeline.straight_run(works_[work].chosen); }

  void add_work(std::size_t i) {
    const Node& node = graph_.nodes()[static_cast<std::size_t>(chosen_[i].node)];
    const Shape& result = graph_.type(node.results[0]).shape;
    const std::int64_t samples = result.rank() > 0 ? result[0] : 0;
    const auto by_sample = operands_by_sample(graph_, node, samples);
    Work work{.chosen = i,
              .samples = by_sample ? samples : 0,
              .by_sample = by_sample.value_or(std::vector<bool>(node.inputs.size(), false)),
              .accesses = {}};
    if (is_matmul(node.op)) work.matmul_rows = result.numel() / result[-1];
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (is_weight_[index_of(node.inputs[k])])
        work.weight_bytes += static_cast<double>(graph_.type(node.inputs[k]).bytes());
      else
        add_access(work, node.inputs[k], work.by_sample[k], false);
    }
    for (const ValueId v : node.results) add_access(work, v, work.samples > 0, true);
    works_.push_back(std::move(work));
  }

  void add_access(Work& work, ValueId v, bool by_sample, bool written) {
    const Place& place = placements_.places[index_of(v)];
    const TensorType& type = graph_.type(v);
    work.accesses.push_back({.storage = place.storage,
                             .offset = place.offset_bytes,
                             .bytes = static_cast<double>(type.bytes()),
                             .by_sample = by_sample,
                             .written = written,
                             .pitch = by_sample ? pitch_of(type, place) : 0});
  }

  /// The bytes of one part if a value's storage is divided into one equal part per sample, and sample i is within
  /// part i.
  std::size_t pitch_of(const TensorType& type, const Place& place) const {
    const std::size_t bytes = static_cast<std::size_t>(place.strides[0]) * size_of(type.dtype);
    std::size_t last = place.offset_bytes;  // of the first sample's elements
    for (int axis = 1; axis < type.shape.rank(); ++axis)
      last += static_cast<std::size_t>((type.shape[axis] - 1) * place.strides[axis]) * size_of(type.dtype);
    const std::size_t all = bytes * static_cast<std::size_t>(type.shape[0]);
    return last < bytes && all == placements_.storages[static_cast<std::size_t>(place.storage)].bytes ? bytes : 0;
  }

  /// For each storage used by works [first, last), their common pitch; 0 if they differ.
  std::map<int, std::size_t> pitches(std::size_t first, std::size_t last) const {
    std::map<int, std::size_t> pitches;
    for (std::size_t i = first; i < last; ++i)
      for (const Access& access : works_[i].accesses) {
        std::size_t& pitch = pitches.try_emplace(access.storage, access.pitch).first->second;
        if (pitch != access.pitch) pitch = 0;
      }
    return pitches;
  }

  /// Bytes that leave or enter the caches if a step runs for all samples at once.
  double untiled_bytes(const Work& work) const {
    double bytes = work.weight_bytes * static_cast<double>(target_.threads);
    for (const Access& access : work.accesses) bytes += access.bytes * (access.written ? kWriteOnce : kReadOnce);
    return bytes;
  }

  /// The same for works [first, last) as one tile, or kNever if they cannot form one.
  double tiled_bytes(std::size_t first, std::size_t last, std::int64_t parts) const {
    struct Live {
      std::size_t first, last;
      double bytes;
    };
    const auto count = static_cast<double>(parts);
    // bytes shared by all parts, bytes of one part, and those of a part's that leave the tile
    double whole = 0, slices = 0, behind = 0;
    std::map<int, Live> inside;
    std::set<std::pair<int, std::size_t>> met;
    const std::map<int, std::size_t> pitches = this->pitches(first, last);
    for (std::size_t i = first; i < last; ++i) {
      whole += works_[i].weight_bytes;
      for (const Access& access : works_[i].accesses) {
        const auto storage = static_cast<std::size_t>(access.storage);
        const std::size_t pitch = pitches.at(access.storage);
        if (access.written && pitch == 0) return kNever;  // a part could change data that another reads
        if (pitch != 0 && is_inside(storage, first, last)) {
          const double bytes = static_cast<double>(placements_.storages[storage].bytes) / count;
          inside.try_emplace(access.storage, Live{i, i, bytes}).first->second.last = i;
        } else if (!access.by_sample) {
          if (met.insert({access.storage, access.offset}).second) whole += access.bytes;
        } else {
          const bool is_new = met.insert({access.storage, access.offset}).second;
          if (is_new) slices += access.bytes / count;
          if (access.written)
            behind += access.bytes / count * kWriteOnce;
          else if (is_new)
            behind += access.bytes / count * kReadOnce;
        }
      }
    }
    double most = 0;
    for (std::size_t i = first; i < last; ++i) {
      double live = 0;
      for (const auto& [storage, held] : inside)
        if (held.first <= i && i <= held.last) live += held.bytes;
      most = std::max(most, live);
    }
    if (whole + slices + most > room()) return kNever;
    const auto threads = static_cast<double>(target_.threads);
    const double bytes = whole * threads + count * (behind + kLaunchBytes * static_cast<double>(last - first));
    return bytes * (1 + threads / (2 * count));  // at the end each thread waits for half a part, on average
  }

  /// Whether only the works of a tile use a storage.
  bool is_inside(std::size_t storage, std::size_t first, std::size_t last) const {
    const Lifetime& life = placements_.lifetimes[storage];
    return placements_.storages[storage].kind == StorageKind::kArena &&
           life.first >= placements_.timeline.of_node(works_[first].chosen) &&
           life.last <= placements_.timeline.of_node(works_[last - 1].chosen);
  }

  /// Bytes of a core's cache that a tile may fill.
  double room() const { return kCacheShare * static_cast<double>(target_.core_cache_bytes); }

  /// The possible numbers of parts for `samples`, largest first.
  std::vector<std::int64_t> ways_to_cut(std::int64_t samples) const {
    std::vector<std::int64_t> ways;
    const std::int64_t threads = target_.threads;
    for (std::int64_t parts = samples; parts >= 2 * threads && ways.size() < kMostWays; --parts) {
      const std::int64_t rounds = (parts + threads - 1) / threads;
      const bool balanced = static_cast<double>(parts) >= kLeastBalance * static_cast<double>(rounds * threads);
      if (samples % parts == 0 && balanced) ways.push_back(parts);
    }
    return ways;
  }

  static bool can_cut(const Work& work, std::int64_t parts) {
    return work.samples % parts == 0 && (work.matmul_rows == 0 || work.matmul_rows / parts >= kLeastMatmulRows);
  }

  /// The best tiles among consecutive works [begin, end) of one region.
  std::vector<Tile> cut(std::size_t begin, std::size_t end) const {
    struct Best {
      double bytes = kNever;
      std::size_t first = 0;  // of the last tile or untiled step
      std::int64_t parts = 1;
    };
    std::vector<Best> best(end - begin + 1);  // by number of works done
    best[0].bytes = 0;
    for (std::size_t first = begin; first < end; ++first) {
      const double before = best[first - begin].bytes;
      const auto offer = [&](std::size_t last, double bytes, std::int64_t parts) {
        if (before + bytes < best[last - begin].bytes) best[last - begin] = {before + bytes, first, parts};
      };
      offer(first + 1, untiled_bytes(works_[first]), 1);
      if (works_[first].samples == 0) continue;
      for (const std::int64_t parts : ways_to_cut(works_[first].samples)) {
        double weights = 0;
        for (std::size_t last = first; last < std::min(end, first + kMostSteps); ++last) {
          const Work& work = works_[last];
          weights += work.weight_bytes;
          if (work.samples != works_[first].samples || !can_cut(work, parts) || weights > room()) break;
          if (last > first) offer(last + 1, tiled_bytes(first, last + 1, parts), parts);
        }
      }
    }
    std::vector<Tile> found;
    for (std::size_t done = end - begin; done > 0; done = best[done].first - begin)
      if (best[done].parts > 1) found.push_back(make_tile(best[done].first, begin + done, best[done].parts));
    std::ranges::reverse(found);
    return found;
  }

  Tile make_tile(std::size_t first, std::size_t last, std::int64_t parts) const {
    Tile tile{
        .first = works_[first].chosen, .last = works_[last - 1].chosen + 1, .parts = parts, .steps = {}, .inside = {}};
    for (const auto& [storage, pitch] : pitches(first, last))
      if (pitch != 0 && is_inside(static_cast<std::size_t>(storage), first, last)) tile.inside.push_back(storage);
    return tile;
  }

  /// Creates the steps of tiles. If a kernel cannot run on a part, excludes its work from tiles from now on and
  /// returns false.
  bool complete(std::vector<Tile>& tiles) {
    for (Tile& tile : tiles)
      for (Work& work : works_) {
        if (work.chosen < tile.first || work.chosen >= tile.last) continue;
        std::optional<PartOfStep> part = part_of(work, tile.parts);
        if (!part) {
          work.samples = 0;
          return false;
        }
        tile.steps.push_back(*std::move(part));
      }
    return true;
  }

  /// Whether a kernel accepts the alignment of the second part, and thereby of all.
  static bool is_taken(const StrideRule& rule, const PartOperand& part) {
    return satisfies(rule, part.operand.type, part.operand.strides, part.bytes_between);
  }

  std::optional<PartOfStep> part_of(const Work& work, std::int64_t parts) const {
    const ChosenKernel& chosen = chosen_[work.chosen];
    const Node& node = graph_.nodes()[static_cast<std::size_t>(chosen.node)];
    const std::int64_t samples = work.samples / parts;
    const auto operand = [&](ValueId v, bool by_sample) {
      TensorType type = graph_.type(v);
      if (is_weight_[index_of(v)]) return PartOperand{dense_operand(type)};
      const Shape& strides = placements_.places[index_of(v)].strides;
      if (!by_sample) return PartOperand{{type, strides}};
      type.shape.set(0, samples);
      return PartOperand{{type, normalized_strides(type, strides)},
                         static_cast<std::size_t>(samples * strides[0]) * size_of(type.dtype)};
    };
    PartOfStep part{.spec = chosen.spec, .inputs = {}, .outputs = {}};
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      if (work.by_sample[k] && is_weight_[index_of(node.inputs[k])]) return std::nullopt;  // packed, so never cut
      part.inputs.push_back(operand(node.inputs[k], work.by_sample[k]));
      part.spec.inputs[k] = part.inputs[k].operand.type;
    }
    for (std::size_t k = 0; k < node.results.size(); ++k) {
      part.outputs.push_back(operand(node.results[k], true));
      part.spec.outputs[k] = part.outputs[k].operand.type;
    }
    for (std::size_t k = 0; k < part.inputs.size(); ++k)
      if (!is_taken(chosen.kernel->input_strides(part.spec, static_cast<int>(k)), part.inputs[k])) return std::nullopt;
    for (std::size_t k = 0; k < part.outputs.size(); ++k)
      if (!is_taken(chosen.kernel->output_strides(part.spec, static_cast<int>(k)), part.outputs[k]))
        return std::nullopt;
    Target alone = target_;
    alone.threads = 1;
    if (chosen.kernel->supports(part.spec, alone)) return std::nullopt;
    return part;
  }

  const Graph& graph_;
  const std::vector<ChosenKernel>& chosen_;
  const Placements& placements_;
  const std::vector<bool>& is_weight_;
  const Target& target_;
  std::vector<Work> works_;
};

}  // namespace

std::vector<Tile> find_tiles(const Graph& graph, const std::vector<ChosenKernel>& chosen, const Placements& placements,
                             const std::vector<bool>& is_weight, const Target& target) {
  return Tiler(graph, chosen, placements, is_weight, target).find();
}

}  // namespace headroom
