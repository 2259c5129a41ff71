#include "passes/step_caches/step_cache.hpp"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "base/error.hpp"

namespace headroom {
namespace {

constexpr double kNever = -1e30;  // a threshold below every distance

bool is_in_block(const Node& node, std::string_view block) {
  return node.path.starts_with(block) && (node.path.size() == block.size() || node.path[block.size()] == '.');
}

/// Follows a residual stream backwards: through sums with the output of each block, and through slices and
/// concatenations of several streams or of the rows of a batch.
class TokenStream {
 public:
  TokenStream(const Graph& graph, std::size_t begin, std::size_t end)
      : graph_(graph), producers_(find_producers(graph)), begin_(begin), end_(end) {}

  /// The value, made outside of [begin, end), from which the stream up to `value` starts; kNoValue if there is none.
  [[nodiscard]] ValueId source(ValueId value) const {
    const std::optional<Box> found = source(whole(value));
    return found && *found == whole(found->value) ? found->value : kNoValue;
  }

 private:
  /// A part of a value: along each axis the entries from `start` on.
  struct Box {
    ValueId value;
    std::vector<std::int64_t> start, size;
    bool operator==(const Box&) const = default;
  };

  [[nodiscard]] Box whole(ValueId value) const {
    const std::span<const std::int64_t> dims = graph_.type(value).shape.dims();
    return {value, std::vector<std::int64_t>(dims.size(), 0), {dims.begin(), dims.end()}};
  }

  [[nodiscard]] std::optional<Box> source(Box box) const {
    const int producer = producers_[index_of(box.value)];
    const auto place = static_cast<std::size_t>(producer);
    if (producer < 0 || place < begin_ || place >= end_) return box;
    const Node& node = graph_.nodes()[place];
    const ValueId value = box.value;
    switch (node.op) {
      case Op::kAdd:
        for (const ValueId input : node.inputs) {
          box.value = input;
          if (graph_.type(input) != graph_.type(value)) continue;
          if (std::optional<Box> found = source(box)) return found;
        }
        return std::nullopt;
      case Op::kSlice:
        box.value = node.inputs[0];
        box.start[static_cast<std::size_t>(node.attributes[attr::kAxis])] += node.attributes[attr::kStart];
        return source(std::move(box));
      case Op::kConcat:
        return source_of_parts(node, box);
      default:
        return std::nullopt;
    }
  }

  [[nodiscard]] std::optional<Box> source_of_parts(const Node& concat, const Box& box) const {
    const auto axis = static_cast<std::size_t>(concat.attributes[attr::kAxis]);
    const std::int64_t begin = box.start[axis], end = begin + box.size[axis];
    std::optional<Box> all;
    std::int64_t start = 0;
    for (const ValueId input : concat.inputs) {
      const std::int64_t next = start + graph_.type(input).shape[static_cast<int>(axis)];
      if (std::max(start, begin) < std::min(next, end)) {
        Box part = box;
        part.value = input;
        part.start[axis] = std::max(start, begin) - start;
        part.size[axis] = std::min(next, end) - std::max(start, begin);
        std::optional<Box> found = source(std::move(part));
        if (!found || (all && !append(*all, *found))) return std::nullopt;
        if (!all) all = std::move(found);
      }
      start = next;
    }
    return all;
  }

  /// Whether `next` follows `box` along an axis and is as large along all others; then `box` becomes both.
  [[nodiscard]] static bool append(Box& box, const Box& next) {
    Box both = box;
    for (std::size_t axis = 0; axis < box.start.size(); ++axis) {
      if (next.start[axis] != box.start[axis] + box.size[axis]) continue;
      both.size[axis] += next.size[axis];
      Box expected = box;
      expected.start[axis] = next.start[axis];
      expected.size[axis] = next.size[axis];
      if (!(expected == next)) return false;
      box = std::move(both);
      return true;
    }
    return false;
  }

