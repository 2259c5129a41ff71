#include "differential/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.hpp"
#include "differential/bound_parts.hpp"
#include "differential/bound_rules.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "ir/interpreter.hpp"
#include "ir/op_definition.hpp"
#include "ir/schedule.hpp"

namespace headroom::differential {
namespace {

constexpr std::size_t kMostElements = std::size_t{8} << 20U;  // cached, of 16 bytes each

std::vector<Bounded> bound_plain(Op op, const Attributes& attributes, const std::vector<const Bounded*>& operands,
                                 Covers covers, Within within) {
  std::vector<const OracleTensor*> values;
  for (const Bounded* operand : operands) values.push_back(&operand->value);
  std::vector<OracleTensor> results = interpret_node(op, attributes, values);
  std::vector<std::vector<double>> errors = bound_errors({op, attributes, operands, results, covers, within});
  std::vector<Bounded> bounded;
  for (std::size_t i = 0; i < results.size(); ++i) bounded.push_back({std::move(results[i]), std::move(errors[i])});
  return bounded;
}

/// Adds half a step of a sum with its residual, which cuBLASLt adds before the bias.
void add_rounding_before_bias(Op op, const std::vector<const Bounded*>& operands, const Attributes& attributes,
                              Bounded& result) {
  const std::size_t at = position_of(op, Role::kBias);
  const bool has_bias = operands.size() - attributes.epilogue_operands() > at;
  const double step = storage_unit(result.value.type.dtype).relative;
  const Shape& shape = result.value.type.shape;
  const std::int64_t pixels = is_matmul(op) ? 1 : shape[2] * shape[3], channels = is_matmul(op) ? shape[-1] : shape[1];
  for (std::size_t i = 0; i < result.error.size(); ++i) {
    const auto channel = static_cast<std::size_t>(static_cast<std::int64_t>(i) / pixels % channels);
    const double bias = has_bias ? operands[at]->value.reals[channel] : 0;
    result.error[i] += step * std::fabs(result.value.reals[i] - bias);
  }
}

/// Adds what a value may be off that is rounded to a narrow dtype.
void add_rounding_of_cast(Bounded& result) {
  if (!is_float(result.value.type.dtype)) return;
  const StorageUnit unit = storage_unit(result.value.type.dtype);
  for (std::size_t i = 0; i < result.error.size(); ++i)
    if (std::isfinite(result.value.reals[i]))
      result.error[i] += unit.relative * std::fabs(result.value.reals[i]) + unit.least;
}

/// Evaluates the plain ops of a fused op, one after the other.
std::vector<Bounded> bound_fused(Op op, const Attributes& attributes, const std::vector<const Bounded*>& operands,
                                 Covers covers) {
  Graph graph(std::string(name_of(op)));
  std::vector<ValueId> inputs;
  for (const Bounded* operand : operands)
    inputs.push_back(graph.add_input(fmt::format("{}", inputs.size()), operand->value.type));
  Builder builder(graph);
  const std::vector<ValueId> results = expand_node(builder, op, attributes, inputs);

  const Within within{.makes = graph.type(results[0]).dtype,
                      .multiplies_f8 = operands[0]->value.type.dtype == DType::kF8E4M3,
                      .is_cublaslt = covers == Covers::kCudaKernels &&
                                     (op == Op::kLinear || op == Op::kScaledLinear || op == Op::kConv2d)};
  std::vector<Bounded> values(graph.value_count());
  for (std::size_t i = 0; i < inputs.size(); ++i) values[index_of(inputs[i])] = *operands[i];
  for (const Node& node : graph.nodes()) {
    std::vector<const Bounded*> read;
    for (const ValueId input : node.inputs) read.push_back(&values[index_of(input)]);
    std::vector<Bounded> made = bound_plain(node.op, node.attributes, read, covers, within);
    for (std::size_t i = 0; i < made.size(); ++i) values[index_of(node.results[i])] = std::move(made[i]);
  }
  const std::vector<int> producers = find_producers(graph);
  std::vector<Bounded> out;
  for (const ValueId result : results) {
    out.push_back(values[index_of(result)]);
    // A definition may end in a cast, whose rounding a body that the op becomes part of leaves out.
    const int last = producers[index_of(result)];
    if (last >= 0 && graph.nodes()[static_cast<std::size_t>(last)].op == Op::kCast) add_rounding_of_cast(out.back());
  }
  if (within.is_cublaslt && is_narrow(within.makes) && attributes.epilogue_operands() > 0)
    add_rounding_before_bias(op, operands, attributes, out[0]);
  return out;
}

}  // namespace

/// A graph and its values at the current point of the run: ir/interpreter.cpp with bounds.
class BoundedInterpreter::Run {
 public:
  Run(BoundedInterpreter& known, const Graph& graph, Covers covers)
      : known_(known), graph_(graph), covers_(covers), schedule_(graph), values_(graph.value_count()) {}

  void bind(ValueKind kind, const NamedTensors& given) {
    for (const ValueId id : graph_.values_of(kind)) {
      const Value& value = graph_.value(id);
      values_[index_of(id)] = known_.given(given.at(value.name), value.type);
    }
  }

