#include "plan/plan.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "plan/arena.hpp"
#include "plan/choose.hpp"
#include "plan/lanes.hpp"
#include "plan/liveness.hpp"
#include "plan/placement.hpp"
#include "plan/tiling.hpp"
#include "plan/weight_key.hpp"

namespace headroom {
namespace {

using PreparedKernels = std::map<std::string, std::shared_ptr<const PreparedKernel>>;

/// Thrown to begin again: a kernel that was chosen cannot be prepared.
struct Refused {
  RefusedWork work;
};

class Planner {
 public:
  Planner(const Graph& graph, const Target& target, const PlanOptions& options, PreparedKernels& prepared)
      : is_weight_(find_weight_values(graph)),
        producers_(find_producers(graph)),
        options_(options),
        prepared_(prepared) {
    program_.graph = graph;
    program_.target = target;
    program_.has_arena = options.arena;
    program_.has_graph = options.graph;
  }

  Program run(std::span<const Kernel* const> kernels, std::span<const RefusedWork> refused) {
    chosen_ = choose_kernels(program_.graph, is_weight_, program_.target, kernels, refused);
    placements_ = place_values(program_.graph, chosen_, is_weight_, options_.arena);
    if (options_.tile) tiles_ = find_tiles(program_.graph, chosen_, placements_, is_weight_, program_.target);
    program_.storages = placements_.storages;
    program_.places = placements_.places;
    program_.elided = static_cast<int>(std::ranges::count(placements_.elided, true));
    program_.root = make_segment(kTopRegion);
    if (options_.lanes > 1) assign_lanes(program_, options_.lanes);
    find_lifetimes(program_);
    for (TiledRun& run : program_.tiled) assign_part_offsets(run);
    program_.arena_lower_bound_bytes = arena_lower_bound(program_);
    if (options_.arena) program_.arena_bytes = assign_offsets(program_.storages);
    return std::move(program_);
  }

 private:
  const Node& node_at(std::size_t chosen) const {
    return program_.graph.nodes()[static_cast<std::size_t>(chosen_[chosen].node)];
  }

  /// The region's steps from where the schedule stands, its nested regions as children.
  Segment make_segment(RegionId id) {
    const Region& region = program_.graph.regions()[static_cast<std::size_t>(id)];
    Segment segment{.kind = region.kind,
                    .trip_count = region.trip_count,
                    .first = step_count(),
                    .last = 0,
                    .counter = region.counter,
                    .children = {}};
    int straight = step_count();
    const auto close_straight = [&] {
      if (straight < step_count())
        segment.children.push_back({.first = straight, .last = step_count(), .children = {}});
    };
    while (next_ < chosen_.size()) {
      const RegionId inner = child_containing(id, node_at(next_).region);
      if (inner < 0) break;
      if (inner == id) {
        add_step(next_);
        close_tile(++next_);
        continue;
      }
      close_straight();
      segment.children.push_back(make_segment(inner));
      straight = step_count();
    }
    copy_states(id);
    segment.last = step_count();
    if (!segment.children.empty()) close_straight();
    return segment;
  }

  int step_count() const { return static_cast<int>(program_.steps.size()); }

  /// `region` itself, the child of `region` that `node_region` lies in, or -1 where it lies outside.
  RegionId child_containing(RegionId region, RegionId node_region) const {
    for (RegionId r = node_region; r >= 0; r = program_.graph.regions()[static_cast<std::size_t>(r)].parent) {
      if (r == region) return r;
      if (program_.graph.regions()[static_cast<std::size_t>(r)].parent == region) return r;
    }
    return -1;
  }

  void add_step(std::size_t chosen) {
    if (placements_.elided[chosen]) return;
    ChosenKernel& choice = chosen_[chosen];
    const Node& node = node_at(chosen);
    Step step{.node = choice.node,
              .label = node.path,
              .op = node.op,
              .kernel = choice.kernel,
              .prepared = nullptr,
              .spec = choice.spec,
              .cost = choice.kernel->cost(choice.spec),
              .inputs = node.inputs,
              .outputs = node.results,
              .input_places = {},
              .output_places = {},
              .scratch = -1,
              .rejections = std::move(choice.rejections)};
    const Tile* const tile = tile_at(chosen);
    if (tile != nullptr && chosen == tile->first) open_tile(*tile);
    const PartOfStep* const part = tile == nullptr ? nullptr : &tile->steps.at(program_.tiled.back().prepared.size());
    step.prepared = part != nullptr ? prepare_part(choice, *part) : prepare_whole(choice, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      step.input_places.push_back(is_weight_[index_of(node.inputs[i])] ? weight_place(step, i)
                                                                       : program_.places[index_of(node.inputs[i])]);
      if (part != nullptr) set_part(step.input_places.back(), part->inputs[i]);
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      step.output_places.push_back(program_.places[index_of(node.results[i])]);
      if (part != nullptr) set_part(step.output_places.back(), part->outputs[i]);
    }
    if (const std::size_t bytes = step.prepared->scratch_bytes(); bytes > 0)
      step.scratch =
          add_storage({.kind = part != nullptr ? StorageKind::kPart : StorageKind::kScratch, .bytes = bytes});
    program_.steps.push_back(std::move(step));
  }

