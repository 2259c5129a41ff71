// cp=N: attention(q, k, v) over all tokens, on one rank
//   ->  all_to_all(attention(all_to_all(q), all_to_all(k), all_to_all(v))) over a share of the tokens, on each of N
//
// The graph of one rank is made of that of a whole pass. Tokens are those of inputs and states that the pipeline names:
// each rank takes its share of their entries, and computes on it whatever treats tokens alike. Only three things need
// other ranks:
//  - attention. Groups of U ranks exchange heads for tokens (all_to_all: queries, keys and values before, results
//    after), so that each has some heads of all tokens of its group. The groups form a ring: keys and values go from
//    one to the next (shift), and results are merged by their logarithms of sums. Of N ranks, U x R = N; by default U
//    is the largest divisor of N that also divides the heads, so that all ranks have equally many.
//  - reductions over tokens, as the distances of step caches: partial ones, and an all_reduce. So all ranks decide
//    alike.
//  - what must be whole: outputs, and states that a pipeline sets. An all_gather joins them, as the latents after each
//    step.
// Values that no share is taken of (modulations, tables of rotations) are computed by every rank; of those that meet
// tokens a rank takes the rows of its own. States of step caches are kept in shares.
//
// Attention must be one op, so flash-attention runs first in any case. Exact: sums are in another order.

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"
#include "passes/pass.hpp"
#include "passes/ranks/sharing_rules.hpp"
#include "passes/ranks/token_sharing.hpp"

namespace headroom {

PassOutcome flash_attention(Graph& graph, const Target& target);

namespace {

using enum Sharing::Kind;

/// How ranks have the values of a graph.
class SharingAnalysis {
 public:
  SharingAnalysis(const Graph& graph, const TokenSharing& sharing)
      : graph_(graph), sharings_(graph.value_count()), gathers_(graph.value_count(), false) {
    for (const ValueId state : graph.values_of(ValueKind::kState)) sharings_[index_of(state)] = {.kind = kUnknown};
    for (const Region& region : graph.regions())
      for (const RegionResult& result : region.results) sharings_[index_of(result.value)] = {.kind = kUnknown};
    for (const auto& [name, axis, stretches] : sharing.tokens) {
      for (const ValueKind kind : {ValueKind::kInput, ValueKind::kState}) {
        const ValueId tokens = graph.find(kind, name);
        if (tokens == kNoValue) continue;
        is_whole_.push_back(tokens);
        const Ints all = {graph.type(tokens).shape[axis]};
        sharings_[index_of(tokens)] = {.kind = kShared, .axis = axis, .stretches = stretches.empty() ? all : stretches};
      }
    }
    do {
      has_changed_ = false;
      visit();
    } while (has_changed_);
    for (Sharing& value : sharings_)
      if (value.kind == kUnknown) value = {};
  }

  /// The sharing with which nodes compute. Values that the pipeline names are in memory whole.
  [[nodiscard]] const Sharing& operator[](ValueId value) const { return sharings_[index_of(value)]; }
  [[nodiscard]] bool is_whole_in_memory(ValueId value) const {
    return !(*this)[value].is_shared() || std::ranges::find(is_whole_, value) != is_whole_.end();
  }
  /// Whether outputs and the ends of regions need all of a value that nodes share.
  [[nodiscard]] bool gathers(ValueId value) const { return gathers_[index_of(value)]; }

  [[nodiscard]] SharedNode share(const Node& node) const {
    std::vector<Sharing> operands;
    std::vector<TensorType> types;
    for (const ValueId input : node.inputs) {
      operands.push_back((*this)[input]);
      types.push_back(graph_.type(input));
    }
    return share_node(node, operands, types, graph_.type(node.results[0]));
  }

 private:
  void set(ValueId value, const Sharing& sharing) {
    Sharing& known = sharings_[index_of(value)];
    has_changed_ = has_changed_ || !(known == sharing);
    known = sharing;
  }

