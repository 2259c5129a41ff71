#include "run/forward_pass.hpp"

#include <cmath>
#include <optional>
#include <utility>

#include "base/tensors/random.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kSeed = 0;

/// Random values within the range of the input, or otherwise normal ones.
HostTensor random_input(const TensorType& type, const std::optional<InputRange>& range, std::uint64_t stream) {
  HostTensor numbers(DType::kF32, type.shape);
  const std::span<float> values = numbers.as<float>();
  if (!range) {
    fill_normal(values, kSeed, stream);
    return convert(numbers, type.dtype);
  }
  fill_uniform(values, kSeed, stream);
  for (float& value : values) {
    const double number = range->low + (range->high - range->low) * static_cast<double>(value);
    value = static_cast<float>(is_float(type.dtype) ? number : std::floor(number));
  }
  return convert(numbers, type.dtype);
}

/// The properties that distinguish it from other passes of the network.
nlohmann::json request_of(const Component& component, const ComponentPass& pass, const PassSize& size) {
  if (component.kind->text_tokens != nullptr)
    return {{"pass", pass.name}, {"batch", size.batch}, {"text_tokens", size.text_tokens}};
  return {{"pass", pass.name}, {"batch", size.batch}, {"height", size.height}, {"width", size.width}};
}

ForwardPass pass_of(const Component& component, nlohmann::json request, const RequestSize& size,
                    std::function<Graph(const RequestSize& size)> build,
                    std::function<void(Session& session)> set_inputs) {
  return {.component = &component,
          .request = std::move(request),
          .size = size,
          .build = std::move(build),
          .set_inputs = std::move(set_inputs)};
}

CompileOptions options_of(const ForwardPass& pass) {
  return {.steps_applied = pass.is_stream_frame,
          .stream_applied = pass.is_stream_frame,
          .baseline = pass.component->baseline,
          .fresh_inputs = pass.fresh_inputs};
}

}  // namespace

void set_random_inputs(const Component& component, Session& session) {
  const Graph& graph = session.program().graph;
  std::uint64_t stream = 0;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(input);
    const auto range =
        component.kind->range == nullptr ? std::nullopt : component.kind->range(component.config, value.name);
    session.set_input(value.name, random_input(value.type, range, stream++));
  }
}

ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass, const PassSize& size) {
  const auto build = [&component, &pass, size](const RequestSize& request) {
    PassSize asked = size;
    asked.batch = request.images;
    return component.build(pass, pass.shapes(component.config, asked));
  };
  return pass_of(component, request_of(component, pass, size), {.images = size.batch}, build,
                 [&component](Session& session) { set_random_inputs(component, session); });
}

ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass, InputShapes given,
                              std::function<void(Session& session)> set_inputs) {
  nlohmann::json request = {{"pass", pass.name}};
  for (const auto& [name, shape] : given) request["shapes"][name] = fmt::format("{}", shape);
  const auto build = [&component, &pass, given = std::move(given)](const RequestSize& /*given by the tensors*/) {
    return component.build(pass, given);
  };
  return pass_of(component, std::move(request), {}, build, std::move(set_inputs));
}

Compiled compile(const ForwardPass& pass, const SwitchSet& switches, const DeviceTarget& target) {
  const SwitchSet own = pass.overflows_f16 ? switches.without("fp16") : switches;
  return compile(pass.build(pass.size), own, target, options_of(pass));
}

void require_fit(const Compiled& compiled, const ForwardPass& pass, const SwitchSet& switches,
                 const WeightStore& weights, const Backend& backend) {
  const auto compile_other = [&](const SwitchSet& other, const RequestSize& size) {
    return compile(pass.build(size), other, backend.properties().target, options_of(pass));
  };
  require_fit(*compiled.program,
              {.model = pass.component->name, .switches = switches, .size = pass.size, .compile = compile_other},
              weights, backend);
}

}  // namespace headroom
