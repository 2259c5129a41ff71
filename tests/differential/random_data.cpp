#include "differential/random_data.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/files/hash.hpp"
#include "base/tensors/random.hpp"
#include "ir/test_cases/value_range.hpp"

namespace headroom::differential {
namespace {

/// The values that every reader takes: those of the first one that needs certain values, such as indices of rows.
ValueRange range_of(const Graph& graph, ValueId id) {
  const ValueRange any = value_range(graph.type(id).dtype);
  for (const Node& node : graph.nodes()) {
    const auto found = std::ranges::find(node.inputs, id);
    if (found == node.inputs.end()) continue;
    OpSpec spec{.op = node.op, .attributes = node.attributes, .inputs = {}, .outputs = {}, .is_weight = {}};
    for (const ValueId input : node.inputs) spec.inputs.push_back(graph.type(input));
    const ValueRange range = value_range(spec, static_cast<std::size_t>(found - node.inputs.begin()));
    if (range.kind == ValueRange::kIntegers && range != any) return range;
  }
  return any;
}

/// The standard deviation of normal values: for weights, the one that preserves the magnitude of a matmul.
double deviation_of(const Graph& graph, ValueId id) {
  const TensorType& type = graph.type(id);
  if (graph.value(id).kind != ValueKind::kParam || type.shape.rank() < 2) return 1;
  if (type.dtype == DType::kF8E4M3) return 32;  // stored elements, for which a scale is made
  return 1 / std::sqrt(static_cast<double>(std::max<std::int64_t>(1, type.shape.numel() / type.shape[0])));
}

bool is_scale(const Value& value) { return value.kind == ValueKind::kParam && value.name.starts_with("scale"); }
bool is_time(const Value& value) { return value.kind == ValueKind::kInput && value.name.starts_with("time"); }

HostTensor draw(const Graph& graph, ValueId id, std::uint64_t seed, std::uint64_t run) {
  const Value& value = graph.value(id);
  const std::uint64_t stream = Hasher().add(value.name).add(value.kind).add(run).digest();
  std::vector<float> draws(static_cast<std::size_t>(value.type.shape.numel()));
  HostTensor tensor(value.type.dtype, value.type.shape);
  const bool is_uniform = !is_float(value.type.dtype) || is_scale(value) || is_time(value);
  is_uniform ? fill_uniform(draws, seed, stream) : fill_normal(draws, seed, stream);
  const ValueRange range = range_of(graph, id);
  const double deviation = deviation_of(graph, id);
  for (std::size_t i = 0; i < draws.size(); ++i) {
    double element = static_cast<double>(draws[i]) * deviation;
    if (!is_float(value.type.dtype))
      element =
          static_cast<double>(range.low) + std::floor(static_cast<double>(draws[i] * static_cast<float>(range.count)));
    else if (is_scale(value))
      element = 0.002 + 0.004 * static_cast<double>(draws[i]);  // for values of about 100, in rows of 16
    tensor.set(static_cast<std::int64_t>(i), element);
  }
  return tensor;
}

NamedTensors draw_all(const Graph& graph, ValueKind kind, std::uint64_t seed, std::uint64_t run) {
  NamedTensors tensors;
  for (const ValueId id : graph.values_of(kind)) tensors.emplace(graph.value(id).name, draw(graph, id, seed, run));
  return tensors;
}

}  // namespace

NamedTensors random_inputs(const Graph& graph, std::uint64_t seed, std::uint64_t run) {
  return draw_all(graph, ValueKind::kInput, seed, run);
}
NamedTensors random_params(const Graph& graph, std::uint64_t seed) {
  return draw_all(graph, ValueKind::kParam, seed, 0);
}
NamedTensors random_states(const Graph& graph, std::uint64_t seed) {
  return draw_all(graph, ValueKind::kState, seed, 0);
}

NamedTensors plant(const Graph& graph, NamedTensors inputs, Special special, std::uint64_t seed) {
  std::vector<HostTensor*> taken;
  for (const ValueId id : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(id);
    if (is_float(value.type.dtype) && value.type.shape.numel() > 0) taken.push_back(&inputs.at(value.name));
  }
  if (taken.empty()) return {};
  const auto draw = [&](std::uint64_t what, std::size_t of) {
    return static_cast<std::size_t>(Hasher().add(seed).add(special).add(what).digest() % of);
  };
  constexpr double infinity = std::numeric_limits<double>::infinity();
  HostTensor& tensor = *taken[draw(0, taken.size())];
  const auto numel = static_cast<std::size_t>(tensor.shape().numel());
  const auto set = [&](std::size_t at, double number) { tensor.set(static_cast<std::int64_t>(at), number); };
  if (special == Special::kNaN) set(draw(1, numel), std::numeric_limits<double>::quiet_NaN());
  if (special == Special::kInfinities) {
    set(draw(1, numel), infinity);
    set(draw(2, numel), -infinity);
  }
  if (special == Special::kZeros) {
    const std::size_t width = tensor.shape().rank() == 0 ? 1 : static_cast<std::size_t>(tensor.shape()[-1]);
    const std::size_t first = draw(1, numel / width) * width;
    for (std::size_t i = 0; i < width; ++i) set(first + i, 0);
  }
  return inputs;
}

}  // namespace headroom::differential