  void run_region(RegionId id) {
    for (const ScheduleItem& item : schedule_.items(id)) {
      if (item.region == kNoRegion)
        run_node(graph_.nodes()[item.node]);
      else if (graph_.region(item.region).kind == RegionKind::kLoop)
        run_loop(item.region);
      else
        run_if(item.region);
    }
    end_region(id);
  }

  [[nodiscard]] const Bounded& get(ValueId id) const { return *values_[index_of(id)]; }

 private:
  void run_node(const Node& node) {
    std::vector<const Bounded*> operands;
    for (const ValueId input : node.inputs) operands.push_back(values_[index_of(input)].get());
    const std::vector<Shared>& results = known_.make(node.op, node.attributes, operands, covers_);
    for (std::size_t i = 0; i < results.size(); ++i) values_[index_of(node.results[i])] = results[i];
  }

  void run_loop(RegionId id) {
    const Region& loop = graph_.region(id);
    const TensorType& type = graph_.type(loop.counter);
    for (std::int64_t i = 0; i < loop.trip_count; ++i) {
      HostTensor counter(type.dtype, type.shape);
      counter.set(0, static_cast<double>(i));
      values_[index_of(loop.counter)] = known_.given(counter, type);
      run_region(id);
    }
  }

  void run_if(RegionId id) {
    const Region& then = graph_.region(id);
    const Bounded& predicate = get(then.predicate);
    HR_CHECK(predicate.error[0] == 0);  // the generator makes no others
    if (predicate.value.integers[0] != 0) return run_region(id);
    then.branch != kNoRegion ? run_region(then.branch) : end_region(id, false);
  }

  void end_region(RegionId id, bool ran = true) {
    std::vector<std::pair<ValueId, Shared>> updates;
    for (const Assignment& assignment : assignments_at_end(graph_, id, ran))
      updates.emplace_back(assignment.to, values_[index_of(assignment.from)]);
    for (auto& [value, now] : updates) values_[index_of(value)] = std::move(now);
  }

  BoundedInterpreter& known_;
  const Graph& graph_;
  Covers covers_;
  Schedule schedule_;
  std::vector<Shared> values_;
};

std::vector<Bounded> bound_node(Op op, const Attributes& attributes, const std::vector<const Bounded*>& operands,
                                Covers covers) {
  if (is_fused(op, attributes)) return bound_fused(op, attributes, operands, covers);
  return bound_plain(op, attributes, operands, covers, {});
}

Bounded exactly(const HostTensor& tensor, const TensorType& type) {
  const auto numel = static_cast<std::size_t>(type.shape.numel());
  Bounded bounded{{type, {}, {}}, std::vector<double>(numel, 0.0)};
  if (is_float(type.dtype)) {
    bounded.value.reals.resize(numel);
    for (std::size_t i = 0; i < numel; ++i) bounded.value.reals[i] = tensor.at(static_cast<std::int64_t>(i));
  } else {
    bounded.value.integers.resize(numel);
    for (std::size_t i = 0; i < numel; ++i)
      bounded.value.integers[i] = static_cast<std::int64_t>(tensor.at(static_cast<std::int64_t>(i)));
  }
  return bounded;
}

BoundedInterpreter::Shared BoundedInterpreter::given(const HostTensor& tensor, const TensorType& type) {
  Shared& known = given_[{fmt::format("{}", type), {tensor.bytes().begin(), tensor.bytes().end()}}];
  if (known == nullptr) known = std::make_shared<const Bounded>(exactly(tensor, type));
  return known;
}

const std::vector<BoundedInterpreter::Shared>& BoundedInterpreter::make(Op op, const Attributes& attributes,
                                                                        const std::vector<const Bounded*>& operands,
                                                                        Covers covers) {
  std::vector<Made>& alike = made_[{op, covers, operands}];
  const auto known = std::ranges::find(alike, attributes, &Made::attributes);
  if (known != alike.end()) return known->results;
  Made& made = alike.emplace_back(Made{attributes, {}});
  for (Bounded& result : bound_node(op, attributes, operands, covers)) {
    elements_ += result.error.size();
    made.results.push_back(std::make_shared<const Bounded>(std::move(result)));
  }
  return made.results;
}

BoundedResult BoundedInterpreter::run(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                                      const NamedTensors& states, Covers covers) {
  if (elements_ > kMostElements) {
    made_.clear();
    elements_ = 0;
  }
  Run run(*this, graph, covers);
  run.bind(ValueKind::kInput, inputs);
  run.bind(ValueKind::kParam, params);
  run.bind(ValueKind::kState, states);
  run.run_region(kTopRegion);
  BoundedResult result;
  for (const Output& output : graph.outputs()) result.outputs[output.name] = run.get(output.value);
  for (const ValueId state : graph.values_of(ValueKind::kState))
    result.states[graph.value(state).name] = run.get(state);
  return result;
}

BoundedResult interpret_bounded(const Graph& graph, const NamedTensors& inputs, const NamedTensors& params,
                                const NamedTensors& states, Covers covers) {
  return BoundedInterpreter().run(graph, inputs, params, states, covers);
}

}  // namespace headroom::differential
