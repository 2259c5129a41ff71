#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// A graph while a pass rewrites it. The pass is shown each node in schedule order. Where one is the root (the last
/// node) of the pattern it looks for, the pass emits what computes the same and replaces the root's value. Nodes that
/// nothing reads any more vanish at once.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.type(id); }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  /// The node that makes `value`, if its op is `op` and the shown node may take over its work: it runs in the same
  /// region and reads nothing that may not be read later. Null otherwise.
  [[nodiscard]] const Node* match(ValueId value, Op op) const;
  /// match(), if nothing else reads `value`: then the node vanishes with the pattern, and its work is not done twice.
  [[nodiscard]] const Node* match_single_use(ValueId value, Op op) const;
  /// The node that makes `value` whatever its op, on the same terms.
  [[nodiscard]] const Node* single_use_producer(ValueId value) const;
  /// The nodes that read `value`, in schedule order, from the shown one on.
  [[nodiscard]] std::vector<const Node*> readers_from_here(ValueId value) const;
  /// Whether a node before the shown one reads `value`, or a region that may end before it does at its end.
  [[nodiscard]] bool is_read_before_here(ValueId value) const;
  /// Whether `value` is a weight that can be read anywhere: a param, or made from params at the front of the schedule,
  /// where the pass weights-first puts such nodes.
  [[nodiscard]] bool is_weight(ValueId value) const { return links(value).is_weight; }

  /// The node that makes a weight; null where it is a param.
  [[nodiscard]] const Node* weight_producer(ValueId weight) const;

  /// Schedules a node before the shown one, in its region, and returns its first result. A node that reads weights
  /// alone goes to the front of the schedule and is a weight itself.
  ValueId emit(Op op, std::vector<ValueId> inputs, std::vector<std::pair<std::string_view, Attribute>> attributes,
               const std::string& path);
  /// The same for an op with several results: all of them.
  std::vector<ValueId> emit_all(Op op, std::vector<ValueId> inputs,
                                std::vector<std::pair<std::string_view, Attribute>> attributes,
                                const std::string& path);
  /// The same op as `node` at its path, on other inputs or with other attributes (`node.attributes.with(...)`).
  ValueId emit_like(const Node& node, std::vector<ValueId> inputs, Attributes attributes);
  /// Says how an image lies that a view has made: infer() only proposes a layout.
  void set_layout(ValueId image, Layout layout) { graph_.set_layout(image, layout); }
  /// Makes everything that reads `from` read `to`, and drops the nodes that are then read by nothing.
  void replace(ValueId from, ValueId to);

  /// Shows every node to `rewrite`, which returns whether it rewrote something there, and puts the schedule back in the
  /// graph. Nodes emitted on the way are not shown. Returns how many calls rewrote something.
  int run(const std::function<bool(Rewriter&, const Node&)>& rewrite);

 private:
  struct Entry {
    Node node;
    std::size_t turn;  // when it is shown; 0 for emitted nodes, which never are and stand before what is shown
    bool dropped = false;
  };
  using Place = std::list<Entry>::iterator;  // a list, so that nodes stay where they are when others are put before

  struct Links {
    Entry* producer = nullptr;           // null for what no node makes
    std::vector<Entry*> readers;         // one for each operand that is this value
    std::size_t reads_from_outside = 0;  // by what is no node: outputs, state updates, predicates, region results
    bool is_weight = false;
  };

  const Node& schedule(Op op, std::vector<ValueId> inputs, Attributes attributes, const std::string& path);
  Links& links(ValueId id) { return links_[index_of(id)]; }
  [[nodiscard]] const Links& links(ValueId id) const { return links_[index_of(id)]; }
  Place insert(Place before, Node node, std::size_t turn, bool is_weight);
  void drop_if_unread(Entry& entry);

  Graph& graph_;
  std::vector<Links> links_;  // by value
  std::list<Entry> schedule_;
  Place front_end_;  // the first node that is not a weight's
  Place shown_;
};

/// Rewriter(graph).run(rewrite)
int rewrite_each(Graph& graph, const std::function<bool(Rewriter&, const Node&)>& rewrite);

/// Lets `rewrite` change the nodes of a region (nested ones included), while the schedule is taken out of the graph,
/// and puts what it returns in front of them. It is given what stands before the region, too.
using RewriteRegion = std::function<std::vector<Node>(std::span<const Node> before, std::vector<Node>& nodes)>;
void rewrite_region(Graph& graph, RegionId region, const RewriteRegion& rewrite);

}  // namespace headroom