  /// Visits every node, then every end of a region. What is unknown at first becomes known in further visits.
  void visit() {
    for (const Node& node : graph_.nodes()) {
      const Sharing results = share(node).results;
      for (const ValueId result : node.results) set(result, results);
    }
    for (const Region& region : graph_.regions())
      for (const RegionResult& result : region.results) set(result.value, sharing_at_end(result));
    for (const StateUpdate& update : graph_.state_updates()) {
      if (std::ranges::find(is_whole_, update.value) != is_whole_.end()) {
        gather(update.next);
      } else {
        set(update.value, at_end(update.next));
      }
    }
    for (const Output& output : graph_.outputs()) gather(output.value);
  }

  /// The sharing that a value has for readers that are no nodes.
  [[nodiscard]] Sharing at_end(ValueId value) const {
    const bool is_shared = (*this)[value].is_shared() && !is_whole_in_memory(value) && !gathers(value);
    return is_shared || (*this)[value].kind == kUnknown ? (*this)[value] : Sharing{};
  }

  Sharing sharing_at_end(const RegionResult& result) {
    const Sharing from = at_end(result.from);
    if (result.otherwise == kNoValue) return from;
    const Sharing otherwise = at_end(result.otherwise);
    if (from.kind == kUnknown || otherwise.kind == kUnknown) return from.kind == kUnknown ? otherwise : from;
    if (from == otherwise) return from;
    gather(result.from);
    gather(result.otherwise);
    return {};
  }

  void gather(ValueId value) {
    if (!(*this)[value].is_shared() || is_whole_in_memory(value) || gathers(value)) return;
    if (graph_.value(value).kind != ValueKind::kResult)
      throw CannotShare(fmt::format("ranks cannot share a {} that must be whole", name_of(graph_.value(value).kind)));
    gathers_[index_of(value)] = true;
    has_changed_ = true;
  }

  const Graph& graph_;
  std::vector<Sharing> sharings_;
  std::vector<bool> gathers_;
  std::vector<ValueId> is_whole_;  // tokens of the pipeline
  bool has_changed_ = false;
};

/// A group of ranks, and which of them this one is.
struct Group {
  Ints ranks = {};
  std::int64_t own = 0;

  [[nodiscard]] bool is_alone() const { return ranks.size() == 1; }
  [[nodiscard]] NamedAttributes attributes() const { return {{attr::kGroup, ranks}, {attr::kRank, own}}; }
};

class GraphSharer {
 public:
  GraphSharer(Graph& graph, const ContextParallel& parallel, const TokenSharing& sharing)
      : graph_(graph), parallel_(parallel), rank_(sharing.rank), analysis_(graph, sharing) {}

  /// Makes the graph that of the rank. Returns the number of attentions that see the tokens of all ranks. Throws
  /// CannotShare.
  int run() {
    require_enough_tokens();
    for (std::size_t i = 0; i < graph_.value_count(); ++i) whole_.push_back(graph_.type(static_cast<ValueId>(i)));
    std::vector<SharedNode> forms;
    for (const Node& node : graph_.nodes()) forms.push_back(analysis_.share(node));
    const std::vector<Node> nodes = graph_.take_nodes();
    for (const ValueId state : graph_.values_of(ValueKind::kState)) set_own_shape(state);
    for (const Region& region : graph_.regions())
      for (const RegionResult& result : region.results) set_own_shape(result.value);
    for (std::size_t i = 0; i < nodes.size(); ++i) share(nodes[i], forms[i]);
    graph_.set_nodes(std::move(made_));
    return attentions_;
  }

 private:
  [[nodiscard]] int ranks() const { return parallel_.ranks; }

  void require_enough_tokens() const {
    for (std::size_t i = 0; i < graph_.value_count(); ++i)
      for (const std::int64_t stretch : analysis_[static_cast<ValueId>(i)].stretches)
        if (stretch < ranks()) throw CannotShare(fmt::format("{} ranks cannot share {} tokens", ranks(), stretch));
  }

  /// The tokens of these stretches that a rank has.
  [[nodiscard]] std::int64_t extent_of(const Ints& stretches, int rank) const {
    std::int64_t extent = 0;
    for (const std::int64_t stretch : stretches) extent += share_of(stretch, rank, ranks());
    return extent;
  }
  [[nodiscard]] Ints extents_of(const Ints& stretches, const Ints& of_ranks) const {
    Ints extents;
    for (const std::int64_t rank : of_ranks) extents.push_back(extent_of(stretches, static_cast<int>(rank)));
    return extents;
  }
  [[nodiscard]] Group all() const {
    Group group{.own = rank_};
    for (int rank = 0; rank < ranks(); ++rank) group.ranks.push_back(rank);
    return group;
  }

