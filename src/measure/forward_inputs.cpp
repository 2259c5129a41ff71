#include "measure/forward_inputs.hpp"

#include <algorithm>

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

}  // namespace

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

}  // namespace headroom
