#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/dtype.hpp"
#include "base/tensors/shape.hpp"
#include "ir/op.hpp"

namespace headroom {

/// Names one value of a graph. Ids are dense, stable under rewriting and never reused.
enum class ValueId : std::int32_t {};
inline constexpr ValueId kNoValue{-1};
[[nodiscard]] constexpr std::size_t index_of(ValueId id) { return static_cast<std::size_t>(id); }

/// Memory order of a tensor's logical axes, as far as kernels depend on it. Strides belong to the plan.
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
  kInput,         ///< given by the caller for each run
  kParam,         ///< from the checkpoint, by name
  kState,         ///< read on entry of its region, written on exit, outlives the run
  kCounter,       ///< the iteration number of a loop: i32 scalar, from 0
  kResult,        ///< result of a node
  kRegionResult,  ///< result of a region, read after the region
};

/// "input", "param", "state", "counter", "result", "region result".
[[nodiscard]] std::string_view name_of(ValueKind kind);

struct Value {
  ValueKind kind = ValueKind::kResult;
  std::string name;  ///< name of an input, param, state or counter; results have none
  TensorType type;
};

/// The region in which a node runs. Region 0 is the straight-line code of the whole program; others nest in it.
using RegionId = std::int32_t;
inline constexpr RegionId kTopRegion = 0;
inline constexpr RegionId kNoRegion = -1;
[[nodiscard]] constexpr std::size_t index_of(RegionId id) { return static_cast<std::size_t>(id); }

enum class RegionKind : std::uint8_t { kStraight, kLoop, kThen, kElse };

/// A value that a region returns to its parent. For a loop it is the value of `from` at the end of the last
/// iteration. For an `if` it is `from` if the then branch ran, else `otherwise`.
struct RegionResult {
  ValueId value = kNoValue;  ///< of kind kRegionResult; exists after the region, in its parent
  ValueId from = kNoValue;
  ValueId otherwise = kNoValue;  ///< for an `if`: a value of its else branch, or of an outer region if there is no else
};

/// A contiguous range of the schedule: the top level, a loop that runs its nodes trip_count times, or a branch of an
/// `if`. An `if` is a region `kThen` and, if it has an else, a region `kElse` whose nodes follow immediately.
struct Region {
  RegionKind kind = RegionKind::kStraight;
  RegionId parent = kNoRegion;
  std::int64_t trip_count = 1;
  ValueId counter = kNoValue;              ///< for a loop
  ValueId predicate = kNoValue;            ///< for a then: bool scalar; the branch runs if it is true
  RegionId branch = kNoRegion;             ///< for a then: its else, if any; for an else: its then
  std::vector<RegionResult> results = {};  ///< for a loop; for an `if`, held by its then
};

/// One operation. Nodes are in schedule order; a region's nodes are contiguous (its nested regions included).
struct Node {
  Op op = Op::kAdd;
  Attributes attributes;
  std::vector<ValueId> inputs;
  std::vector<ValueId> results;
  std::string path;  ///< the module that it was built in: "transformer_blocks.3.attn.to_q"
  RegionId region = kTopRegion;

  /// The operand with that role, which the op must have; kNoValue if the node was not given it.
  [[nodiscard]] ValueId input(Role role) const {
    const std::size_t position = position_of(op, role);
    return position < own_operands() ? inputs[position] : kNoValue;
  }
  /// How many of the inputs are operands of the op itself; those of its epilogue follow.
  [[nodiscard]] std::size_t own_operands() const { return inputs.size() - attributes.epilogue_operands(); }
};

