// fuse-common-subexpressions: a = silu(t), b = silu(t)  ->  a = silu(t), and b is a
//
// Nodes of equal op, attributes, inputs and layout are merged: the silu(temb) of every modulation of a diffusion
// transformer, and slices of the rope tables.

#include <algorithm>
#include <map>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

class Sharing {
 public:
  bool operator()(Rewriter& r, const Node& node) {
    std::vector<const Node*>& seen = seen_[{node.op, node.inputs}];
    const auto same = std::ranges::find_if(seen, [&](const Node* earlier) {
      const auto reads_alike_there = [&](ValueId input) {
        return reads_alike(r.graph(), input, node.region, earlier->region);
      };
      return earlier->attributes == node.attributes && r.type(earlier->results[0]) == r.type(node.results[0]) &&
             is_within(r.graph(), node.region, earlier->region) && std::ranges::all_of(node.inputs, reads_alike_there);
    });
    if (same == seen.end()) {
      seen.push_back(&node);
      return false;
    }
    for (std::size_t i = 0; i < node.results.size(); ++i) r.replace(node.results[i], (*same)->results[i]);
    return true;
  }

 private:
  std::map<std::pair<Op, std::vector<ValueId>>, std::vector<const Node*>> seen_;
};

}  // namespace

PassOutcome fuse_common_subexpressions(Graph& graph, const Target&) {
  return {.rewrites = rewrite_each(graph, Sharing())};
}

}  // namespace headroom