  void set_own_shape(ValueId value) {
    if (analysis_.is_whole_in_memory(value) || analysis_.gathers(value)) return;
    Shape shape = graph_.type(value).shape;
    shape.set(analysis_[value].axis, extent_of(analysis_[value].stretches, rank_));
    graph_.set_shape(value, shape);
  }

  // The node that is being made a rank's:
  ValueId emit(Op op, std::vector<ValueId> inputs, NamedAttributes attributes) {
    return emit_node(op, std::move(inputs), Attributes(op, std::move(attributes)))[0];
  }
  std::vector<ValueId> emit_node(Op op, std::vector<ValueId> inputs, Attributes attributes) {
    made_.push_back(graph_.make_node(op, std::move(inputs), std::move(attributes), node_->path, node_->region));
    return made_.back().results;
  }
  /// The last node makes the results of the node, with their new extents.
  void end_with_results() {
    for (std::size_t i = 0; i < node_->results.size(); ++i)
      graph_.set_shape(node_->results[i], graph_.type(made_.back().results[i]).shape);
    made_.back().results = node_->results;
  }

  void share(const Node& node, const SharedNode& shared) {
    node_ = &node;
    std::vector<ValueId> inputs;
    for (std::size_t i = 0; i < node.inputs.size(); ++i) inputs.push_back(convert(node.inputs[i], shared.operands[i]));
    if (shared.form == SharedNode::Form::kReduction) {
      reduce(inputs[0], shared.operands[0]);
    } else if (shared.form == SharedNode::Form::kAttention) {
      attend(inputs, shared);
    } else {
      Shape result = whole_[index_of(node.results[0])].shape;
      if (shared.results.is_shared()) result.set(shared.results.axis, extent_of(shared.results.stretches, rank_));
      emit_node(node.op, std::move(inputs), share_attributes(node, shared, result, rank_, ranks()));
      end_with_results();
    }
    for (const ValueId result : node.results)
      if (analysis_.gathers(result)) graph_.replace_uses(result, gather(result, shared.results));
  }

  /// A value as a node needs it.
  ValueId convert(ValueId value, const Sharing& needed) {
    const bool is_whole = analysis_.is_whole_in_memory(value);
    if (needed.is_shared()) return is_whole ? take_share(value, needed) : value;
    return is_whole ? value : gather(value, analysis_[value]);
  }

  /// The rank's share of a whole value. Kept for the region: in another one a state may have another value.
  ValueId take_share(ValueId value, const Sharing& sharing) {
    const auto key = std::tuple(value, node_->region, sharing.axis, sharing.stretches);
    if (const auto found = shares_.find(key); found != shares_.end()) return found->second;
    std::vector<ValueId> parts;
    std::int64_t at = 0;
    for (const std::int64_t stretch : sharing.stretches) {
      parts.push_back(emit(Op::kSlice, {value},
                           {{attr::kAxis, sharing.axis},
                            {attr::kStart, at + first_of_share(stretch, rank_, ranks())},
                            {attr::kExtent, share_of(stretch, rank_, ranks())}}));
      at += stretch;
    }
    return shares_[key] = join(std::move(parts), sharing.axis);
  }

  ValueId join(std::vector<ValueId> parts, int axis) {
    return parts.size() == 1 ? parts[0] : emit(Op::kConcat, std::move(parts), {{attr::kAxis, axis}});
  }

  /// The whole of a value of which this rank has a share, one stretch after the other.
  ValueId gather(ValueId value, const Sharing& sharing) {
    std::vector<ValueId> parts;
    std::int64_t at = 0;
    for (const std::int64_t stretch : sharing.stretches) {
      const std::int64_t own = share_of(stretch, rank_, ranks());
      const ValueId part =
          sharing.stretches.size() == 1
              ? value
              : emit(Op::kSlice, {value}, {{attr::kAxis, sharing.axis}, {attr::kStart, at}, {attr::kExtent, own}});
      NamedAttributes attributes = all().attributes();
      attributes.emplace_back(attr::kAxis, sharing.axis);
      attributes.emplace_back(attr::kShares, extents_of({stretch}, all().ranks));
      parts.push_back(emit(Op::kAllGather, {part}, std::move(attributes)));
      at += own;
    }
    return join(std::move(parts), sharing.axis);
  }

