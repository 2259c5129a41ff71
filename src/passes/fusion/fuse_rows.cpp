// fuse-rows: a = f(x), y = norm(a), z = g(y, ...)  ->  a, z = fused(x, ...) {body = f, norm, g}
//
// Ops over the same rows become one op with a body, which one kernel runs. Bodies hold elementwise ops, casts,
// selects, rotations, and norms, softmax, quantizers and sums along the innermost axis. They may begin with the
// nearest-neighbour upsampling of an image (on a CPU only of channels-last images, and without reductions).
// Intermediate values are never in memory, and are rounded by casts only; a value that is also read outside becomes
// one more result. Bodies compute in f32. Next to a reduced row a generated kernel may read one gathered element,
// such as the logit of a label.
//
// Two neighbours are joined if their joint body has a row program (lower/row_program.hpp), if no node between them
// depends on the first and is needed by the second, and if it pays. Fusing an edge saves writing and reading its
// value. The cost is registers: a kernel needs some for each operand and value. The reason why two were not joined
// is noted.
//
// If kernels are generated, neighbours that share an operand, or read parts of one, over the same rows, are joined
// next: queries and keys that are normed and rotated with one table, the gates of a block's modulation. This gives
// one launch in place of two (about 2 us, which is 8 MB of traffic on an H200), and the operand is read once.
//
// Without generated kernels, on CPUs, a body is limited by the first-level cache that its values occupy, and kernels
// of single ops run at memory rate. Nodes are joined only if the result reads and writes kLeastSaved times less. An
// addition and a norm do not; a weight's update, a masked softmax and most of a loss do.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/op_definition.hpp"
#include "ir/text/text.hpp"
#include "lower/row_program.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

/// More operands or steps would leave a thread too little register space to keep enough reads in flight.
constexpr std::size_t kMostOperands = 12;
constexpr std::size_t kMostSteps = 96;
/// A broadcast over this number of bytes, or an image upsampled to as many, is worth a kernel of its own. The generic
/// kernels compute the position of each operand element and reach 0.85 of a copy's rate, 0.5 for an image (H200).
constexpr std::size_t kLeastAlone = std::size_t{1} << 20;

/// The required ratio of bytes read and written by single ops to those of a body, on a CPU. Measured on one core with
/// AVX2 and tensors larger than any cache, relative to the single ops: a saving of 1.25 times gives 0.8 to 1.0 of
/// their rate. silu(x) y, which saves 1.7 times, runs at 1.4 in f32 and 1.15 in bf16. An image that is upsampled and
/// added to another, 1.9 times, runs at 1.9 and 1.0.
constexpr double kLeastSaved = 1.6;

/// Nodes that may become one, by schedule index, in order.
using Members = std::vector<std::size_t>;

