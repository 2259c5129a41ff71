#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/shape.hpp"
#include "ir/op.hpp"

namespace headroom {

/// Names one value of a graph. Ids are dense, stable under rewriting and never reused.
enum class ValueId : std::int32_t {};
inline constexpr ValueId kNoValue{-1};
[[nodiscard]] constexpr std::size_t index_of(ValueId id) { return static_cast<std::size_t>(id); }

/// How a tensor's logical axes lie in memory where a kernel cares; strides belong to the plan.
enum class Layout : std::uint8_t { kRowMajor, kChannelsLast };

/// Logical shape (images are NCHW), element type and layout tag.
struct TensorType {
  DType dtype = DType::kF32;
  Shape shape;
  Layout layout = Layout::kRowMajor;

  /// Bytes of the dense tensor.
  [[nodiscard]] std::size_t bytes() const { return static_cast<std::size_t>(shape.numel()) * size_of(dtype); }
  friend bool operator==(const TensorType&, const TensorType&) = default;
};

enum class ValueKind : std::uint8_t {
  kInput,    ///< given by the caller for each run
  kParam,    ///< from the checkpoint, by name
  kState,    ///< read on entry of its region, written on exit, outlives the run
  kCounter,  ///< the iteration number of a loop: i32 scalar, 0 first
  kResult,   ///< of a node
};

struct Value {
  ValueKind kind = ValueKind::kResult;
  std::string name;  ///< of an input, param, state or counter; empty for results
  TensorType type;
};

/// Where a node runs. Region 0 is the straight line of the whole program; others nest in it.
using RegionId = std::int32_t;
inline constexpr RegionId kTopRegion = 0;

enum class RegionKind : std::uint8_t { kStraight, kLoop };

/// A stretch of the schedule: the top line, or a loop that runs its nodes trip_count times.
struct Region {
  RegionKind kind = RegionKind::kStraight;
  RegionId parent = -1;
  std::int64_t trip_count = 1;
  ValueId counter = kNoValue;  ///< of a loop
};

/// One operation. Nodes are in schedule order; a region's nodes are contiguous (its nested regions included).
struct Node {
  Op op = Op::kAdd;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;
  std::string path;  ///< the module it came from: "transformer_blocks.3.attn.to_q"
  RegionId region = kTopRegion;
};

/// A state's value on exit: at the end of each iteration of `region`, `next` becomes what `value` reads.
struct StateUpdate {
  ValueId value = kNoValue;
  ValueId next = kNoValue;
  RegionId region = kTopRegion;
};

struct Output {
  std::string name;
  ValueId value = kNoValue;
};

/// A program in SSA form with static shapes: values, nodes in schedule order, regions, states and named outputs.
/// One graph serves one request shape. Build it with Builder; rewrite it with the passes.
class Graph {
 public:
  explicit Graph(std::string name = "graph");

  [[nodiscard]] const std::string& name() const noexcept { return name_; }

  /// Declares a value of the given kind. Names are unique within a kind; throws std::logic_error otherwise.
  ValueId add_input(std::string name, TensorType type);
  ValueId add_param(std::string name, TensorType type);
  ValueId add_state(std::string name, TensorType type);

  /// Opens a loop region under `parent` and declares its counter, called `counter_name`.
  RegionId add_loop(RegionId parent, std::int64_t trip_count, std::string counter_name);

  /// Makes a node's result values, inferring their types, without scheduling it: rewrites put nodes in place by
  /// themselves. Throws Error where the inputs do not fit the op.
  [[nodiscard]] Node make_node(Op op, std::vector<ValueId> inputs, Attributes attributes, std::string path,
                               RegionId region);
  /// make_node, scheduled last. Returns the node's first result.
  ValueId append(Op op, std::vector<ValueId> inputs, Attributes attributes, std::string path, RegionId region);
  /// Declares a value of kind kResult, for a parser that restores recorded nodes.
  ValueId add_result(TensorType type);

  void add_output(std::string name, ValueId value);
  /// At the end of each iteration of `region`, `next` becomes the value of `state`.
  void set_next(ValueId state, ValueId next, RegionId region);

  [[nodiscard]] const Value& value(ValueId id) const;
  [[nodiscard]] const TensorType& type(ValueId id) const { return value(id).type; }
  [[nodiscard]] std::size_t value_count() const noexcept { return values_.size(); }
  [[nodiscard]] std::span<const Node> nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::span<const Region> regions() const noexcept { return regions_; }
  [[nodiscard]] std::span<const Output> outputs() const noexcept { return outputs_; }
  [[nodiscard]] std::span<const StateUpdate> state_updates() const noexcept { return state_updates_; }
  /// Values of one kind, in the order they were declared.
  [[nodiscard]] std::vector<ValueId> values_of(ValueKind kind) const;
  /// The value of that kind and name, or kNoValue.
  [[nodiscard]] ValueId find(ValueKind kind, std::string_view name) const;

  /// Replaces the schedule. Rewrites use this; verify() says whether the result is sound.
  void set_nodes(std::vector<Node> nodes) { nodes_ = std::move(nodes); }
  /// Takes the schedule out, leaving none, so that a rewrite can move nodes into a new one.
  [[nodiscard]] std::vector<Node> take_nodes() { return std::move(nodes_); }
  /// Makes every node, output and state update that read `from` read `to`.
  void replace_uses(ValueId from, ValueId to);
  /// Changes a value's dtype; the precision passes use this on results and states.
  void set_dtype(ValueId id, DType dtype);

 private:
  ValueId add_value(ValueKind kind, std::string name, TensorType type);

  std::string name_;
  std::vector<Value> values_;
  std::vector<Node> nodes_;
  std::vector<Region> regions_;
  std::vector<Output> outputs_;
  std::vector<StateUpdate> state_updates_;
};

/// For each value, how often nodes, outputs and state updates read it.
[[nodiscard]] std::vector<int> count_uses(const Graph& graph);
/// For each value, the index in graph.nodes() of the node that makes it, or -1.
[[nodiscard]] std::vector<int> find_producers(const Graph& graph);
/// For each value, whether it depends on params alone: a weight, or a transformation of weights.
[[nodiscard]] std::vector<bool> find_weight_values(const Graph& graph);

/// The node as plain text for errors: `linear at transformer_blocks.0.attn.to_q`.
[[nodiscard]] std::string describe(const Node& node);

}  // namespace headroom