  /// A sum, mean or maximum over the tokens of all ranks.
  void reduce(ValueId x, const Sharing& sharing) {
    ValueId partial = emit_node(node_->op, {x}, node_->attributes)[0];
    if (node_->op == Op::kMean) {
      const auto own = static_cast<double>(extent_of(sharing.stretches, rank_));
      const auto of_all = static_cast<double>(whole_[index_of(node_->inputs[0])].shape[sharing.axis]);
      partial = emit(Op::kMulScalar, {partial}, {{attr::kValue, own / of_all}});
    }
    NamedAttributes attributes = all().attributes();
    attributes.emplace_back(attr::kLargest, node_->op == Op::kAmax);
    emit(Op::kAllReduce, {partial}, std::move(attributes));
    end_with_results();
  }

  void attend(const std::vector<ValueId>& inputs, const SharedNode& shared) {
    ++attentions_;
    const std::int64_t heads = whole_[index_of(node_->inputs[0])].shape[1];
    const int ulysses =
        parallel_.ulysses != 0 ? parallel_.ulysses : static_cast<int>(std::gcd<std::int64_t>(heads, ranks()));
    if (heads < ulysses)
      throw CannotShare(fmt::format("{} has {} heads, which {} ranks cannot exchange for tokens: give cp={}:ring",
                                    describe(*node_), heads, ulysses, ranks()));
    Group exchange{.own = rank_ % ulysses}, ring{.own = rank_ / ulysses};
    for (int i = 0; i < ulysses; ++i) exchange.ranks.push_back(rank_ - rank_ % ulysses + i);
    for (int i = 0; i < ranks() / ulysses; ++i) ring.ranks.push_back(rank_ % ulysses + i * ulysses);

    Ints split;
    for (int i = 0; i < ulysses; ++i) split.push_back(share_of(heads, i, ulysses));
    const auto exchanged = [&](std::size_t operand) {
      if (exchange.is_alone()) return inputs[operand];
      const Ints tokens = extents_of(shared.operands[operand].stretches, exchange.ranks);
      return swap_heads_and_tokens(heads_for_tokens(exchange, swap_heads_and_tokens(inputs[operand]), tokens, split));
    };
    const ValueId q = exchanged(0), k = exchanged(1), v = exchanged(2);
    const ValueId out = ring.is_alone() ? emit_node(node_->op, {q, k, v}, node_->attributes)[0]
                                        : attend_in_ring(ring, q, k, v, shared.operands[1].stretches);
    if (!exchange.is_alone())
      swap_heads_and_tokens(tokens_for_heads(exchange, swap_heads_and_tokens(out),
                                             extents_of(shared.operands[0].stretches, exchange.ranks), split));
    end_with_results();
  }

  /// Exchanges are of [batch, tokens, heads, head_dim], as linear layers write and read it, so that nothing is copied
  /// before and after.
  ValueId swap_heads_and_tokens(ValueId x) {
    return emit(Op::kTranspose, {x}, {{attr::kPerm, Ints{0, kTokens, kHeads, 3}}});
  }
  ValueId heads_for_tokens(const Group& group, ValueId x, const Ints& tokens, const Ints& heads) {
    return all_to_all(group, x, {kSwappedTokens, tokens}, {kSwappedHeads, heads});
  }
  ValueId tokens_for_heads(const Group& group, ValueId x, const Ints& tokens, const Ints& heads) {
    return all_to_all(group, x, {kSwappedHeads, heads}, {kSwappedTokens, tokens});
  }