/// The update of a state: at the end of each run of `region`, or of each iteration, the state `value` takes the value
/// `next`. All updates of a region take effect together.
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
  /// Opens the then branch of an `if` under `parent`; it runs if `predicate`, a bool scalar, is true.
  RegionId add_then(RegionId parent, ValueId predicate);
  /// Opens the else branch.
  RegionId add_else(RegionId then);
  /// Returns `from` to the parent region, as it is at the end of a loop or of an `if` (given by its then).
  /// `otherwise` is the value for an `if` whose then did not run. Repeated calls return the same value.
  ValueId add_region_result(RegionId region, ValueId from, ValueId otherwise = kNoValue);
  /// The value that a read of `value` in `region` refers to after everything built so far. It is `value` itself, or,
  /// for a state that a closed region has updated, the result of that region, which is created if it does not exist.
  ValueId read_after(ValueId value, RegionId region);

  /// Creates a node and its result values, with inferred types, without scheduling it: rewrites schedule nodes
  /// themselves. Throws Error if the inputs do not fit the op.
  [[nodiscard]] Node make_node(Op op, std::vector<ValueId> inputs, Attributes attributes, std::string path,
                               RegionId region);
  /// Calls make_node and schedules the node last. Returns its first result.
  ValueId append(Op op, std::vector<ValueId> inputs, Attributes attributes, std::string path, RegionId region);
  /// Declares a value of kind kResult, for a parser that restores recorded nodes.
  ValueId add_result(TensorType type);

  void add_output(std::string name, ValueId value);
  /// Marks the module at `path` as the next of the consecutive blocks of the model.
  void add_block(std::string path);
  /// At the end of each run or iteration of `region`, `state` takes the value `next`.
  void set_next(ValueId state, ValueId next, RegionId region);

  [[nodiscard]] const Value& value(ValueId id) const;
  [[nodiscard]] const TensorType& type(ValueId id) const { return value(id).type; }
  [[nodiscard]] std::size_t value_count() const noexcept { return values_.size(); }
  [[nodiscard]] std::span<const Node> nodes() const noexcept { return nodes_; }
  [[nodiscard]] std::span<const Region> regions() const noexcept { return regions_; }
  [[nodiscard]] const Region& region(RegionId id) const;
  /// Module paths of the consecutive blocks that the model consists of, in order. Passes may cache or skip the values
  /// between two blocks. A node belongs to the block whose path is a prefix of its own.
  [[nodiscard]] std::span<const std::string> blocks() const noexcept { return blocks_; }
  [[nodiscard]] std::span<const Output> outputs() const noexcept { return outputs_; }
  [[nodiscard]] std::span<const StateUpdate> state_updates() const noexcept { return state_updates_; }
  /// Values of one kind, in the order they were declared.
  [[nodiscard]] std::vector<ValueId> values_of(ValueKind kind) const;
  /// The value of that kind and name, or kNoValue.
  [[nodiscard]] ValueId find(ValueKind kind, std::string_view name) const;

  /// Replaces the schedule. Rewrites use this; verify() checks the result.
  void set_nodes(std::vector<Node> nodes) { nodes_ = std::move(nodes); }
  /// Moves the schedule out of the graph, which then has none, so that a rewrite can move nodes into a new one.
  [[nodiscard]] std::vector<Node> take_nodes() { return std::move(nodes_); }
  /// Makes every node, output, state update, predicate and region result that reads `from` read `to`.
  void replace_uses(ValueId from, ValueId to);
  /// Removes the region results whose entry in `is_read`, indexed by value, is false.
  void drop_region_results(const std::vector<bool>& is_read);
  /// Changes a value's extents; ranks that have a share of a tensor use this. verify() checks the result.
  void set_shape(ValueId id, const Shape& shape);
  /// Changes a value's dtype. The precision passes use this on results and states.
  void set_dtype(ValueId id, DType dtype);
  /// Changes the memory layout of a value; infer() only proposes a layout.
  void set_layout(ValueId id, Layout layout);

 private:
  ValueId add_value(ValueKind kind, std::string name, TensorType type);
  RegionId add_region(Region region);

  std::string name_;
  std::vector<Value> values_;
  /// The index of find(): for each kind whose values have names, up to kCounter, the values by name.
  std::array<std::map<std::string, ValueId, std::less<>>, 4> by_name_;
  std::vector<Node> nodes_;
  std::vector<Region> regions_;
  std::vector<std::string> blocks_;
  std::vector<Output> outputs_;
  std::vector<StateUpdate> state_updates_;
};

/// Whether `inner` is `outer` or nested in it.
[[nodiscard]] bool is_within(const Graph& graph, RegionId inner, RegionId outer);
/// Whether a read of `value` in `inner` gives the same as a read in `outer`, which encloses it. This is false only
/// for a state that a loop in between changes from one iteration to the next.
[[nodiscard]] bool reads_alike(const Graph& graph, ValueId value, RegionId inner, RegionId outer);

/// A value that changes at the end of a region: a state, or a result of the region.
struct Assignment {
  ValueId to = kNoValue;
  ValueId from = kNoValue;
};
/// The assignments at the end of `region`. With `ran` = false: the assignments if a then branch without else is
/// skipped. All sources are read before any target is written, so two states may swap.
[[nodiscard]] std::vector<Assignment> assignments_at_end(const Graph& graph, RegionId region, bool ran = true);

/// The values read by outputs, state updates, predicates and region results, once per read; reads by nodes are not
/// included.
[[nodiscard]] std::vector<ValueId> reads_outside_nodes(const Graph& graph);
/// For each value, the index in graph.nodes() of the node that produces it, or -1.
[[nodiscard]] std::vector<int> find_producers(const Graph& graph);
/// Whether the result of a node over weights is no weight, because it is computed in every run: packed weights that are
/// unpacked before their matmul.
[[nodiscard]] bool is_computed_at_run(const Node& node);
/// For each value, whether it depends only on params and constants: a weight, or a transformation of weights.
[[nodiscard]] std::vector<bool> find_weight_values(const Graph& graph);

/// The node as plain text for error messages: `linear at transformer_blocks.0.attn.to_q`.
[[nodiscard]] std::string describe(const Node& node);

}  // namespace headroom

/// "f32[2, 4]"
template <>
struct fmt::formatter<headroom::TensorType> : fmt::formatter<std::string_view> {
  format_context::iterator format(const headroom::TensorType& type, format_context& context) const;
};