  const Tile* tile_at(std::size_t chosen) const {
    const auto found =
        std::ranges::find_if(tiles_, [&](const Tile& tile) { return tile.first <= chosen && chosen < tile.last; });
    return found == tiles_.end() ? nullptr : &*found;
  }

  void open_tile(const Tile& tile) {
    program_.tiled.push_back({.first = step_count(), .last = 0, .parts = tile.parts, .prepared = {}});
    program_.tiled.back().memory = add_storage({.kind = StorageKind::kArena});
    for (const int inside : tile.inside) {
      Storage& storage = program_.storages[static_cast<std::size_t>(inside)];
      storage.kind = StorageKind::kPart;
      storage.bytes /= static_cast<std::size_t>(tile.parts);
    }
  }

  /// Ends the tiled run that ends before `chosen`.
  void close_tile(std::size_t chosen) {
    if (std::ranges::count(tiles_, chosen, &Tile::last) > 0) program_.tiled.back().last = step_count();
  }

  void set_part(Placement& place, const PartOperand& operand) const {
    const bool inside = program_.storages[static_cast<std::size_t>(place.storage)].kind == StorageKind::kPart;
    place.bytes_between_parts = inside ? 0 : operand.bytes_between;
  }

  /// Gives what is of a part its place in a thread's memory, and the run memory for all threads.
  void assign_part_offsets(TiledRun& run) {
    std::vector<int> parts;
    std::vector<Storage> storages;  // as if they were the whole arena
    for (int s = 0; s < static_cast<int>(program_.storages.size()); ++s) {
      const Storage& storage = program_.storages[static_cast<std::size_t>(s)];
      if (storage.kind != StorageKind::kPart || storage.first < run.first || storage.first >= run.last) continue;
      parts.push_back(s);
      storages.push_back(storage);
      storages.back().kind = StorageKind::kArena;
    }
    run.thread_bytes = assign_offsets(storages);
    for (std::size_t i = 0; i < parts.size(); ++i)
      program_.storages[static_cast<std::size_t>(parts[i])].arena_offset = storages[i].arena_offset;
    program_.storages[static_cast<std::size_t>(run.memory)].bytes =
        run.thread_bytes * static_cast<std::size_t>(program_.target.threads);
  }

  std::shared_ptr<const PreparedKernel> prepare_whole(const ChosenKernel& choice, const Node& node) {
    std::vector<Operand> inputs, outputs;
    for (const ValueId input : node.inputs) {
      const TensorType& type = program_.graph.type(input);
      const bool weight = is_weight_[index_of(input)];
      inputs.push_back({type, weight ? row_major_strides(type.shape) : program_.places[index_of(input)].strides});
    }
    for (const ValueId result : node.results)
      outputs.push_back({program_.graph.type(result), program_.places[index_of(result)].strides});
    return prepare(choice, choice.spec, inputs, outputs, program_.target, 0);
  }

  /// For one thread alone, once for each thread.
  std::shared_ptr<const PreparedKernel> prepare_part(const ChosenKernel& choice, const PartOfStep& part) {
    std::vector<Operand> inputs, outputs;
    for (const PartOperand& input : part.inputs) inputs.push_back(input.operand);
    for (const PartOperand& output : part.outputs) outputs.push_back(output.operand);
    Target alone = program_.target;
    alone.threads = 1;
    auto& prepared = program_.tiled.back().prepared.emplace_back();
    for (int thread = 0; thread < program_.target.threads; ++thread)
      prepared.push_back(prepare(choice, part.spec, inputs, outputs, alone, thread));
    return prepared.front();
  }