  /// An axis with the parts of the ranks of a group.
  struct Parts {
    int axis;
    Ints extents;
  };
  ValueId all_to_all(const Group& group, ValueId x, const Parts& joined, const Parts& split) {
    NamedAttributes attributes = group.attributes();
    attributes.emplace_back(attr::kAxis, joined.axis);
    attributes.emplace_back(attr::kShares, joined.extents);
    attributes.emplace_back(attr::kSplitAxis, split.axis);
    attributes.emplace_back(attr::kSplit, split.extents);
    return emit(Op::kAllToAll, {x}, std::move(attributes));
  }

  /// Attention over one group's keys after the other, which come around the ring.
  ValueId attend_in_ring(const Group& ring, ValueId q, ValueId k, ValueId v, const Ints& stretches) {
    Ints keys;  // of each group of the ring
    const std::int64_t group_size = ranks() / std::ssize(ring.ranks);
    for (std::int64_t group = 0; group < std::ssize(ring.ranks); ++group) {
      std::int64_t tokens = 0;
      for (std::int64_t i = 0; i < group_size; ++i)
        tokens += extent_of(stretches, static_cast<int>(group * group_size + i));
      keys.push_back(tokens);
    }
    std::vector<ValueId> outs, logs;
    for (std::size_t hop = 0; hop < ring.ranks.size(); ++hop) {
      ValueId next_k = kNoValue, next_v = kNoValue;
      if (hop + 1 < ring.ranks.size()) {  // before the attention, which may run meanwhile
        NamedAttributes attributes = ring.attributes();
        attributes.emplace_back(attr::kAxis, kTokens);
        attributes.emplace_back(attr::kShares, keys);
        next_k = emit(Op::kShift, {k}, attributes);
        next_v = emit(Op::kShift, {v}, attributes);
        std::ranges::rotate(keys, keys.end() - 1);
      }
      const std::vector<ValueId> part = emit_node(node_->op, {q, k, v}, node_->attributes.with(attr::kLogsumexp, true));
      outs.push_back(as_part(part[0]));
      logs.push_back(as_part(part[1]));
      k = next_k;
      v = next_v;
    }
    return emit(Op::kMergeAttention, {join(outs, 0), join(logs, 0)}, {{attr::kAxis, 0}});
  }

  /// [...] -> [1, ...]
  ValueId as_part(ValueId x) {
    const Shape& shape = graph_.type(x).shape;
    Ints extents = {1};
    extents.insert(extents.end(), shape.dims().begin(), shape.dims().end());
    return emit(Op::kReshape, {x}, {{attr::kShape, std::move(extents)}});
  }

  static constexpr int kHeads = 1, kTokens = 2;                // axes of [batch, heads, tokens, head_dim]
  static constexpr int kSwappedTokens = 1, kSwappedHeads = 2;  // and of what is exchanged

  Graph& graph_;
  ContextParallel parallel_;
  int rank_;
  SharingAnalysis analysis_;
  std::vector<TensorType> whole_;  // types before the pass
  std::vector<Node> made_;
  const Node* node_ = nullptr;
  std::map<std::tuple<ValueId, RegionId, int, Ints>, ValueId> shares_;
  int attentions_ = 0;
};

/// Why a graph without named tokens cannot be shared.
std::string why_no_tokens(const Graph& graph) {
  for (const Node& node : graph.nodes())
    if (node.op == Op::kConv2d)
      return fmt::format("{} is a convolution over pixels, which ranks cannot share", describe(node));
  return "the pipeline names no tokens that ranks can share";
}

}  // namespace

PassOutcome context_parallel(Graph& graph, const Target& target, std::string_view argument) {
  const ContextParallel parallel = ContextParallel::parse(argument);
  if (parallel.ranks == 1) return outcome_of(0, "one rank has all tokens already");
  if (target.sharing == nullptr) return outcome_of(0, "ranks share the denoise loop of a request, and this is none");
  if (target.sharing->tokens.empty()) return outcome_of(0, why_no_tokens(graph));
  Graph shared = graph;
  flash_attention(shared, target);
  try {
    const int attentions = GraphSharer(shared, parallel, *target.sharing).run();
    if (attentions == 0) return outcome_of(0, "no attention reads the tokens");
    graph = std::move(shared);
    return {.rewrites = attentions};
  } catch (const CannotShare& error) {
    return outcome_of(0, error.what());
  }
}

}  // namespace headroom