  const Graph& graph_;
  std::vector<int> producers_;
  std::size_t begin_;
  std::size_t end_;
};

/// The reads of some nodes' values by other nodes, or by outputs and regions.
struct Read {
  std::vector<ValueId> values;
  std::vector<std::size_t> readers;  ///< by schedule index
  bool is_read_elsewhere = false;
};
Read read_of(const Graph& graph, const std::vector<bool>& nodes) {
  std::vector<bool> is_made(graph.value_count(), false);
  for (std::size_t i = 0; i < graph.nodes().size(); ++i)
    if (nodes[i])
      for (const ValueId result : graph.nodes()[i].results) is_made[index_of(result)] = true;
  Read read;
  const auto add = [&](ValueId value) {
    if (!is_made[index_of(value)]) return false;
    if (std::ranges::find(read.values, value) == read.values.end()) read.values.push_back(value);
    return true;
  };
  for (std::size_t i = 0; i < graph.nodes().size(); ++i) {
    if (nodes[i]) continue;
    for (const ValueId input : graph.nodes()[i].inputs)
      if (add(input) && (read.readers.empty() || read.readers.back() != i)) read.readers.push_back(i);
  }
  for (const ValueId value : reads_outside_nodes(graph)) read.is_read_elsewhere = add(value) || read.is_read_elsewhere;
  return read;
}

/// Finds the positions of the blocks in the loop, which must follow each other.
std::optional<std::string> find_places(const Graph& graph, BlockLoop& found) {
  const std::span<const Node> nodes = graph.nodes();
  const auto last_of = [&](std::string_view block) {
    std::size_t end = nodes.size();
    while (end > 0 && !is_in_block(nodes[end - 1], block)) --end;
    return end;
  };
  found.begin = static_cast<std::size_t>(
      std::ranges::find_if(nodes, [&](const Node& node) { return is_in_block(node, graph.blocks().front()); }) -
      nodes.begin());
  found.rest = last_of(graph.blocks().front());
  found.end = last_of(graph.blocks().back());
  const auto is_elsewhere = [&](const Node& node) { return node.region != found.loop; };
  if (found.begin >= found.rest || found.rest >= found.end ||
      std::any_of(nodes.begin() + static_cast<std::ptrdiff_t>(found.begin),
                  nodes.begin() + static_cast<std::ptrdiff_t>(found.end), is_elsewhere))
    return "the blocks do not follow each other in the denoise loop";
  return std::nullopt;
}

}  // namespace

std::variant<RegionId, std::string> find_step_loop(const Graph& graph) {
  RegionId loop = kNoRegion;
  for (RegionId region = kTopRegion + 1; index_of(region) < graph.regions().size(); ++region) {
    if (graph.region(region).kind == RegionKind::kLoop && loop == kNoRegion)
      loop = region;
    else
      return "there are other loops or branches next to the denoise loop, or in it: another step cache's, perhaps";
  }
  if (loop == kNoRegion) return "there is no denoise loop here";
  if (graph.region(loop).trip_count == 1) return "the loop runs once, so there is no step before to reuse";
  return loop;
}

std::variant<BlockLoop, std::string> find_block_loop(const Graph& graph) {
  const std::variant<RegionId, std::string> loop = find_step_loop(graph);
  if (const auto* reason = std::get_if<std::string>(&loop)) return *reason;
  if (graph.blocks().size() < 2) return "the model has no row of blocks of which all but the first could be skipped";
  BlockLoop found{.loop = std::get<RegionId>(loop), .follows = std::vector<bool>(graph.nodes().size(), false)};
  if (std::optional<std::string> reason = find_places(graph, found)) return *reason;

  // The last blocks, and what cuts the stream from several that they process together or joins it from rows of a batch.
  struct Rest {
    std::vector<bool> nodes;
    std::vector<bool> follows;
    std::size_t end;
  };
  Rest rest{.nodes = std::vector<bool>(graph.nodes().size(), false), .follows = found.follows, .end = found.end};
  for (std::size_t i = found.rest; i < found.end; ++i) rest.nodes[i] = true;
  Read read = read_of(graph, rest.nodes);
  const auto is_cut = [&](const Read& last) {
    const auto is = [&](std::size_t reader, Op op) {
      return graph.nodes()[reader].op == op && graph.nodes()[reader].region == found.loop;
    };
    if (last.is_read_elsewhere || last.readers.empty()) return false;
    if (last.values.size() == 1) return std::ranges::all_of(last.readers, [&](auto i) { return is(i, Op::kSlice); });
    return last.readers.size() == 1 && is(last.readers[0], Op::kConcat) &&
           std::ranges::is_permutation(graph.nodes()[last.readers[0]].inputs, last.values);
  };
  Rest longer = rest;
  for (Read next = read; is_cut(next);) {
    for (const std::size_t reader : next.readers) {
      longer.nodes[reader] = longer.follows[reader] = true;
      longer.end = std::max(longer.end, reader + 1);
    }
    next = read_of(graph, longer.nodes);
    if (next.values.size() != 1) continue;  // slices that are not joined belong to what follows
    rest = longer;
    read = next;
  }
  found.follows = rest.follows;
  if (read.values.size() != 1) return "what follows the blocks reads more of them than one stream";
  found.leaves = read.values[0];
  found.passes = TokenStream(graph, found.rest, rest.end).source(found.leaves);
  if (found.passes != kNoValue) found.enters = TokenStream(graph, found.begin, found.rest).source(found.passes);
  const auto is_stream = [&](ValueId value) {
    return value != kNoValue && graph.type(value) == graph.type(found.leaves);
  };
  if (!is_stream(found.passes) || !is_stream(found.enters) || found.enters == found.passes)
    return "no residual stream goes through all of the blocks";
  return found;
}

void skip_nodes(Graph& graph, const Skipped& skipped, const Instead& instead) {
  std::vector<bool> is_after(graph.value_count(), false);
  std::vector<Node> head, before, inside, after, tail;
  std::vector<Node> nodes = graph.take_nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Node& node = nodes[i];
    if (node.region != skipped.loop) {
      (before.empty() && inside.empty() && after.empty() ? head : tail).push_back(std::move(node));
      continue;
    }
    const bool needs = std::ranges::any_of(node.inputs, [&](ValueId input) { return is_after[index_of(input)]; });
    if (skipped.nodes[i] || needs)
      for (const ValueId result : node.results) is_after[index_of(result)] = true;
    (skipped.nodes[i] ? inside : needs ? after : before).push_back(std::move(node));
  }
  const auto redirect = [&](ValueId from, ValueId to) {
    graph.replace_uses(from, to);  // by readers that are not nodes; the schedule is here
    for (Node& node : after) std::ranges::replace(node.inputs, from, to);
  };
  const ValueId later = graph.add_result(graph.type(skipped.result));  // until the region's result exists
  redirect(skipped.result, later);