class RowFusion {
 public:
  RowFusion(Graph& graph, bool is_generated)
      : graph_(graph),
        is_generated_(is_generated),
        nodes_(graph.nodes()),
        is_weight_(find_weight_values(graph)),
        producers_(find_producers(graph)),
        is_read_elsewhere_(graph.value_count(), false),
        readers_(graph.value_count()),
        group_(nodes_.size()) {
    for (const ValueId read : reads_outside_nodes(graph)) is_read_elsewhere_[index_of(read)] = true;
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const ValueId input : nodes_[i].inputs) readers_[index_of(input)].push_back(i);
    std::iota(group_.begin(), group_.end(), std::size_t{0});
    for (std::size_t i = 0; i < nodes_.size(); ++i) members_.push_back({i});
    find_lines();
  }

  PassOutcome run() {
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      if (may_fuse(nodes_[i]) && nodes_[i].op != Op::kGather) join_with_makers(i);
    for (std::size_t i = 0; i < nodes_.size(); ++i)  // after the rows next to which they are read have been joined
      if (may_fuse(nodes_[i]) && nodes_[i].op == Op::kGather) join_with_readers(i);
    if (is_generated_) {
      for (const auto& [_, readers] : readers_by_base()) join_readers(readers);
    } else {
      for (std::size_t group = 0; group < members_.size(); ++group)
        if (members_[group].size() > 1 && !is_fused(members_[group])) part(group);
    }
    return {.rewrites = rebuild(), .declined = {}, .notes = std::move(notes_)};
  }

 private:
  /// Whether bodies can hold nodes of this kind; row_program_of() decides whether it fits in a specific body.
  [[nodiscard]] bool may_fuse(const Node& node) const {
    if (is_weight_[index_of(node.results[0])]) return false;
    const auto is_number = [&](ValueId value) {
      const DType dtype = graph_.type(value).dtype;
      return dtype != DType::kF64 && dtype != DType::kI64 && dtype != DType::kI32 && dtype != DType::kF8E5M2;
    };
    if (!is_generated_ && node.op == Op::kGather) return false;
    if (node.op == Op::kGather)
      return is_number(node.input(Role::kTable)) && graph_.type(node.input(Role::kTable)).shape.rank() == 1 &&
             graph_.type(node.input(Role::kIds)).shape.rank() > 1;
    if (!std::ranges::all_of(node.inputs, is_number) || !std::ranges::all_of(node.results, is_number)) return false;
    if (node.op == Op::kReshape) return puts_axis_back(node);
    return is_elementwise(node.op) || definition_of(node.op).goes_along_rows;
  }

  /// Whether a reshape restores a reduced axis with extent 1, so that the value broadcasts over its row.
  [[nodiscard]] bool puts_axis_back(const Node& node) const {
    const TensorType &from = graph_.type(node.inputs[0]), &to = graph_.type(node.results[0]);
    Shape longer = from.shape;
    longer.push_back(1);
    return to == TensorType{.dtype = from.dtype, .shape = longer};
  }

  /// Numbers the runs of the schedule whose nodes may be reordered: those of one region without another region in
  /// between. A region without nodes counts at the first reader of its results.
  void find_lines() {
    std::set<ValueId> read;
    const auto reads_first = [&](ValueId value) {
      return graph_.value(value).kind == ValueKind::kRegionResult && read.insert(value).second;
    };
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const bool begins = std::ranges::count_if(nodes_[i].inputs, reads_first) > 0;
      const bool goes_on = i > 0 && nodes_[i].region == nodes_[i - 1].region && !begins;
      line_.push_back(i == 0 ? 0 : line_.back() + (goes_on ? 0 : 1));
      if (line_begin_.size() <= static_cast<std::size_t>(line_.back())) line_begin_.push_back(i);
    }
  }

  void join_with_makers(std::size_t reader) {
    for (const ValueId input : nodes_[reader].inputs) {
      const int maker = producers_[index_of(input)];
      if (maker < 0) continue;
      const auto made = static_cast<std::size_t>(maker);
      if (line_[made] != line_[reader] || !may_fuse(nodes_[made]) || nodes_[made].op == Op::kGather) continue;
      if (group_[made] != group_[reader]) try_to_join(group_[made], group_[reader]);
    }
  }

  void join_with_readers(std::size_t maker) {
    for (const std::size_t reader : readers_[index_of(nodes_[maker].results[0])])
      if (line_[maker] == line_[reader] && may_fuse(nodes_[reader]) && group_[maker] != group_[reader])
        try_to_join(group_[maker], group_[reader]);
  }

  /// The nodes that read a value or a view of it, in schedule order.
  [[nodiscard]] std::map<ValueId, std::vector<std::size_t>> readers_by_base() const {
    std::vector<ValueId> base(readers_.size());
    for (std::size_t value = 0; value < base.size(); ++value) base[value] = static_cast<ValueId>(value);
    std::map<ValueId, std::vector<std::size_t>> readers;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      if (is_view(nodes_[i].op)) base[index_of(nodes_[i].results[0])] = base[index_of(nodes_[i].inputs[0])];
      if (!may_fuse(nodes_[i])) continue;
      for (const ValueId input : nodes_[i].inputs) readers[base[index_of(input)]].push_back(i);
    }
    return readers;
  }

  /// Joins groups that read one value, each with the last group before it over the same rows. Groups that do not fit
  /// together stay separate without a note, as no fusion was to be expected.
  void join_readers(const std::vector<std::size_t>& readers) {
    std::map<std::string, std::size_t> last;  // by rows
    std::set<std::size_t> seen;
    for (const std::size_t reader : readers) {
      const std::size_t group = group_[reader];
      const std::string rows = seen.insert(group).second ? rows_of(group) : "";
      if (rows.empty()) continue;
      const auto [before, is_first] = last.try_emplace(rows, group);
      if (is_first) continue;
      if (obstacle_to(merged(before->second, group)).empty()) join(before->second, group);
      before->second = group;
    }
  }

  /// A group's key: its run of the schedule and its row space, as text; empty if its body has no row program.
  [[nodiscard]] std::string rows_of(std::size_t group) {
    const auto program = row_program_of(body_of_members(members_[group]).graph);
    const auto* rows = std::get_if<RowProgram>(&program);
    if (rows == nullptr) return {};
    return fmt::format("{} {} {}", line_[members_[group][0]], rows->space, rows->needs_rows);
  }

  [[nodiscard]] Members merged(std::size_t a, std::size_t b) const {
    Members both;
    std::ranges::merge(members_[a], members_[b], std::back_inserter(both));
    return both;
  }

  void join(std::size_t from, std::size_t into) {
    Members joined = merged(from, into);
    for (const std::size_t member : members_[from]) group_[member] = into;
    members_[into] = std::move(joined);
    members_[from].clear();
  }

  void try_to_join(std::size_t makers, std::size_t readers) {
    if (const std::string reason = obstacle_to(merged(makers, readers)); !reason.empty())
      note(notes_, reason, nodes_[members_[readers].back()]);
    else
      join(makers, readers);
  }

  void part(std::size_t group) {
    const Members members = std::move(members_[group]);
    for (const std::size_t member : members) {
      group_[member] = member;
      members_[member] = {member};
    }
  }

  /// The reason why these nodes cannot be one op, or should not; empty if they can.
  [[nodiscard]] std::string obstacle_to(const Members& members) {
    if (is_between(members)) return "not fused: an op between needs the one and is needed by the other";
    const Body body = body_of_members(members);
    if (body.results.empty()) return "not fused: nothing reads what it makes";
    if (body.inputs.size() + body.results.size() > kMostOperands)
      return fmt::format("not fused: more than {} operands and results", kMostOperands);
    const auto program = row_program_of(body.graph);
    if (const auto* reason = std::get_if<std::string>(&program)) return "not fused: " + *reason;
    const auto& rows = std::get<RowProgram>(program);
    if (rows.steps.size() > kMostSteps) return fmt::format("not fused: more than {} steps", kMostSteps);
    if (!is_generated_ && stretches(members) && !repeats_whole_pixels(rows, graph_.type(body.results[0])))
      return "not fused: a CPU repeats whole pixels of channels-last images";
    return {};
  }

  [[nodiscard]] bool stretches(const Members& members) const {
    return std::ranges::any_of(members, [&](std::size_t member) { return nodes_[member].op == Op::kResize2d; });
  }

  /// Whether a path leads from one member to a node outside and back to another member.
  [[nodiscard]] bool is_between(const Members& members) const {
    const std::size_t begin = begin_of_line(members.back()), end = end_of_returns(members.back());
    std::vector<bool> seen(end + 1 - begin, false);  // by schedule index, relative to there
    std::vector<std::size_t> open;
    const auto follow = [&](std::size_t node) {
      for (const ValueId result : nodes_[node].results)
        for (const std::size_t reader : readers_[index_of(result)])
          if (reader <= end && line_[reader] == line_[node]) open.push_back(reader);
    };
    for (const std::size_t member : members) follow(member);
    std::erase_if(open, [&](std::size_t reader) { return is_among(members, reader); });
    while (!open.empty()) {
      const std::size_t node = open.back();
      open.pop_back();
      if (is_among(members, node)) return true;
      if (seen[node - begin]) continue;
      seen[node - begin] = true;
      for (const std::size_t other : members_[group_[node]]) follow(other);  // groups that run as one op
    }
    return false;
  }

  /// The last index from which a path may lead back to one up to `last`: paths go backwards only inside a group.
  [[nodiscard]] std::size_t end_of_returns(std::size_t last) const {
    std::size_t end = last;
    for (std::size_t i = begin_of_line(last); i <= end; ++i) end = std::max(end, members_[group_[i]].back());
    return end;
  }
  [[nodiscard]] std::size_t begin_of_line(std::size_t node) const {
    return line_begin_[static_cast<std::size_t>(line_[node])];
  }

  [[nodiscard]] static bool is_among(const Members& members, std::size_t node) {
    return std::ranges::binary_search(members, node);
  }

  /// A group as an op: its body, and the values of the graph for the body's inputs and outputs.
  struct Body {
    Graph graph;
    std::vector<ValueId> inputs;
    std::vector<ValueId> results;
  };

  [[nodiscard]] Body body_of_members(const Members& members) const {
    Body body{.graph = Graph(name_of_members(members)), .inputs = {}, .results = {}};
    Builder builder(body.graph);
    std::map<ValueId, ValueId> known;
    const auto wide = [](DType dtype) { return is_float(dtype) && dtype != DType::kF8E4M3; };
    const auto input = [&](ValueId value) {
      const auto [found, is_new] = known.try_emplace(value, kNoValue);
      if (!is_new) return found->second;
      if (const std::optional<double> constant = constant_at(value)) {
        found->second = builder.emit(Op::kConstant, {}, {{attr::kValues, std::vector<double>{*constant}}})[0];
        return found->second;
      }
      const ValueId own = body.graph.add_input(fmt::format("x{}", body.inputs.size()), graph_.type(value));
      body.inputs.push_back(value);
      found->second = wide(graph_.type(value).dtype) ? builder.cast(own, DType::kF32) : own;
      return found->second;
    };
    for (const std::size_t member : members) {
      const Node& node = nodes_[member];
      std::vector<ValueId> operands;
      for (const ValueId value : node.inputs) operands.push_back(input(value));
      if (node.op == Op::kCast && wide(node.attributes[attr::kDType])) {
        const DType to = node.attributes[attr::kDType];
        known[node.results[0]] = builder.cast(builder.cast(operands[0], to), DType::kF32);
        continue;
      }
      body.graph.append(node.op, std::move(operands), node.attributes, {}, kTopRegion);
      const Node& own = body.graph.nodes().back();
      for (std::size_t i = 0; i < node.results.size(); ++i) known[node.results[i]] = own.results[i];
    }
    for (const std::size_t member : members)
      for (const ValueId result : nodes_[member].results) {
        if (!is_read_outside(result, members)) continue;
        const DType dtype = graph_.type(result).dtype;
        const ValueId own = known.at(result);
        body.graph.add_output(fmt::format("y{}", body.results.size()), wide(dtype) ? builder.cast(own, dtype) : own);
        body.results.push_back(result);
      }
    return body;
  }

  /// "add_layer_norm_mul"
  [[nodiscard]] std::string name_of_members(const Members& members) const {
    std::string name;
    for (const std::size_t member : members)
      if (nodes_[member].op != Op::kCast)
        name += fmt::format("{}{}", name.empty() ? "" : "_", headroom::name_of(nodes_[member].op));
    return name.empty() ? "cast" : name;
  }

  /// The known value of all elements of a one-element tensor.
  [[nodiscard]] std::optional<double> constant_at(ValueId value) const {
    const int maker = producers_[index_of(value)];
    if (maker < 0) return std::nullopt;
    const Node& node = nodes_[static_cast<std::size_t>(maker)];
    const TensorType& type = graph_.type(value);
    if (node.op != Op::kConstant || type.dtype != DType::kF32 || type.shape.rank() != 0) return std::nullopt;
    return node.attributes[attr::kValues][0];
  }

  [[nodiscard]] bool is_read_outside(ValueId value, const Members& inside) const {
    if (is_read_elsewhere_[index_of(value)]) return true;
    return std::ranges::any_of(readers_[index_of(value)],
                               [&](std::size_t reader) { return !is_among(inside, reader); });
  }

  /// Whether a group becomes an op: it has two nodes or more, or one that broadcasts or upsamples to a large tensor.
  /// Without a generator it must also pay.
  [[nodiscard]] bool is_fused(const Members& members) {
    if (members.empty() || !is_generated_) return !members.empty() && pays_without_generator(members);
    if (members.size() != 1) return true;
    const Node& node = nodes_[members[0]];
    const TensorType& made = graph_.type(node.results[0]);
    const auto is_broadcast = [&](ValueId input) { return graph_.type(input).shape != made.shape; };
    return may_fuse(node) && (is_elementwise(node.op) || node.op == Op::kResize2d) && made.bytes() >= kLeastAlone &&
           std::ranges::any_of(node.inputs, is_broadcast) && obstacle_to(members).empty();
  }

  [[nodiscard]] bool pays_without_generator(const Members& members) {
    if (std::ranges::any_of(members, [&](std::size_t member) { return goes_by_bytes(nodes_[member]); }))
      return obstacle_to(members).empty();
    if (members.size() == 1) return false;
    const auto bytes_of = [&](const std::vector<ValueId>& values) {
      double bytes = 0;
      for (const ValueId value : values) bytes += static_cast<double>(graph_.type(value).bytes());
      return bytes;
    };
    double apart = 0;
    for (const std::size_t member : members)
      apart += bytes_of(nodes_[member].inputs) + bytes_of(nodes_[member].results);
    const Body body = body_of_members(members);
    if (apart >= kLeastSaved * (bytes_of(body.inputs) + bytes_of(body.results))) return true;
    note(notes_, "not fused: kernels of their own read and write little more", nodes_[members.back()]);
    return false;
  }

  /// Whether it converts floats from or to one-byte elements, which the CPU kernels of single ops do not vectorize.
  [[nodiscard]] bool goes_by_bytes(const Node& node) const {
    if (!may_fuse(node)) return false;
    const DType from = graph_.type(node.inputs[0]).dtype, to = graph_.type(node.results[0]).dtype;
    const bool is_between = (size_of(from) == 1 && is_float(to)) || (size_of(to) == 1 && is_float(from));
    return (node.op == Op::kCast && is_between) || (node.op == Op::kQuantize && to == DType::kF8E4M3);
  }

  /// Replaces each group by a fused node, and sorts the schedule. Returns the number of fused nodes.
  int rebuild() {
    std::vector<Node> made(nodes_.size());
    std::vector<std::pair<ValueId, ValueId>> renamed;
    int count = 0;
    for (std::size_t group = 0; group < members_.size(); ++group) {
      if (!is_fused(members_[group])) continue;
      Body body = body_of_members(members_[group]);
      const Node& at = node_to_name(members_[group]);
      made[group] =
          graph_.make_node(Op::kFused, body.inputs, Attributes(Op::kFused, {{attr::kBody, canonical_text(body.graph)}}),
                           at.path, at.region);
      for (std::size_t i = 0; i < body.results.size(); ++i)
        renamed.emplace_back(body.results[i], made[group].results[i]);
      ++count;
    }
    if (count == 0) return 0;
    const std::vector<std::size_t> order = ordered();
    std::vector<Node> old = graph_.take_nodes();
    std::vector<Node> schedule;
    for (const std::size_t group : order)
      schedule.push_back(made[group].results.empty() ? std::move(old[group]) : std::move(made[group]));
    std::vector<ValueId> now(graph_.value_count(), kNoValue);  // by value: the one read in its place
    for (const auto& [from, to] : renamed) {
      HR_CHECK(graph_.type(from) == graph_.type(to));
      now[index_of(from)] = to;
      graph_.replace_uses(from, to);  // by readers that are not nodes; the schedule is here
    }
    for (Node& node : schedule)
      for (ValueId& input : node.inputs)
        if (now[index_of(input)] != kNoValue) input = now[index_of(input)];
    graph_.set_nodes(std::move(schedule));
    return count;
  }

  /// The member whose module path the fused node gets: the one with the most FLOPs.
  [[nodiscard]] const Node& node_to_name(const Members& members) const {
    const auto types_of = [&](const std::vector<ValueId>& values) {
      std::vector<TensorType> types;
      for (const ValueId value : values) types.push_back(graph_.type(value));
      return types;
    };
    const auto flops = [&](std::size_t member) {
      const Node& node = nodes_[member];
      return definition_of(node.op).flops.count(node.attributes, types_of(node.inputs), types_of(node.results));
    };
    return nodes_[std::ranges::max(members, {}, flops)];
  }

  /// Groups in topological order, with the original order kept: a group takes the position of its last member.
  [[nodiscard]] std::vector<std::size_t> ordered() const {
    std::vector<std::size_t> waits(members_.size(), 0);
    std::vector<std::set<std::size_t>> next(members_.size());
    for (std::size_t i = 0; i < nodes_.size(); ++i)
      for (const ValueId result : nodes_[i].results)
        for (const std::size_t reader : readers_[index_of(result)])
          if (line_[i] == line_[reader] && group_[i] != group_[reader] && next[group_[i]].insert(group_[reader]).second)
            ++waits[group_[reader]];
    std::vector<std::size_t> order;
    for (std::size_t begin = 0; begin < nodes_.size();) {
      std::size_t end = begin;
      while (end < nodes_.size() && line_[end] == line_[begin]) ++end;
      std::priority_queue<std::pair<std::size_t, std::size_t>, std::vector<std::pair<std::size_t, std::size_t>>,
                          std::greater<>>
          ready;  // last member, group
      const auto push = [&](std::size_t group) { ready.emplace(members_[group].back(), group); };
      for (std::size_t i = begin; i < end; ++i)
        if (!members_[i].empty() && waits[i] == 0) push(i);
      while (!ready.empty()) {
        const std::size_t group = ready.top().second;
        ready.pop();
        order.push_back(group);
        for (const std::size_t other : next[group])
          if (--waits[other] == 0) push(other);
      }
      begin = end;
    }
    return order;
  }

  Graph& graph_;
  bool is_generated_;
  std::span<const Node> nodes_;
  std::vector<bool> is_weight_;                    // by value
  std::vector<int> producers_;                     // by value
  std::vector<bool> is_read_elsewhere_;            // by value
  std::vector<std::vector<std::size_t>> readers_;  // by value: nodes
  std::vector<int> line_;                          // by node
  std::vector<std::size_t> line_begin_;            // by run: its first node
  std::vector<std::size_t> group_;                 // by node: its group, named by one of its members
  std::vector<Members> members_;                   // by group
  std::vector<PassNote> notes_;
};

}  // namespace

/// If the target has no kernel for bodies, every op keeps its kernel. The other passes of `fuse` keep their results,
/// so this pass does not decline.
PassOutcome fuse_rows(Graph& graph, const Target& target) {
  if (!obstacle_to(Capability::kFusedBodies, target).empty()) return {};
  return RowFusion(graph, obstacle_to(Capability::kGeneratedKernels, target).empty()).run();
}

}  // namespace headroom