  /// Kernels of equal work are prepared once for each copy: a model of 57 equal blocks asks for a few dozen.
  std::shared_ptr<const PreparedKernel> prepare(const ChosenKernel& choice, const OpSpec& spec,
                                                const std::vector<Operand>& inputs, const std::vector<Operand>& outputs,
                                                const Target& target, int copy) {
    std::string key = fmt::format("{} on {}, copy {}", choice.kernel->name(), target.threads, copy);
    for (const auto& [name, attribute] : spec.attributes.all())
      key += std::visit([&](const auto& value) { return fmt::format("|{}={}", name, text_of(value)); }, attribute);
    for (const auto* operands : {&inputs, &outputs})
      for (const Operand& operand : *operands)
        key += fmt::format("|{}{}{}", operand.type.dtype, operand.type.shape, operand.strides);
    for (const bool weight : spec.is_weight) key += weight ? 'w' : '.';
    std::shared_ptr<const PreparedKernel>& prepared = prepared_[key];
    try {
      if (!prepared) prepared = choice.kernel->prepare(spec, inputs, outputs, target);
    } catch (const CannotPrepare& error) {
      throw Refused{{.kernel = choice.kernel, .spec = choice.spec, .reason = error.what()}};
    }
    return prepared;
  }

  template <typename T>
  static std::string text_of(const T& value) {
    if constexpr (std::is_same_v<T, std::vector<std::int64_t>>)
      return Shape(value).to_string();
    else
      return fmt::format("{}", value);
  }

  Placement weight_place(const Step& step, std::size_t input) {
    const ValueId value = step.inputs[input];
    WeightUse use{.value = value,
                  .key = key_of(value),
                  .layout = {},
                  .bytes = program_.graph.type(value).bytes(),
                  .storage = -1,
                  .packer = nullptr,
                  .packed_index = 0};
    const std::span<const PackedWeight> packed = step.prepared->packed_weights();
    for (std::size_t p = 0; p < packed.size(); ++p) {
      if (packed[p].input != static_cast<int>(input)) continue;
      use.layout = packed[p].layout;
      use.bytes = packed[p].bytes;
      use.packer = step.prepared;
      use.packed_index = p;
    }
    const auto [known, inserted] = weight_storages_.try_emplace({use.key, use.layout}, -1);
    if (inserted) {
      known->second = add_storage({.kind = StorageKind::kWeight, .bytes = use.bytes});
      use.storage = known->second;
      program_.weights.push_back(std::move(use));
    }
    return {
        .storage = known->second, .offset_bytes = 0, .strides = row_major_strides(program_.graph.type(value).shape)};
  }

  const std::string& key_of(ValueId value) {
    std::string& key = weight_keys_[value];
    if (key.empty()) key = weight_key(program_.graph, producers_, value);
    return key;
  }

  int add_storage(const Storage& storage) {
    program_.storages.push_back(storage);
    return static_cast<int>(program_.storages.size()) - 1;
  }

  void copy_states(RegionId region) {
    for (std::size_t u = 0; u < program_.graph.state_updates().size(); ++u) {
      const StateUpdate& update = program_.graph.state_updates()[u];
      if (update.region != region || placements_.state_in_place[u] || update.next == update.value) continue;
      Step step{.node = -1,
                .label = "state." + program_.graph.value(update.value).name,
                .op = Op::kReshape,
                .kernel = nullptr,
                .prepared = nullptr,
                .spec = {},
                .cost = {.bytes = 2.0 * static_cast<double>(program_.graph.type(update.value).bytes()),
                         .flops = 0,
                         .unit = ComputeUnit::kNone},
                .inputs = {update.next},
                .outputs = {update.value},
                .input_places = {program_.places[index_of(update.next)]},
                .output_places = {program_.places[index_of(update.value)]},
                .scratch = -1,
                .rejections = {}};
      program_.steps.push_back(std::move(step));
    }
  }

  Program program_;
  std::vector<bool> is_weight_;
  std::vector<int> producers_;
  PlanOptions options_;
  std::vector<ChosenKernel> chosen_;
  Placements placements_;
  std::vector<Tile> tiles_;
  std::size_t next_ = 0;  // index in chosen_ of the node scheduled next
  PreparedKernels& prepared_;
  std::map<std::pair<std::string, std::string>, int> weight_storages_;
  std::map<ValueId, std::string> weight_keys_;
};

}  // namespace

Program plan(const Graph& graph, const Target& target, const PlanOptions& options) {
  return plan(graph, target, options, kernels_of(target.device));
}

Program plan(const Graph& graph, const Target& target, const PlanOptions& options,
             std::span<const Kernel* const> kernels) {
  HR_CHECK(options.lanes == 1 || options.arena);  // a caching allocator hands memory on in schedule order
  HR_CHECK(!options.tile || (options.arena && options.lanes == 1));
  PreparedKernels prepared;
  std::vector<RefusedWork> refused;
  while (true) {
    try {
      return Planner(graph, target, options, prepared).run(kernels, refused);
    } catch (Refused& again) {
      refused.push_back(std::move(again.work));
    }
  }
}

}  // namespace headroom
