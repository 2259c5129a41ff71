#include "run/forward_pass.hpp"

#include <algorithm>
#include <utility>

#include "base/random.hpp"
#include "run/generator.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kSeed = 0;

/// Rows of a prompt table, one after the other, as many as the tensor holds.
void fill_from(const HostTensor& table, HostTensor& tensor) {
  const std::span<float> out = tensor.as<float>();
  const std::span<const float> prompts = table.as<float>();
  const std::size_t row = out.size() / static_cast<std::size_t>(tensor.shape()[0]);
  for (std::size_t i = 0; i < out.size(); i += row)
    std::ranges::copy(prompts.subspan(i % prompts.size(), row), out.subspan(i, row).begin());
}

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

void set_forward_inputs(Session& session, const Model& model, std::int64_t token_columns) {
  const Graph& graph = session.program().graph;
  const auto has_prompts_like = [&](const TensorType& type) {
    return model.prompts && type.shape[1] == model.prompts->text_tokens();
  };
  std::uint64_t stream = 0;
  for (const ValueId input : graph.values_of(ValueKind::kInput)) {
    const Value& value = graph.value(input);
    HostTensor tensor(value.type.dtype, value.type.shape);
    if (value.name == "img_ids")
      tensor = make_image_ids(tensor.shape()[0] / token_columns, token_columns, tensor.shape()[1]);
    else if (value.name == "timestep")
      fill_uniform(tensor.as<float>(), kSeed, stream++);
    else if (value.name == "encoder_hidden_states" && has_prompts_like(value.type))
      fill_from(model.prompts->encoder_hidden_states, tensor);
    else if (value.name == "pooled_projections" && model.prompts)
      fill_from(model.prompts->pooled_projections, tensor);
    else if (value.name != "txt_ids")  // all zeros in every request
      fill_normal(tensor.as<float>(), kSeed, stream++);
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

ForwardPass make_forward_pass(const Model& model, const DenoiseRequest& request) {
  const auto build = [&model, text = request.text_tokens, tokens = request.image_tokens()](const RequestSize& size) {
    const std::int64_t image_tokens = size.token_rows > 0 ? size.token_rows * size.token_columns : tokens;
    return build_flux_forward(model.config, {.batch = size.images, .image_tokens = image_tokens, .text_tokens = text},
                              model.transformer.params());
  };
  return pass_of(
      model.transformer,
      {{"pass", "forward"},
       {"batch", request.images},
       {"image_tokens", request.image_tokens()},
       {"text_tokens", request.text_tokens}},
      {.images = request.images, .token_rows = request.token_rows, .token_columns = request.token_columns}, build,
      [&model, columns = request.token_columns](Session& session) { set_forward_inputs(session, model, columns); });
}

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