  Builder b(graph);
  b.set_region(skipped.loop);
  const ValueId hit = instead.decide(b);
  std::vector<Node> decision = graph.take_nodes();
  const RegionId then = graph.add_then(skipped.loop, hit);
  const RegionId otherwise = graph.add_else(then);
  b.set_region(then);
  const ValueId reused = instead.reuse(b);
  std::vector<Node> reusing = graph.take_nodes();
  b.set_region(otherwise);
  instead.keep(b);
  std::vector<Node> keeping = graph.take_nodes();
  for (Node& node : inside) node.region = otherwise;
  redirect(later, graph.add_region_result(then, reused, skipped.result));

  std::vector<Node> schedule;
  for (std::vector<Node>* const part : {&head, &before, &decision, &reusing, &inside, &keeping, &after, &tail})
    std::ranges::move(*part, std::back_inserter(schedule));
  graph.set_nodes(std::move(schedule));
}

StepDecision::StepDecision(Graph& graph, RegionId loop, StepCacheOptions options, std::string name)
    : graph_(graph),
      loop_(loop),
      options_(std::move(options)),
      name_(std::move(name)),
      steps_(graph.region(loop).trip_count) {}

/// Thresholds by step: one below all distances if the step is always computed.
std::vector<double> StepDecision::thresholds() const {
  std::vector<double> thresholds(static_cast<std::size_t>(steps_), options_.threshold);
  for (std::int64_t step = 0; step < steps_; ++step)
    if (step < options_.warmup || step >= steps_ - options_.last) thresholds[static_cast<std::size_t>(step)] = kNever;
  return thresholds;
}

