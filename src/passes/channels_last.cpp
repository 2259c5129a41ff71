// channels-last: y: f32[b, c, h, w] = conv2d(x, w)
//   -> x': f32[b, c, h, w] channels_last = reshape(x), y': ... channels_last = conv2d(x', w), y = reshape(y')
//
// Images keep their logical axes and get another memory order, [b, h, w, c], between all ops that accept any layout.
// Convolutions then read their channels as one vector, as matrix units require, without transposes in between. Every
// such op connected with a convolution is converted; a reshape to the same extents changes the layout at the edges,
// and attention over pixels, [b, h w, c], then needs only a view. Inputs, outputs, states and results of regions stay
// row-major. Values that are already channels-last in the graph keep that layout.
//
// It declines if the kernels of the target are faster on row-major images for most of the FLOPs: where channels do not
// fill the vectors that matrix units read. `align`, which runs before, pads them.

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "ir/op_definition.hpp"
#include "passes/channel_vectors.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

class ChannelsLast {
 public:
  explicit ChannelsLast(Graph& graph)
      : graph_(graph), is_weight_(find_weight_values(graph)), producers_(find_producers(graph)) {}

  /// Returns the number of nodes converted.
  int run() {
    find_islands();
    const auto converted = static_cast<int>(std::ranges::count(converts_, true));
    if (converted > 0) rebuild();
    return converted;
  }

 private:
  [[nodiscard]] bool is_image(ValueId value) const { return graph_.type(value).shape.rank() == 4; }
  [[nodiscard]] bool is_channels_last(ValueId value) const {
    return graph_.type(value).layout == Layout::kChannelsLast;
  }

  /// Whether the node can be converted. Weights keep the layout in which they are folded, so a weight in place of an
  /// image prevents it. Elementwise ops are excepted, because they accept any layout next to an image.
  [[nodiscard]] bool may_convert(const Node& node) const {
    if (!definition_of(node.op).any_layout || is_weight_[index_of(node.results[0])]) return false;
    if (node.attributes.fused_body() != nullptr) return false;  // its body determines their layout
    if (!is_image(node.results[0]) || is_channels_last(node.results[0])) return false;
    int images = 0, weights = 0;
    for (std::size_t k = 0; k < node.inputs.size(); ++k)
      if (has_image_at(node, k)) ++(is_weight_[index_of(node.inputs[k])] ? weights : images);
    return images > 0 && (weights == 0 || is_elementwise(node.op));
  }

  /// Whether operand k is an image of the node's layout. The others are weights of contractions, or broadcast.
  [[nodiscard]] bool has_image_at(const Node& node, std::size_t k) const {
    const ValueId value = node.inputs[k];
    if (!is_image(value)) return false;
    if (is_elementwise(node.op)) return graph_.type(value).shape == graph_.type(node.results[0]).shape;
    return is_batched_operand(graph_, node, k) || schema_of(node.op).operands.at(k).many;
  }
  /// The same for a converted node, if operand k is no weight.
  [[nodiscard]] bool is_image_operand(const Node& node, std::size_t k) const {
    return has_image_at(node, k) && !is_weight_[index_of(node.inputs[k])];
  }

