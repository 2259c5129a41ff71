#pragma once

#include <cstddef>
#include <functional>
#include <list>
#include <memory_resource>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/graph.hpp"

namespace headroom {

/// A graph during the rewrite by a pass. Every node is passed to the pass in schedule order, as the current node. If
/// it is the root (the last node) of the pattern searched, the pass emits an equivalent and replaces the root's
/// value. Nodes that nothing reads any more are removed at once.
class Rewriter {
 public:
  explicit Rewriter(Graph& graph);
  Rewriter(const Rewriter&) = delete;
  Rewriter& operator=(const Rewriter&) = delete;

  [[nodiscard]] const Graph& graph() const noexcept { return graph_; }
  [[nodiscard]] const TensorType& type(ValueId id) const { return graph_.type(id); }
  [[nodiscard]] const Shape& shape(ValueId id) const { return graph_.type(id).shape; }

  /// The node that makes `value`, if its op is `op` and the current node may take over its work: it is in the same
  /// region and reads nothing that may not be read later. Null otherwise.
  [[nodiscard]] const Node* match(ValueId value, Op op) const;
  /// match(), if nothing else reads `value`: then the node is removed with the pattern, and its work is not
  /// duplicated.
  [[nodiscard]] const Node* match_single_use(ValueId value, Op op) const;
  /// The node that makes `value`, whatever its op, under the same conditions.
  [[nodiscard]] const Node* single_use_producer(ValueId value) const;
  /// The nodes that read `value`, in schedule order, from the current one on.
  [[nodiscard]] std::vector<const Node*> readers_from_here(ValueId value) const;
  /// Whether a node before the current one reads `value`, or the end of a region that may end before it does.
  [[nodiscard]] bool is_read_before_here(ValueId value) const;
  /// Whether `value` is a weight that can be read anywhere: a param, or computed from params at the start of the
  /// schedule, where the pass weights-first puts such nodes.
  [[nodiscard]] bool is_weight(ValueId value) const { return links(value).is_weight; }

  /// The node that makes a weight; null for a param.
  [[nodiscard]] const Node* weight_producer(ValueId weight) const;

  /// Schedules a node before the current one, in its region, and returns its first result. A node that reads only
  /// weights goes to the start of the schedule and is a weight itself.
  ValueId emit(Op op, std::vector<ValueId> inputs, NamedAttributes attributes, const std::string& path);
  /// The same for an op with several results; returns all of them.
  std::vector<ValueId> emit_all(Op op, std::vector<ValueId> inputs, NamedAttributes attributes,
                                const std::string& path);
  /// The same op as `node` at its path, on other inputs or with other attributes (`node.attributes.with(...)`).
  ValueId emit_like(const Node& node, std::vector<ValueId> inputs, Attributes attributes);
  /// An operand of a node, by its role.
  struct Operand {
    Role role;
    ValueId value;
  };
  /// The same op as `node`, with these operands in place of its own, or behind them if it was not given them.
  ValueId emit_with(const Node& node, std::initializer_list<Operand> operands);
  /// Sets the layout of an image made by a view: infer() only proposes a layout.
  void set_layout(ValueId image, Layout layout) { graph_.set_layout(image, layout); }
  /// Makes everything that reads `from` read `to`, and removes the nodes that nothing reads afterwards.
  void replace(ValueId from, ValueId to);

  /// Calls `rewrite` for every node; it returns whether it rewrote something there. Afterwards the schedule is put
  /// back into the graph. Nodes emitted meanwhile are not visited. Returns the number of calls that rewrote
  /// something.
  int run(const std::function<bool(Rewriter&, const Node&)>& rewrite);

 private:
  struct Entry {
    Node node;
    // position in the order of visits; 0 for emitted nodes, which are not visited and precede the current node
    std::size_t turn;
    bool dropped = false;
  };
  // a list, so that nodes keep their address when others are inserted before them
  using Place = std::pmr::list<Entry>::iterator;

  struct Links {
    explicit Links(std::pmr::memory_resource& memory) : readers(&memory) {}

    Entry* producer = nullptr;           // null for values that no node makes
    std::pmr::vector<Entry*> readers;    // one entry per operand that is this value
    std::size_t reads_from_outside = 0;  // reads by outputs, state updates, predicates and region results
    bool is_weight = false;
  };

  const Node& schedule(Op op, std::vector<ValueId> inputs, Attributes attributes, const std::string& path);
  Links& links(ValueId id) { return links_[index_of(id)]; }
  [[nodiscard]] const Links& links(ValueId id) const { return links_[index_of(id)]; }
  /// Links for the values that the graph got since.
  void add_links();
  Place insert(Place before, Node node, std::size_t turn, bool is_weight);
  void drop_if_unread(Entry& entry);

  Graph& graph_;
  std::pmr::monotonic_buffer_resource memory_;  // of entries and readers: a pass frees all of it at its end
  std::vector<Links> links_;                    // by value
  std::pmr::list<Entry> schedule_{&memory_};
  Place front_end_;  // the first node that does not make a weight
  Place shown_;
};

/// Rewriter(graph).run(rewrite)
int rewrite_each(Graph& graph, const std::function<bool(Rewriter&, const Node&)>& rewrite);

/// Lets `rewrite` change the nodes of a region (nested ones included) while the schedule is taken out of the graph,
/// and inserts the nodes that it returns before them. `before` holds the nodes scheduled before the region.
using RewriteRegion = std::function<std::vector<Node>(std::span<const Node> before, std::vector<Node>& nodes)>;
void rewrite_region(Graph& graph, RegionId region, const RewriteRegion& rewrite);

}  // namespace headroom
