// fbcache: loop { y = block0(x), z = blocks(y), f(z) }
//      ->  loop { y = block0(x), r = y - x, if |r - anchor| <= T |anchor| { z = y + rest }
//                 else { z = blocks(y), next rest = z - y, next anchor = r }, f(z) }
//
// First-block cache (ParaAttention, 2024; diffusers' FirstBlockCache). The first block runs in every step. Its change
// of the residual stream predicts whether the other blocks would do the same as in the last step that ran them. If
// so, their total change of that step is added again. Distances are means of magnitudes over the whole batch: its
// images share one decision, and so do the two passes of classifier-free guidance, which are one batch. diffusers
// runs these passes one after the other, each with its own decision. Tokens of a reference image count as the
// image's. Text tokens are not kept if nothing reads them after the blocks.
//
// As in diffusers, a step at exactly the threshold is a hit. By default only the first step is warm-up, no step at
// the end is always computed, and runs of hits are unlimited; the switch can change each. This pass runs first, so
// that the skipped part is fused, hoisted and rounded like the rest. Two tensors of the stream's size are held during
// the loop, in f32; with taylor=1 a third.

#include "passes/pass.hpp"
#include "passes/step_caches/step_cache.hpp"

namespace headroom {

PassOutcome fbcache(Graph& graph, const Target& /*target*/, std::string_view argument) {
  const StepCacheOptions options = parse_step_cache("fbcache", argument);
  const std::variant<BlockLoop, std::string> found = find_block_loop(graph);
  if (const auto* reason = std::get_if<std::string>(&found)) return outcome_of(0, *reason);
  const BlockLoop& blocks = std::get<BlockLoop>(found);

  Skipped skipped{.loop = blocks.loop, .nodes = blocks.follows, .result = blocks.leaves};
  for (std::size_t i = blocks.rest; i < blocks.end; ++i) skipped.nodes[i] = true;

  const TensorType type = graph.type(blocks.passes);
  const ValueId anchor = graph.add_state("fbcache.anchor", type);
  const KeptTensor rest(graph, "fbcache.rest", type, options.forecasts);
  StepDecision decision(graph, blocks.loop, options, "fbcache");
  ValueId residual = kNoValue;
  skip_nodes(graph, skipped,
             {.decide =
                  [&](Builder& b) {
                    b.set_path("fbcache");
                    residual = b.sub(blocks.passes, blocks.enters);
                    return decision.decide(b, relative_distance(b, residual, anchor));
                  },
              .reuse = [&](Builder& b) { return b.add(blocks.passes, rest.read(b, decision)); },
              .keep =
                  [&](Builder& b) {
                    b.set_next(anchor, residual);
                    rest.keep(b, decision, b.sub(blocks.leaves, blocks.passes));
                  }});
  return {.rewrites = 1};
}

}  // namespace headroom