  /// Marks the nodes to convert: those that reach a convolution through others.
  void find_islands() {
    const std::span<const Node> nodes = graph_.nodes();
    converts_.assign(nodes.size(), false);
    std::vector<std::vector<std::size_t>> neighbours(nodes.size());
    std::vector<std::size_t> reached;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (!may_convert(nodes[i])) continue;
      for (std::size_t k = 0; k < nodes[i].inputs.size(); ++k) {
        const int maker = producers_[index_of(nodes[i].inputs[k])];
        if (maker < 0 || !is_image_operand(nodes[i], k)) continue;
        if (!may_convert(nodes[static_cast<std::size_t>(maker)])) continue;
        neighbours[i].push_back(static_cast<std::size_t>(maker));
        neighbours[static_cast<std::size_t>(maker)].push_back(i);
      }
      if (is_convolution(nodes[i].op)) reached.push_back(i);
    }
    while (!reached.empty()) {
      const std::size_t i = reached.back();
      reached.pop_back();
      if (converts_[i]) continue;
      converts_[i] = true;
      reached.insert(reached.end(), neighbours[i].begin(), neighbours[i].end());
    }
  }

  /// Whether the node that makes it is converted.
  [[nodiscard]] bool is_converted(ValueId value) const {
    const int maker = producers_[index_of(value)];
    return maker >= 0 && converts_[static_cast<std::size_t>(maker)];
  }

  void rebuild() {
    note_row_major_reads();
    std::vector<Node> nodes = graph_.take_nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) push(std::move(nodes[i]), converts_[i]);
    // by readers that are not nodes
    for (const auto& [value, row_major] : row_major_) graph_.replace_uses(value, row_major);
    graph_.set_nodes(std::move(schedule_));
  }

  /// Records which converted values are also read as row-major. A view op takes the layout of its operand and keeps
  /// it.
  void note_row_major_reads() {
    const std::span<const Node> nodes = graph_.nodes();
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (is_view(nodes[i].op) || (converts_[i] && is_elementwise(nodes[i].op))) continue;
      for (std::size_t k = 0; k < nodes[i].inputs.size(); ++k)
        if (!converts_[i] || !is_image_operand(nodes[i], k)) note_row_major(nodes[i].inputs[k]);
    }
    for (const ValueId read : reads_outside_nodes(graph_)) note_row_major(read);
  }
  void note_row_major(ValueId value) {
    if (is_converted(value)) row_major_.emplace(value, kNoValue);
  }

  /// Schedules a node with its operands in the layouts it takes, then row-major copies of its results for other
  /// readers.
  void push(Node node, bool converts) {
    for (std::size_t k = 0; k < node.inputs.size(); ++k) {
      ValueId& input = node.inputs[k];
      if (converts && is_image_operand(node, k)) {
        if (!is_converted(input) && !is_channels_last(input)) input = channels_last(input, node);
      } else if (const auto found = row_major_.find(input); found != row_major_.end() && !is_view(node.op)) {
        input = found->second;
      }
    }
    schedule_.push_back(node);
    if (!converts) return;
    for (const ValueId result : node.results) {
      graph_.set_layout(result, Layout::kChannelsLast);
      if (const auto found = row_major_.find(result); found != row_major_.end())
        found->second = push_layout(result, Layout::kRowMajor, node);
    }
  }

  /// `value` in that layout for a node; the conversion is shared with other nodes of its region.
  ValueId channels_last(ValueId value, const Node& reader) {
    const auto [shared, is_new] = entering_.try_emplace({value, reader.region}, kNoValue);
    if (is_new) shared->second = push_layout(value, Layout::kChannelsLast, reader);
    return shared->second;
  }

  ValueId push_layout(ValueId value, Layout layout, const Node& at) {
    const Shape& shape = graph_.type(value).shape;
    Attributes extents(Op::kReshape,
                       {{attr::kShape, std::vector<std::int64_t>(shape.dims().begin(), shape.dims().end())}});
    schedule_.push_back(graph_.make_node(Op::kReshape, {value}, std::move(extents), at.path, at.region));
    const ValueId result = schedule_.back().results[0];
    graph_.set_layout(result, layout);
    return result;
  }

  Graph& graph_;
  std::vector<bool> is_weight_;                               // by value
  std::vector<int> producers_;                                // by value
  std::vector<bool> converts_;                                // by node
  std::map<ValueId, ValueId> row_major_;                      // converted values that have row-major readers
  std::map<std::pair<ValueId, RegionId>, ValueId> entering_;  // other values that converted nodes read
  std::vector<Node> schedule_;
};

}  // namespace

PassOutcome channels_last(Graph& graph, const Target& target) {
  if (share_faster_channels_last(graph, target) < 0.5)
    return {.declined =
                "most of the arithmetic of convolutions is faster on row-major images here, since their channels do "
                "not fill the vectors of a matrix unit; with `align` they may"};
  return outcome_of(ChannelsLast(graph).run(), "the graph has no convolution");
}

}  // namespace headroom
