// meancache: loop { v = model(x, t), next x = sampler(x, v) }
//        ->  loop { if skips[step] { v = v_last + slope (t - t_last) }
//                   else { v = model(x, t), next v_last = v, next slope = (v - v_last) / (t - t_last),
//                          next t_last = t },
//                   next x = sampler(x, v) }
//
// The velocity, after guidance, is cached, and a skipped step runs nothing of the model. It extrapolates linearly, in
// the noise level, from the last two computed velocities. MeanCache (Gao et al., 2026) also caches the velocity, but
// extrapolates by the mean velocity of the last steps, including those that were extrapolated themselves. The
// computed steps are fixed in advance. `meancache=K` computes K of them: those of spread_steps(), or of a schedule.
//
// The velocity is the one value of the model that the sampler reads. Nodes of the sampler are recognized by the
// prefix of their path.

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "passes/pass.hpp"
#include "passes/step_caches/step_cache.hpp"

namespace headroom {
namespace {

constexpr std::string_view kSampler = "sampler";

bool is_sampler(const Node& node) {
  return node.path.starts_with(kSampler) && (node.path.size() == kSampler.size() || node.path[kSampler.size()] == '.');
}

/// The computation of a velocity from a noise level.
struct Velocity {
  std::vector<bool> nodes;  // by schedule index: nodes that make it, and have no other readers
  ValueId value = kNoValue;
  ValueId level = kNoValue;  // [batch]
};

std::variant<Velocity, std::string> find_velocity(const Graph& graph, RegionId loop) {
  const std::span<const Node> nodes = graph.nodes();
  const std::vector<int> producers = find_producers(graph);
  Velocity velocity{.nodes = std::vector<bool>(nodes.size(), false)};
  std::vector<ValueId> read;
  for (const Node& node : nodes) {
    if (node.region != loop) continue;
    if (node.op == Op::kTimestepEmbedding && velocity.level == kNoValue && producers[index_of(node.inputs[0])] >= 0 &&
        is_sampler(nodes[static_cast<std::size_t>(producers[index_of(node.inputs[0])])]))
      velocity.level = node.inputs[0];
    if (!is_sampler(node)) continue;
    for (const ValueId input : node.inputs) {
      const int maker = producers[index_of(input)];
      const bool of_model = maker >= 0 && nodes[static_cast<std::size_t>(maker)].region == loop &&
                            !is_sampler(nodes[static_cast<std::size_t>(maker)]);
      if (of_model && std::ranges::find(read, input) == read.end()) read.push_back(input);
    }
  }
  if (read.size() != 1) return "the sampler does not read one velocity of a model";
  if (velocity.level == kNoValue) return "the model is given no noise level by the sampler";
  velocity.value = read[0];

  // In reverse order: nodes that only the velocity needs, and nodes that nothing needs.
  std::vector<bool> is_needed(graph.value_count(), false), is_read(graph.value_count(), false);
  is_needed[index_of(velocity.value)] = true;
  const auto mark_read = [&](ValueId value) { is_read[index_of(value)] = value != velocity.value; };
  std::ranges::for_each(reads_outside_nodes(graph), mark_read);
  mark_read(velocity.level);
  for (std::size_t i = nodes.size(); i-- > 0;) {
    const Node& node = nodes[i];
    const auto is_one_of = [&](const std::vector<bool>& values) {
      return std::ranges::any_of(node.results, [&](ValueId result) { return values[index_of(result)]; });
    };
    velocity.nodes[i] = node.region == loop && !is_one_of(is_read);
    if (!velocity.nodes[i])
      std::ranges::for_each(node.inputs, mark_read);
    else if (is_one_of(is_needed))
      for (const ValueId input : node.inputs) is_needed[index_of(input)] = true;
  }
  return velocity;
}

std::string as_schedule(const std::vector<bool>& computed) {
  std::string schedule;
  for (const bool is_computed : computed) schedule += is_computed ? '1' : '0';
  return schedule;
}

}  // namespace

PassOutcome meancache(Graph& graph, const Target& /*target*/, std::string_view argument) {
  const VelocityCacheOptions options = parse_velocity_cache("meancache", argument);
  const std::variant<RegionId, std::string> loop = find_step_loop(graph);
  if (const auto* reason = std::get_if<std::string>(&loop)) return outcome_of(0, *reason);
  const RegionId region = std::get<RegionId>(loop);
  const std::int64_t steps = graph.region(region).trip_count;
  const std::vector<bool> computed =
      options.schedule.empty() ? spread_steps(options.computed, steps) : steps_of_schedule(options.schedule, steps);
  const auto count = std::ranges::count(computed, true);
  if (!options.schedule.empty() && count != options.computed)
    fail_usage("switch meancache={}: of {} steps the schedule computes {}, not {}", argument, steps, count,
               options.computed);
  if (count == steps) return outcome_of(0, fmt::format("all of the {} steps are computed", steps));
  const std::variant<Velocity, std::string> found = find_velocity(graph, region);
  if (const auto* reason = std::get_if<std::string>(&found)) return outcome_of(0, *reason);
  const Velocity& velocity = std::get<Velocity>(found);

  const ValueId last = graph.add_state("meancache.last", graph.type(velocity.value));
  const ValueId slope = graph.add_state("meancache.slope", graph.type(velocity.value));
  const ValueId level = graph.add_state("meancache.level", {.shape = {}});
  ValueId distance = kNoValue;  // from the last level
  ValueId now = kNoValue;
  StepDecision decision(graph, region, {.schedule = as_schedule(computed)}, "meancache");
  skip_nodes(graph, {.loop = region, .nodes = velocity.nodes, .result = velocity.value},
             {.decide =
                  [&](Builder& b) {
                    b.set_path("meancache");
                    now = b.reshape(b.slice(velocity.level, 0, 0, 1), {});
                    distance = b.sub(now, level);
                    return decision.decide(b);
                  },
              .reuse = [&](Builder& b) { return b.add(last, b.mul(slope, distance)); },
              .keep =
                  [&](Builder& b) {
                    const ValueId steepness = b.div(b.sub(velocity.value, last), distance);
                    const ValueId zero = b.constant({0}, {});
                    // There is no slope in the first step, nor for two calls at one level, as in Heun's method.
                    const ValueId has_none = b.where(decision.is_first(), decision.is_first(), b.equal(distance, zero));
                    b.set_next(last, velocity.value);
                    b.set_next(slope, b.where(has_none, zero, steepness));
                    b.set_next(level, now);
                  }});
  return {.rewrites = 1};
}

std::optional<std::string> record_velocities(Graph& graph) {
  const std::variant<RegionId, std::string> loop = find_step_loop(graph);
  if (const auto* reason = std::get_if<std::string>(&loop)) return *reason;
  const RegionId region = std::get<RegionId>(loop);
  const std::variant<Velocity, std::string> found = find_velocity(graph, region);
  if (const auto* reason = std::get_if<std::string>(&found)) return *reason;
  const ValueId velocity = std::get<Velocity>(found).value;
  const std::int64_t steps = graph.region(region).trip_count, elements = graph.type(velocity).shape.numel();

  const ValueId all = graph.add_state(std::string(kVelocities), {.shape = {steps, elements}});
  std::vector<double> numbers(static_cast<std::size_t>(steps));
  std::iota(numbers.begin(), numbers.end(), 0.0);
  Builder b(graph);
  b.set_region(region);
  b.set_path("record");
  const ValueId table = b.constant(std::move(numbers), {steps});
  const ValueId is_now = b.equal(table, b.row(table, graph.region(region).counter));  // [steps]
  b.set_next(all, b.where(b.reshape(is_now, {steps, 1}), b.reshape(velocity, {1, elements}), all));
  graph.add_output(std::string(kVelocities), all);
  return std::nullopt;
}

}  // namespace headroom
