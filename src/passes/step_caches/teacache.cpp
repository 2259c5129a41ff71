// teacache: loop { z = blocks(x), f(z) }
//       ->  loop { m = norm0(x), sum = sum + p(|m - m_before| / |m_before|), if sum <= T { z = x + rest }
//                  else { z = blocks(x), next rest = z - x, next sum = 0 }, next m_before = m, f(z) }
//
// TeaCache (Liu et al., "Timestep Embedding Tells: It's Time to Cache for Video Diffusion Model", 2024). The
// modulated output of the first block's norm predicts how much the result of the blocks will change, without running
// a block. A polynomial p, fitted to a model, maps its relative change to that of the result. The predicted changes
// are summed since the last computed step. Distances and shared decisions are those of fbcache.cpp. The first step
// and, unless the switch says otherwise, the last are computed. Without a fit the relative changes themselves are
// summed.

#include <algorithm>
#include <span>

#include "passes/pass.hpp"
#include "passes/step_caches/step_cache.hpp"

namespace headroom {
namespace {

/// The modulated output of the first block's first norm; kNoValue if the block begins otherwise.
ValueId find_modulated_input(const Graph& graph, const BlockLoop& blocks) {
  const Node* norm = nullptr;
  ValueId modulated = kNoValue;
  for (std::size_t i = blocks.begin; i < blocks.rest; ++i) {
    const Node& node = graph.nodes()[i];
    const bool reads_stream = std::ranges::find(node.inputs, blocks.enters) != node.inputs.end();
    if (norm == nullptr && reads_stream && (node.op == Op::kLayerNorm || node.op == Op::kRmsNorm)) {
      norm = &node;
      modulated = node.results[0];
    }
    const bool goes_on = norm != nullptr && node.path == norm->path && (node.op == Op::kMul || node.op == Op::kAdd) &&
                         std::ranges::find(node.inputs, modulated) != node.inputs.end();
    if (goes_on) modulated = node.results[0];
  }
  return modulated;
}

/// The nodes of the loop from `begin` to `end`, except those that `value` needs.
std::vector<bool> nodes_except(const Graph& graph, const BlockLoop& blocks, ValueId value) {
  std::vector<bool> is_needed(graph.value_count(), false);
  is_needed[index_of(value)] = true;
  std::vector<bool> chosen(graph.nodes().size(), false);
  for (std::size_t i = blocks.end; i-- > blocks.begin;) {
    const Node& node = graph.nodes()[i];
    const bool needed = std::ranges::any_of(node.results, [&](ValueId result) { return is_needed[index_of(result)]; });
    if (needed)
      for (const ValueId input : node.inputs) is_needed[index_of(input)] = true;
    else
      chosen[i] = true;
  }
  return chosen;
}

ValueId evaluate(Builder& b, std::span<const double> coefficients, ValueId x) {
  ValueId y = b.mul_scalar(x, coefficients[0]);
  for (std::size_t i = 1; i + 1 < coefficients.size(); ++i) y = b.mul(b.add_scalar(y, coefficients[i]), x);
  return b.add_scalar(y, coefficients.back());
}

}  // namespace

PassOutcome teacache(Graph& graph, const Target& /*target*/, std::string_view argument) {
  const StepCacheOptions options = parse_step_cache("teacache", argument, {.last = 1, .fit = {1, 0}});
  const std::variant<BlockLoop, std::string> found = find_block_loop(graph);
  if (const auto* reason = std::get_if<std::string>(&found)) return outcome_of(0, *reason);
  const BlockLoop& blocks = std::get<BlockLoop>(found);
  const ValueId modulated = find_modulated_input(graph, blocks);
  if (modulated == kNoValue) return outcome_of(0, "the first block does not begin with a norm of the stream");

  Skipped skipped{.loop = blocks.loop, .nodes = nodes_except(graph, blocks, modulated), .result = blocks.leaves};
  for (std::size_t i = 0; i < blocks.follows.size(); ++i) skipped.nodes[i] = skipped.nodes[i] || blocks.follows[i];

  const ValueId before = graph.add_state("teacache.before", graph.type(modulated));
  const ValueId sum = graph.add_state("teacache.sum", {.shape = {}});
  const KeptTensor rest(graph, "teacache.rest", graph.type(blocks.enters), options.forecasts);
  StepDecision decision(graph, blocks.loop, options, "teacache");
  skip_nodes(graph, skipped,
             {.decide =
                  [&](Builder& b) {
                    b.set_path("teacache");
                    const ValueId change = evaluate(b, options.fit, relative_distance(b, modulated, before));
                    const ValueId now = b.add(sum, change);
                    const ValueId hit = decision.decide(b, now);
                    b.set_next(before, modulated);
                    b.set_next(sum, b.where(hit, now, b.constant({0}, {})));
                    return hit;
                  },
              .reuse = [&](Builder& b) { return b.add(blocks.enters, rest.read(b, decision)); },
              .keep = [&](Builder& b) { rest.keep(b, decision, b.sub(blocks.leaves, blocks.enters)); }});
  return {.rewrites = 1};
}

}  // namespace headroom
