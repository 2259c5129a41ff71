// fuse-qkv: q = linear(x, wq, bq), k = linear(x, wk, bk), v = linear(x, wv, bv)
//        -> qkv = linear(x, concat(wq, wk, wv), concat(bq, bk, bv)), and q, k, v are slices of its last axis
//
// One wide matmul reads x once and uses the machine better than several small ones. It merges linears without
// activation that belong to one parent module (attn.to_q, attn.to_k, ...) and read the same value. Reason for one
// parent: linears of different modules may read one value (the modulations of every block read silu(temb)). Merged,
// their weight would be so large that folding it dominates the peak memory of loading, and blocks could no longer be
// streamed one by one.
//
// fuse-conditioning: the same for linears of all blocks, with a small number of rows, up to 256 MiB of weights in 16
// bits
//
// Such a matmul is bound by reading its weight. Modulations have weights of 113 or 57 MB each, and their launch
// spends a fifth of its time on start and end (3.5 of 4.3 TB/s on an H200). Small ones, a U-Net's projections of the
// step (1 MB) and of the text (5 MB), are dominated by the launch, even with as many rows as a prompt has tokens.
// Small ones are merged across the whole network, large ones with others of the same sequence of blocks. On a device
// without launches small ones are not merged.

#include <algorithm>
#include <functional>

#include "passes/pass.hpp"
#include "passes/rewrite.hpp"

