#include "run/forward_pass.hpp"

#include <utility>

#include "base/random.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kSeed = 0;

/// Uniform in [-1, 1).
void fill_pixels(std::span<float> pixels, std::uint64_t stream) {
  fill_uniform(pixels, kSeed, stream);
  for (float& pixel : pixels) pixel = 2 * pixel - 1;
}

void set_component_inputs(Session& session) {
  const Graph& graph = session.program().graph;
  std::uint64_t stream = 0;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(input);
    HostTensor tensor(value.type.dtype, value.type.shape);
    value.name == "image" ? fill_pixels(tensor.as<float>(), stream++)
                          : fill_normal(tensor.as<float>(), kSeed, stream++);
    session.set_input(value.name, tensor);
  }
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

}  // namespace

ForwardPass make_forward_pass(const Component& component, const ComponentPass& pass, const PassSize& size) {
  const auto build = [&component, &pass, size](const RequestSize& request) {
    PassSize asked = size;
    asked.batch = request.images;
    return component.build(pass, pass.shapes(component.config, asked));
  };
  return pass_of(component,
                 {{"pass", pass.name}, {"batch", size.batch}, {"height", size.height}, {"width", size.width}},
                 {.images = size.batch}, build, set_component_inputs);
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

Compiled compile(const ForwardPass& pass, const SwitchSet& switches, const Target& target) {
  return compile(pass.build(pass.size), switches, target, {.baseline = pass.component->baseline});
}

void require_fit(const Compiled& compiled, const ForwardPass& pass, const SwitchSet& switches,
                 const WeightStore& weights, const Backend& backend) {
  const auto compile_other = [&](const SwitchSet& other, const RequestSize& size) {
    return compile(pass.build(size), other, backend.properties().target, {.baseline = pass.component->baseline});
  };
  require_fit(*compiled.program,
              {.model = pass.component->name, .switches = switches, .size = pass.size, .compile = compile_other},
              weights, backend);
}

}  // namespace headroom
