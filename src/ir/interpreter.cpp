#include "ir/interpreter.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/rank_team.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/infer.hpp"
#include "ir/op_definition.hpp"
#include "ir/ranks/collectives.hpp"
#include "ir/schedule.hpp"
#include "ir/verify.hpp"

namespace headroom {
namespace {

/// A tensor of that type, filled with zeros.
OracleTensor make_tensor(const TensorType& type) {
  OracleTensor tensor{type, {}, {}};
  const auto numel = static_cast<std::size_t>(type.shape.numel());
  is_float(type.dtype) ? tensor.reals.resize(numel) : tensor.integers.resize(numel);
  return tensor;
}

/// Whether dtype `given` holds every number of dtype `declared`: the same dtype, or a wider one of its kind.
bool may_be_given_for(DType given, DType declared) {
  return given == declared || (is_float(given) == is_float(declared) && size_of(given) > size_of(declared));
}

OracleTensor load(const HostTensor& tensor, const TensorType& type) {
  OracleTensor loaded = make_tensor(type);
  for (std::size_t i = 0; i < loaded.reals.size(); ++i) loaded.reals[i] = tensor.at(static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < loaded.integers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    // Not through a double, which cannot hold every i64.
    loaded.integers[i] =
        tensor.dtype() == DType::kI64 ? tensor.as<std::int64_t>()[i] : static_cast<std::int64_t>(tensor.at(index));
  }
  return loaded;
}

HostTensor store(const OracleTensor& tensor) {
  const bool real = is_float(tensor.type.dtype);
  HostTensor stored(real ? DType::kF64 : DType::kI64, tensor.type.shape);
  if (real) {
    std::ranges::copy(tensor.reals, stored.as<double>().begin());
  } else {
    std::ranges::copy(tensor.integers, stored.as<std::int64_t>().begin());
  }
  return stored;
}

std::span<const std::byte> bytes_of(const OracleTensor& tensor) {
  return tensor.reals.empty() ? std::as_bytes(std::span(tensor.integers)) : std::as_bytes(std::span(tensor.reals));
}
std::span<std::byte> bytes_of(OracleTensor& tensor) {
  return tensor.reals.empty() ? std::as_writable_bytes(std::span(tensor.integers))
                              : std::as_writable_bytes(std::span(tensor.reals));
}

/// A collective of the rank that this thread is in `team`: computed from the operands of all ranks of its group.
OracleTensor interpret_collective(RankTeam& team, const Node& node, const OracleTensor& own, const TensorType& type) {
  const Ints& group = node.attributes[attr::kGroup];
  const auto own_member = static_cast<std::size_t>(node.attributes[attr::kRank]);
  std::vector<OracleTensor> others;
  for (std::size_t member = 0; member < group.size(); ++member)
    others.push_back(make_tensor(operand_of_member(node.op, node.attributes, own.type, member)));
  std::vector<RankTeam::Sent> sent;
  std::vector<RankTeam::Received> received;
  std::vector<const OracleTensor*> operands;
  for (std::size_t member = 0; member < group.size(); ++member) {
    operands.push_back(member == own_member ? &own : &others[member]);
    if (member == own_member) continue;
    sent.push_back({.to = static_cast<int>(group[member]), .bytes = bytes_of(own)});
    received.push_back({.from = static_cast<int>(group[member]), .bytes = bytes_of(others[member])});
  }
  team.exchange(static_cast<int>(group[own_member]), sent, received);
  OracleTensor result = make_tensor(type);
  definition_of(node.op).evaluate(node.attributes, operands, std::span(&result, 1));
  return result;
}

/// A graph and the current contents of its values.
class Interpreter {
 public:
  /// `team` runs the graph's collectives with other ranks; null for a rank alone.
  explicit Interpreter(const Graph& graph, RankTeam* team = nullptr)
      : graph_(graph), schedule_(graph), values_(graph.value_count()), team_(team) {}

  /// Fills every value of `kind` from the tensor of its name.
  void bind(ValueKind kind, const NamedTensors& given) {
    for (const ValueId id : graph_.values_of(kind)) {
      const Value& value = graph_.value(id);
      const auto found = given.find(value.name);
      if (found == given.end()) {
        fail("the {} {} ({}) was not given", name_of(kind), value.name, value.type);
      }
      const HostTensor& tensor = found->second;
      if (tensor.shape() != value.type.shape || !may_be_given_for(tensor.dtype(), value.type.dtype)) {
        fail("the {} {} must be {}, but was given as {}{}", name_of(kind), value.name, value.type, tensor.dtype(),
             tensor.shape());
      }
      values_[index_of(id)] = load(tensor, value.type);
    }
  }

  void run() { run_region(kTopRegion); }

  [[nodiscard]] OracleTensor& operator[](ValueId id) { return values_[index_of(id)]; }

 private:
  /// Runs the items of a region once, and then its state updates.
  void run_region(RegionId id) {
    for (const ScheduleItem& item : schedule_.items(id)) {
      if (item.region == kNoRegion) {
        run_node(graph_.nodes()[item.node]);
      } else if (graph_.region(item.region).kind == RegionKind::kLoop) {
        run_loop(item.region);
      } else {
        run_if(item.region);
      }
    }
    end_region(id);
  }

