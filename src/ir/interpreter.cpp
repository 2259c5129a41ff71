#include "ir/interpreter.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "ir/interpret_ops.hpp"
#include "ir/schedule.hpp"
#include "ir/verify.hpp"

namespace headroom {
namespace {

std::string_view name_of(ValueKind kind) {
  switch (kind) {
    case ValueKind::kInput:
      return "input";
    case ValueKind::kParam:
      return "param";
    case ValueKind::kState:
      return "state";
    case ValueKind::kCounter:
      return "counter";
    case ValueKind::kResult:
      return "result";
    case ValueKind::kRegionResult:
      return "region result";
  }
  HR_CHECK(false);
}

/// Whether every number of dtype `declared` can be given as `given`: the same dtype, or a wider one of its kind.
bool may_stand_for(DType given, DType declared) {
  return given == declared || (is_float(given) == is_float(declared) && size_of(given) > size_of(declared));
}

OracleTensor load(const HostTensor& tensor, const TensorType& type) {
  OracleTensor loaded = oracle::make_tensor(type);
  for (std::size_t i = 0; i < loaded.reals.size(); ++i) loaded.reals[i] = tensor.at(static_cast<std::int64_t>(i));
  for (std::size_t i = 0; i < loaded.integers.size(); ++i) {
    const auto index = static_cast<std::int64_t>(i);
    // Not through a double, which does not hold every i64.
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

/// A graph and what its values hold at this point of the run.
class Interpreter {
 public:
  explicit Interpreter(const Graph& graph) : graph_(graph), schedule_(graph), values_(graph.value_count()) {}

  /// Fills every value of `kind` from the tensor of its name.
  void bind(ValueKind kind, const NamedTensors& given) {
    for (const ValueId id : graph_.values_of(kind)) {
      const Value& value = graph_.value(id);
      const auto found = given.find(value.name);
      if (found == given.end()) {
        fail("the {} {} ({}{}) was not given", name_of(kind), value.name, value.type.dtype, value.type.shape);
      }
      const HostTensor& tensor = found->second;
      if (tensor.shape() != value.type.shape || !may_stand_for(tensor.dtype(), value.type.dtype)) {
        fail("the {} {} must be {}{}, but was given as {}{}", name_of(kind), value.name, value.type.dtype,
             value.type.shape, tensor.dtype(), tensor.shape());
      }
      values_[index_of(id)] = load(tensor, value.type);
    }
  }

  void run() { run_region(kTopRegion); }

  [[nodiscard]] HostTensor get(ValueId id) const { return store(values_[index_of(id)]); }

 private:
  /// What stands in a region, once, and then its state updates.
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
    counter = oracle::make_tensor(graph_.type(loop.counter));
    for (std::int64_t i = 0; i < loop.trip_count; ++i) {
      counter.integers[0] = i;
      run_region(id);
    }
  }

  void run_if(RegionId id) {
    const Region& then = graph_.region(id);
    if (values_[index_of(then.predicate)].integers[0] != 0) return run_region(id);
    if (then.branch != kNoRegion) return run_region(then.branch);
    for (const RegionResult& result : then.results)
      values_[index_of(result.value)] = values_[index_of(result.otherwise)];
  }

  void run_node(const Node& node) {
    std::vector<const OracleTensor*> operands;
    for (const ValueId input : node.inputs) operands.push_back(&values_[index_of(input)]);
    std::vector<OracleTensor> results;
    try {
      results = oracle::evaluate(node.op, node.attributes, operands);
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", describe(node), error.what()), error.code());
    }
    for (std::size_t i = 0; i < results.size(); ++i) values_[index_of(node.results[i])] = std::move(results[i]);
  }

  /// Gives a region's results their values and its states their next ones, all at once: every value is read before any
  /// changes, so two states may swap.
  void end_region(RegionId id) {
    std::vector<std::pair<ValueId, OracleTensor>> updates;
    for (const StateUpdate& update : graph_.state_updates())
      if (update.region == id) updates.emplace_back(update.value, values_[index_of(update.next)]);
    const Region& region = graph_.region(id);
    const bool is_else = region.kind == RegionKind::kElse;
    for (const RegionResult& result : (is_else ? graph_.region(region.branch) : region).results)
      updates.emplace_back(result.value, values_[index_of(is_else ? result.otherwise : result.from)]);
    for (auto& [value, now] : updates) values_[index_of(value)] = std::move(now);
  }

  const Graph& graph_;
  Schedule schedule_;
  std::vector<OracleTensor> values_;
};

}  // namespace

OracleResult interpret(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                       const NamedTensors& states) {
  verify(graph);
  Interpreter interpreter(graph);
  interpreter.bind(ValueKind::kInput, inputs);
  interpreter.bind(ValueKind::kParam, params);
  interpreter.bind(ValueKind::kState, states);
  interpreter.run();
  OracleResult result;
  for (const Output& output : graph.outputs()) result.outputs.emplace(output.name, interpreter.get(output.value));
  for (const ValueId state : graph.values_of(ValueKind::kState)) {
    result.states.emplace(graph.value(state).name, interpreter.get(state));
  }
  return result;
}

}  // namespace headroom