namespace headroom {
namespace {

constexpr std::size_t kMaxParts = 64;  // inputs of one concat
constexpr std::int64_t kFewRows = 16, kFewRowsOfSmall = 1024;
constexpr std::int64_t kLargeWeight = std::int64_t{16} << 20, kMostWeights = std::int64_t{128} << 20;  // elements

/// Selects from several linears those that may be merged with the first.
using Choose = std::function<void(const Rewriter& r, std::vector<const Node*>& linears)>;

/// "blocks.3.attn" of "blocks.3.attn.to_q"; empty for a module at the root.
std::string_view parent_of(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

/// Whether the node is a linear of some module, without epilogue, whose weights can be joined, and which is not a
/// weight itself. Weights are made once, one by one, and the operands of the next may not be available yet.
bool is_projection(const Rewriter& r, const Node& node) {
  return node.op == Op::kLinear && node.attributes[attr::kEpilogue].is_empty() && !node.path.empty() &&
         !r.is_weight(node.results[0]) &&
         std::all_of(node.inputs.begin() + 1, node.inputs.end(), [&](ValueId weight) { return r.is_weight(weight); });
}

/// The path for several merged linears: "blocks" for "blocks.3.norm" and "blocks.4.norm". If no module contains them
/// all, it is their common last name, "norm" for "down.norm" and "up.0.norm". If they share neither, it is the
/// first's own path, which is not empty, as no projection's is.
std::string common_path(const std::vector<const Node*>& linears) {
  const std::string& first = linears.front()->path;
  std::string parent(parent_of(first));
  const auto holds = [&](const Node* linear) { return parent.empty() || linear->path.starts_with(parent + "."); };
  while (!std::ranges::all_of(linears, holds)) parent = parent_of(parent);
  if (!parent.empty()) return parent;
  std::string_view end = first;
  const auto ends_so = [&](const Node* linear) {
    const std::string_view path = linear->path;
    return path == end || (path.ends_with(end) && path[path.size() - end.size() - 1] == '.');
  };
  while (!std::ranges::all_of(linears, ends_so)) {
    const std::size_t dot = end.find('.');
    if (dot == std::string_view::npos) return first;
    end.remove_prefix(dot + 1);
  }
  return std::string(end);
}

/// Whether the rows of b's weight and bias can be appended to those of a, for one x.
bool are_mergeable(const Rewriter& r, const Node& a, const Node& b) {
  const auto same_dtype = [&](ValueId of_a, ValueId of_b) { return r.type(of_a).dtype == r.type(of_b).dtype; };
  return a.input(Role::kX) == b.input(Role::kX) && a.region == b.region &&
         std::ranges::equal(a.inputs, b.inputs, same_dtype);
}

void choose_of_module(const Rewriter& /*r*/, std::vector<const Node*>& linears) {
  const std::string parent(parent_of(linears.front()->path));
  std::erase_if(linears, [&](const Node* other) { return parent_of(other->path) != parent; });
}

void choose_thin(const Rewriter& r, std::vector<const Node*>& linears, bool takes_small) {
  const auto root_of = [](const Node* linear) { return linear->path.substr(0, linear->path.find('.')); };
  const auto elements_of = [&](const Node* linear) { return r.shape(linear->input(Role::kWeight)).numel(); };
  const auto rows_of = [&](const Node* linear) {
    return r.shape(linear->input(Role::kX)).numel() / r.shape(linear->input(Role::kWeight))[1];
  };
  const std::string root = root_of(linears.front());
  const bool is_large = elements_of(linears.front()) >= kLargeWeight;
  const std::int64_t most_rows = is_large ? kFewRows : takes_small ? kFewRowsOfSmall : 0;
  if (rows_of(linears.front()) > most_rows) return linears.clear();
  std::int64_t taken = 0;
  std::erase_if(linears, [&](const Node* linear) {
    const std::int64_t elements = elements_of(linear);
    const bool is_other = (elements >= kLargeWeight) != is_large || (is_large && root_of(linear) != root);
    if (is_other || taken + elements > kMostWeights) return true;
    taken += elements;
    return false;
  });
}

/// One operand of every linear, joined along the outermost axis: rows of weights, elements of biases.
ValueId join(Rewriter& r, const std::vector<const Node*>& linears, Role role, const std::string& path) {
  std::vector<ValueId> parts;
  for (const Node* linear : linears) parts.push_back(linear->input(role));
  return r.emit(Op::kConcat, std::move(parts), {{attr::kAxis, 0}}, path);
}

bool merge(Rewriter& r, const Node& first, const Choose& choose) {
  if (!is_projection(r, first)) return false;
  std::vector<const Node*> linears = r.readers_from_here(first.input(Role::kX));  // `first` among them
  std::erase_if(linears,
                [&](const Node* other) { return !is_projection(r, *other) || !are_mergeable(r, first, *other); });
  choose(r, linears);
  if (linears.size() > kMaxParts) linears.resize(kMaxParts);
  if (linears.size() < 2) return false;

  const std::string path = common_path(linears);
  std::vector<ValueId> inputs = {first.input(Role::kX), join(r, linears, Role::kWeight, path)};  // weight[sum of n, k]
  if (first.input(Role::kBias) != kNoValue) inputs.push_back(join(r, linears, Role::kBias, path));  // bias[sum of n]
  const ValueId merged = r.emit(Op::kLinear, std::move(inputs), {}, path);                          // [..., sum of n]

  const std::int64_t axis = r.shape(merged).rank() - 1;
  std::int64_t start = 0;
  for (const Node* linear : linears) {
    const std::int64_t size = r.shape(linear->results[0])[-1];
    const ValueId part =  // [..., n]
        r.emit(Op::kSlice, {merged}, {{attr::kAxis, axis}, {attr::kStart, start}, {attr::kExtent, size}}, linear->path);
    r.replace(linear->results[0], part);
    start += size;
  }
  return true;
}

}  // namespace

PassOutcome fuse_qkv(Graph& graph, const Target&) {
  return {.rewrites =
              rewrite_each(graph, [](Rewriter& r, const Node& node) { return merge(r, node, choose_of_module); })};
}

PassOutcome fuse_conditioning(Graph& graph, const Target& target) {
  const Choose choose = [has_launches = target.device->has_launches](const Rewriter& r,
                                                                     std::vector<const Node*>& linears) {
    choose_thin(r, linears, /*takes_small=*/has_launches);
  };
  return {.rewrites = rewrite_each(graph, [&](Rewriter& r, const Node& node) { return merge(r, node, choose); })};
}

}  // namespace headroom