  void run_loop(RegionId id) {
    const Region& loop = graph_.region(id);
    OracleTensor& counter = values_[index_of(loop.counter)];
    counter = make_tensor(graph_.type(loop.counter));
    for (std::int64_t i = 0; i < loop.trip_count; ++i) {
      counter.integers[0] = i;
      run_region(id);
    }
  }

  void run_if(RegionId id) {
    const Region& then = graph_.region(id);
    if (values_[index_of(then.predicate)].integers[0] != 0) return run_region(id);
    then.branch != kNoRegion ? run_region(then.branch) : end_region(id, false);
  }

  void run_node(const Node& node) {
    std::vector<const OracleTensor*> operands;
    for (const ValueId input : node.inputs) operands.push_back(&values_[index_of(input)]);
    std::vector<OracleTensor> results;
    if (team_ != nullptr && definition_of(node.op).is_collective) {
      values_[index_of(node.results[0])] =
          interpret_collective(*team_, node, *operands[0], graph_.type(node.results[0]));
      return;
    }
    try {
      results = interpret_node(node.op, node.attributes, operands);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", describe(node), error.what()), error.code());
    }
    for (std::size_t i = 0; i < results.size(); ++i) values_[index_of(node.results[i])] = std::move(results[i]);
  }

  /// Updates states and sets the region's results; also for a skipped then without an else.
  void end_region(RegionId id, bool ran = true) {
    std::vector<std::pair<ValueId, OracleTensor>> updates;
    for (const Assignment& assignment : assignments_at_end(graph_, id, ran))
      updates.emplace_back(assignment.to, values_[index_of(assignment.from)]);
    for (auto& [value, now] : updates) values_[index_of(value)] = std::move(now);
  }

  const Graph& graph_;
  Schedule schedule_;
  std::vector<OracleTensor> values_;
  RankTeam* team_;
};

/// Runs the plain ops of a fused one.
std::vector<OracleTensor> interpret_fused(Op op, const Attributes& attributes, Operands in) {
  Graph graph(std::string(name_of(op)));
  std::vector<ValueId> inputs;
  for (const OracleTensor* operand : in)
    inputs.push_back(graph.add_input(fmt::format("{}", inputs.size()), operand->type));
  Builder builder(graph);
  const std::vector<ValueId> results = expand_node(builder, op, attributes, inputs);
  Interpreter interpreter(graph);
  for (std::size_t i = 0; i < inputs.size(); ++i) interpreter[inputs[i]] = *in[i];
  interpreter.run();
  std::vector<OracleTensor> out;
  for (const ValueId result : results) out.push_back(interpreter[result]);
  return out;
}

}  // namespace

std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes, Operands in) {
  std::vector<TensorType> types;
  for (const OracleTensor* operand : in) types.push_back(operand->type);
  std::vector<OracleTensor> out;
  for (const TensorType& type : infer(op, attributes, types)) out.push_back(make_tensor(type));
  if (is_fused(op, attributes)) return interpret_fused(op, attributes, in);

  if (definition_of(op).is_collective && attributes[attr::kGroup].size() != 1)
    fail("{} is of {} ranks, and one was given", name_of(op), attributes[attr::kGroup].size());
  definition_of(op).evaluate(attributes, in, out);
  return out;
}

std::vector<OracleTensor> interpret_node(Op op, const Attributes& attributes, const std::vector<OracleTensor>& inputs) {
  std::vector<const OracleTensor*> operands;
  for (const OracleTensor& input : inputs) {
    const auto elements = is_float(input.type.dtype) ? input.reals.size() : input.integers.size();
    HR_CHECK_EQ(elements, static_cast<std::size_t>(input.type.shape.numel()));
    operands.push_back(&input);
  }
  return interpret_node(op, attributes, operands);
}

namespace {

OracleResult interpret_with(RankTeam* team, const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                            const NamedTensors& states) {
  verify(graph);
  Interpreter interpreter(graph, team);
  interpreter.bind(ValueKind::kInput, inputs);
  interpreter.bind(ValueKind::kParam, params);
  interpreter.bind(ValueKind::kState, states);
  interpreter.run();
  OracleResult result;
  for (const Output& output : graph.outputs()) result.outputs.emplace(output.name, store(interpreter[output.value]));
  for (const ValueId state : graph.values_of(ValueKind::kState))
    result.states.emplace(graph.value(state).name, store(interpreter[state]));
  return result;
}

}  // namespace

OracleResult interpret(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                       const NamedTensors& states) {
  return interpret_with(nullptr, graph, inputs, params, states);
}

std::vector<OracleResult> interpret_ranks(std::span<const Graph> graphs, std::span<const RankTensors> given) {
  HR_CHECK_EQ(graphs.size(), given.size());
  std::vector<const Graph*> pointers;
  for (const Graph& graph : graphs) pointers.push_back(&graph);
  require_equal_collectives(pointers);
  std::vector<OracleResult> results(graphs.size());
  RankTeam team(static_cast<int>(graphs.size()));
  team.run([&](int rank) {
    const auto at = static_cast<std::size_t>(rank);
    results[at] = interpret_with(&team, graphs[at], given[at].inputs, given[at].params, given[at].states);
  });
  return results;
}

}  // namespace headroom
