#include "measure/protocol/op_run.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "ir/builder.hpp"
#include "ir/expand.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kSeed = 0;

bool is_weight(const OpSpec& spec, std::size_t input) { return input < spec.is_weight.size() && spec.is_weight[input]; }

bool is_quantized(DType dtype) { return dtype == DType::kI8 || dtype == DType::kF8E4M3; }

Checkpoint random_weights(const OpSpec& spec) {
  std::vector<TensorSpec> tensors;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    if (!is_weight(spec, i)) continue;
    const DType dtype = is_quantized(spec.inputs[i].dtype) ? DType::kF32 : spec.inputs[i].dtype;
    tensors.push_back({.name = "x" + std::to_string(i), .dtype = dtype, .shape = spec.inputs[i].shape});
  }
  return Checkpoint::random(nlohmann::json::object(), std::move(tensors), kSeed);
}

/// Standard normal numbers, repeated after a million elements: sufficient for timing. In i8 they are scaled by
/// 40. Other integers are indices, set to 0.
HostTensor random_operand(const TensorType& type, std::uint64_t stream) {
  HostTensor tensor(type.dtype, type.shape);
  const double scale = type.dtype == DType::kI8 ? 40 : 1;
  if (!is_float(type.dtype) && type.dtype != DType::kI8) return tensor;
  constexpr std::int64_t kPeriod = 1 << 20;
  const std::int64_t fresh = std::min(kPeriod, type.shape.numel());
  std::vector<float> values(static_cast<std::size_t>(fresh));
  fill_normal(values, kSeed, stream);
  for (std::int64_t i = 0; i < fresh; ++i)
    tensor.set(i, scale * static_cast<double>(values[static_cast<std::size_t>(i)]));
  const std::size_t period = static_cast<std::size_t>(fresh) * size_of(type.dtype);
  const std::span<std::byte> bytes = tensor.bytes();
  for (std::size_t at = period; at < bytes.size(); at += period)
    std::copy_n(bytes.begin(), std::min(period, bytes.size() - at), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  return tensor;
}

}  // namespace

OpSpec bare(OpSpec spec) {
  if (spec.attributes.has(attr::kEpilogue) && spec.attributes.epilogue_operands() == 0)
    spec.attributes = spec.attributes.with(attr::kEpilogue, Epilogue());
  return spec;
}

Graph graph_of(const OpSpec& spec) {
  Graph graph("op");
  Builder builder(graph);
  std::vector<ValueId> inputs;
  for (std::size_t i = 0; i < spec.inputs.size(); ++i) {
    const std::string name = "x" + std::to_string(i);
    if (!is_weight(spec, i))
      inputs.push_back(graph.add_input(name, spec.inputs[i]));
    else if (is_quantized(spec.inputs[i].dtype))
      inputs.push_back(
          builder.quantize(graph.add_param(name, {DType::kF32, spec.inputs[i].shape}), spec.inputs[i].dtype).first);
    else
      inputs.push_back(graph.add_param(name, spec.inputs[i]));
  }
  const auto attributes = spec.attributes.all();
  const std::vector<ValueId> results = builder.emit(spec.op, std::move(inputs), {attributes.begin(), attributes.end()});
  for (std::size_t i = 0; i < results.size(); ++i) graph.add_output("y" + std::to_string(i), results[i]);
  return graph;
}

OpRun::OpRun(Backend& backend, const OpSpec& spec, OpForm form, NewWork new_work)
    : spec_(spec), checkpoint_(random_weights(spec)), weights_(backend, checkpoint_) {
  Graph whole = graph_of(spec);
  DeviceTarget target = backend.properties().target;
  target.new_work = new_work;
  Program program = plan(form == OpForm::kApart ? expand(whole) : std::move(whole), target, {.arena = true});
  HR_CHECK(form == OpForm::kApart || program.steps.size() == 1);
  session_ = std::make_unique<Session>(std::make_shared<const Program>(std::move(program)), weights_, backend);
  std::uint64_t stream = 0;
  const Graph& graph = session_->program().graph;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const std::string& name = graph.value(input).name;
    const DType dtype = graph.type(input).dtype;
    const bool is_drawn_there = dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16;
    if (is_drawn_there && backend.properties().target.device->has_launches)  // much faster than on the host
      session_->set_input_normal(name, {.seed = kSeed, .stream = stream++});
    else
      session_->set_input(name, random_operand(graph.type(input), stream++));
  }
}

}  // namespace headroom
