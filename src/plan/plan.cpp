#include "plan/plan.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "plan/arena.hpp"
#include "plan/lanes.hpp"
#include "plan/region_ends.hpp"
#include "plan/tiling.hpp"
#include "plan/weight_key.hpp"

namespace headroom {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const DeviceTarget& target, const PlanOptions& options, PreparedKernels& prepared)
      : is_weight_(options.folds_weights ? find_weight_values(graph) : std::vector<bool>(graph.value_count(), false)),
        options_(options),
        prepared_(prepared),
        weights_(program_, graph) {
    program_.graph = graph;
    program_.target = target;
    program_.has_arena = options.arena;
    program_.has_graph = options.graph;
  }

  Program run(std::span<const Kernel* const> kernels, std::span<const RefusedWork> refused) {
    chosen_ = choose_kernels(program_.graph, is_weight_, program_.target, kernels, refused);
    placements_.emplace(place_values(program_.graph, chosen_, is_weight_,
                                     {.arena = options_.arena, .outputs_apart = options_.outputs_apart}));
    if (options_.tile) tiles_ = find_tiles(program_.graph, chosen_, *placements_, is_weight_, program_.target);
    program_.storages = placements_->storages;
    program_.places = placements_->places;
    program_.elided = static_cast<int>(std::ranges::count(placements_->elided, true));
    program_.root = make_segment();
    if (options_.lanes > 1) spread_over_lanes(program_, options_.lanes);
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

  /// The steps of the region that begins now, with its nested regions as children.
  Segment make_segment() {
    const Region& region = program_.graph.region(placements_->timeline.moments()[next_++].region);
    Segment segment{.trip_count = region.trip_count, .first = step_count()};
    if (region.kind == RegionKind::kLoop) {
      segment.kind = SegmentKind::kLoop;
      segment.counter = program_.places[index_of(region.counter)];
    }
    int straight = step_count();
    const auto close_straight = [&](int end) {
      if (straight < end) segment.children.push_back({.first = straight, .last = end});
    };
    while (true) {
      const Moment& moment = placements_->timeline.moments()[next_];
      if (moment.kind == Moment::Kind::kEnd) break;
      if (moment.kind == Moment::Kind::kNode) {
        ++next_;
        add_step(static_cast<std::size_t>(moment.node));
        close_tile(static_cast<std::size_t>(moment.node) + 1);
        continue;
      }
      const bool is_loop = program_.graph.region(moment.region).kind == RegionKind::kLoop;
      Segment child = is_loop ? make_segment() : make_if(moment.region);
      if (child.first == child.last) continue;
      close_straight(child.first);
      straight = child.last;
      segment.children.push_back(std::move(child));
    }
    add_copies();
    segment.last = step_count();
    if (!segment.children.empty()) close_straight(segment.last);
    return segment;
  }

  Segment make_if(RegionId then) {
    Segment segment{.kind = SegmentKind::kIf, .first = step_count()};
    const ValueId predicate = program_.graph.region(then).predicate;
    segment.predicate = place_of(predicate);
    segment.children.push_back(make_segment());
    if (placements_->timeline.moments()[next_].kind == Moment::Kind::kOtherwise) {
      const int first = step_count();
      add_copies();
      segment.children.push_back({.first = first, .last = step_count()});
    } else {
      segment.children.push_back(make_segment());
    }
    segment.last = step_count();
    return segment;
  }

  int step_count() const { return static_cast<int>(program_.steps.size()); }

  void add_step(std::size_t chosen) {
    if (placements_->elided[chosen]) return;
    ChosenKernel& choice = chosen_[chosen];
    const Node& node = node_at(chosen);
    Step step{.node = choice.node,
              .label = node.path,
              .op = node.op,
              .kernel = choice.kernel,
              .spec = choice.spec,
              .cost = choice.kernel->cost(choice.spec),
              .inputs = node.inputs,
              .outputs = node.results,
              .rejections = std::move(choice.rejections)};
    const Tile* const tile = tile_at(chosen);
    if (tile != nullptr && chosen == tile->first) open_tile(*tile);
    const PartOfStep* const part = tile == nullptr ? nullptr : &tile->steps.at(program_.tiled.back().prepared.size());
    step.prepared = part != nullptr ? prepare_part(choice, *part) : prepare_whole(choice, node);
    for (std::size_t i = 0; i < node.inputs.size(); ++i) {
      step.input_places.push_back(is_weight_[index_of(node.inputs[i])]
                                      ? weights_.place(node.inputs[i], step.prepared, i)
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
    program_.tiled.push_back(
        {.first = step_count(), .parts = tile.parts, .memory = add_storage({.kind = StorageKind::kArena})});
    for (const int inside : tile.inside) {
      Storage& storage = program_.storages[static_cast<std::size_t>(inside)];
      storage.kind = StorageKind::kPart;
      storage.bytes /= static_cast<std::size_t>(tile.parts);
    }
  }

  /// Ends the tiled run whose last node is before `chosen`.
  void close_tile(std::size_t chosen) {
    if (std::ranges::count(tiles_, chosen, &Tile::last) > 0) program_.tiled.back().last = step_count();
  }

  void set_part(Place& place, const PartOperand& operand) const {
    const bool inside = program_.storages[static_cast<std::size_t>(place.storage)].kind == StorageKind::kPart;
    place.bytes_between_parts = inside ? 0 : operand.bytes_between;
  }

  /// Assigns per-part storages their offsets in a thread's memory, and the run its memory for all threads.
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
    PlacedWork work{.spec = choice.spec};
    for (const ValueId input : node.inputs) {
      const TensorType& type = program_.graph.type(input);
      const bool weight = is_weight_[index_of(input)];
      work.inputs.push_back({type, weight ? dense_operand(type).strides : program_.places[index_of(input)].strides});
    }
    for (const ValueId result : node.results)
      work.outputs.push_back({program_.graph.type(result), program_.places[index_of(result)].strides});
    return prepared_.prepare(choice, work, program_.target);
  }

  /// Prepared separately for each thread.
  std::shared_ptr<const PreparedKernel> prepare_part(const ChosenKernel& choice, const PartOfStep& part) {
    PlacedWork work{.spec = part.spec};
    for (const PartOperand& input : part.inputs) work.inputs.push_back(input.operand);
    for (const PartOperand& output : part.outputs) work.outputs.push_back(output.operand);
    DeviceTarget alone = program_.target;
    alone.threads = 1;
    auto& prepared = program_.tiled.back().prepared.emplace_back();
    for (int thread = 0; thread < program_.target.threads; ++thread)
      prepared.push_back(prepared_.prepare(choice, work, alone, thread));
    return prepared.front();
  }

  Place place_of(ValueId v) { return is_weight_[index_of(v)] ? weights_.place(v) : program_.places[index_of(v)]; }

  int storage_count() const { return static_cast<int>(program_.storages.size()); }

  int add_storage(const Storage& storage) {
    program_.storages.push_back(storage);
    return storage_count() - 1;
  }

  /// Emits the copies at the moment at which a region ends; at the program's end also those of outputs that are no
  /// results.
  void add_copies() {
    const Moment moment = placements_->timeline.moments()[next_++];
    std::vector<Step> steps;
    for (const Assignment& copy : copies_at(program_.graph, program_.places, moment))
      steps.push_back(copy_step(copy.from, copy.to, program_.places[index_of(copy.to)]));
    if (moment.region == kTopRegion && moment.kind == Moment::Kind::kEnd) place_outputs(steps);
    std::vector<StorageCopy> copies;
    for (const Step& step : steps)
      copies.push_back({.to = step.output_places[0].storage,
                        .from = step.input_places[0].storage,
                        .index = static_cast<int>(copies.size())});
    const int spare = storage_count();
    for (const StorageCopy& copy : in_order(std::move(copies), spare)) {
      Step step = steps[static_cast<std::size_t>(copy.index)];
      if (copy.to == storage_count())
        add_storage({.kind = StorageKind::kArena, .bytes = program_.graph.type(step.inputs[0]).bytes()});
      if (copy.to >= spare) step.output_places[0] = {.storage = copy.to, .strides = step.output_places[0].strides};
      if (copy.from >= spare) step.input_places[0] = {.storage = copy.from, .strides = step.output_places[0].strides};
      program_.steps.push_back(std::move(step));
    }
  }

  Step copy_step(ValueId from, ValueId to, const Place& target) {
    const Value& value = program_.graph.value(to);
    return {.label = value.kind == ValueKind::kState ? "state." + value.name : "",
            .op = Op::kReshape,
            .cost = {.bytes = 2.0 * static_cast<double>(value.type.bytes()), .flops = 0, .unit = ComputeUnit::kNone},
            .inputs = {from},
            .outputs = {to},
            .input_places = {place_of(from)},
            .output_places = {target}};
  }

  void place_outputs(std::vector<Step>& copies) {
    for (const Output& output : program_.graph.outputs()) {
      const ValueKind kind = program_.graph.value(output.value).kind;
      Place place = program_.places[index_of(output.value)];
      if (is_weight_[index_of(output.value)] || kind == ValueKind::kInput) {
        const TensorType& type = program_.graph.type(output.value);
        const StorageKind apart = options_.outputs_apart ? StorageKind::kOutput : StorageKind::kArena;
        place = {.storage = add_storage({.kind = apart, .bytes = type.bytes()}),
                 .strides = dense_operand(type).strides};
        copies.push_back(copy_step(output.value, output.value, place));
        copies.back().label = "output." + output.name;
      }
      program_.outputs.push_back(place);
    }
  }

  Program program_;
  std::vector<bool> is_weight_;
  PlanOptions options_;
  std::vector<ChosenKernel> chosen_;
  std::optional<Placements> placements_;
  std::vector<Tile> tiles_;
  std::size_t next_ = 0;  // moment of the timeline that comes next
  PreparedKernels& prepared_;
  WeightUses weights_;
};

}  // namespace

Program plan(const Graph& graph, const DeviceTarget& target, const PlanOptions& options) {
  return plan(graph, target, options, kernels_of(target.device));
}

Program plan(const Graph& graph, const DeviceTarget& target, const PlanOptions& options,
             std::span<const Kernel* const> kernels) {
  HR_CHECK(options.lanes == 1 || options.arena);  // a caching allocator reuses memory in schedule order
  HR_CHECK(!options.tile || (options.arena && options.lanes == 1));
  PreparedKernels prepared;
  std::vector<RefusedWork> refused;
  while (true) {
    try {
      Program program = Planner(graph, target, options, prepared).run(kernels, refused);
      prepared.finish();
      return program;
    } catch (Refused& again) {
      refused.push_back(std::move(again.work));
    }
  }
}

}  // namespace headroom