ValueId StepDecision::decide(Builder& b, ValueId distance) {
  const ValueId counter = graph_.region(loop_).counter;
  const auto table = [&](std::vector<double> values) { return b.constant(std::move(values), {steps_}); };
  const auto number = [&](double value) { return b.constant({value}, {}); };
  std::vector<double> numbers(static_cast<std::size_t>(steps_));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  const ValueId all_steps = table(std::move(numbers));
  const ValueId step = b.row(all_steps, counter);
  is_first_ = b.equal(step, number(0));

  ValueId run = kNoValue;  // consecutive hits so far
  if (options_.run > 0 || options_.forecasts) run = graph_.add_state(name_ + ".run", {.shape = {}});
  ValueId hit = kNoValue;
  if (!options_.schedule.empty()) {
    std::vector<double> is_reused;
    for (const bool computed : steps_of_schedule(options_.schedule, steps_)) is_reused.push_back(computed ? 0 : 1);
    hit = b.less(number(0.5), b.row(table(std::move(is_reused)), counter));
  } else {
    ValueId threshold = b.row(table(thresholds()), counter);
    if (options_.run > 0)
      threshold = b.where(b.less(run, number(static_cast<double>(options_.run))), threshold, number(kNever));
    hit = b.less_equal(distance, threshold);
  }
  if (run != kNoValue) {
    since_ = b.where(is_first_, number(1), b.add_scalar(run, 1));
    b.set_next(run, b.where(hit, since_, number(0)));
  }
  const ValueId is_now = b.equal(all_steps, step);  // [steps]
  const auto note = [&](std::string_view output, ValueId now) {
    const ValueId state = graph_.add_state(fmt::format("{}.{}", name_, output), {.shape = {steps_}});
    b.set_next(state, b.where(is_now, now, state));
    graph_.add_output(std::string(output), state);
  };
  note(kComputedSteps, b.where(hit, number(0), number(1)));
  if (distance != kNoValue) note(kCacheDistances, b.where(is_first_, number(0), distance));
  return hit;
}

KeptTensor::KeptTensor(Graph& graph, const std::string& name, const TensorType& type, bool forecasts)
    : value_(graph.add_state(name, type)) {
  if (forecasts) slope_ = graph.add_state(name + "_slope", type);
}

ValueId KeptTensor::read(Builder& b, const StepDecision& decision) const {
  return slope_ == kNoValue ? value_ : b.add(value_, b.mul(slope_, decision.steps_since()));
}

void KeptTensor::keep(Builder& b, const StepDecision& decision, ValueId value) const {
  b.set_next(value_, value);
  if (slope_ == kNoValue) return;
  // There is no slope in the first step, whatever an earlier request has left.
  const ValueId slope = b.div(b.sub(value, value_), decision.steps_since());
  b.set_next(slope_, b.where(decision.is_first(), b.constant({0}, {}), slope));
}

ValueId relative_distance(Builder& b, ValueId now, ValueId before) {
  // By row first: that reduction is fused with the op that makes x; the rest is one short row.
  const auto mean_of_all = [&](ValueId x) { return b.mean(b.reshape(b.mean(x, {-1}), {-1}), {0}); };
  return b.div(mean_of_all(b.abs(b.sub(now, before))), mean_of_all(b.abs(before)));
}

}  // namespace headroom
