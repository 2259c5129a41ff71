#include "pipelines/flux_denoise.hpp"

#include "ir/builder.hpp"
#include "pipelines/sampler_update.hpp"

namespace headroom {
namespace {

/// unguided + scale * (guided - unguided), [2 * images, tokens, channels] -> [images, tokens, channels]
ValueId guide(Builder& b, ValueId velocity, ValueId scale) {
  const std::vector<ValueId> halves = b.chunk(velocity, 2, 0);
  return b.add(halves[0], b.mul(b.sub(halves[1], halves[0]), scale));
}

}  // namespace

Graph build_flux_denoise(const FluxConfig& config, const Request& request, const SamplerTables& sampler,
                         const ParamSource& params) {
  Graph graph("flux_denoise");
  const auto input = [&](const char* name, Shape dims) { return graph.add_input(name, TensorType{.shape = dims}); };
  const std::int64_t batch = request.batch();
  const auto axes = static_cast<std::int64_t>(config.axes_dims_rope.size());
  FluxInputs inputs{
      .hidden_states = kNoValue,
      .encoder_hidden_states = input("encoder_hidden_states", {batch, request.text_tokens, config.joint_attention_dim}),
      .pooled_projections = input("pooled_projections", {batch, config.pooled_projection_dim}),
      .timestep = kNoValue,
      .img_ids = input("img_ids", {request.image_tokens() + request.reference_tokens(), axes}),
      .txt_ids = input("txt_ids", {request.text_tokens, axes}),
  };
  if (config.guidance_embeds) inputs.guidance = input("guidance", {batch});
  const ValueId timesteps = input("timesteps", {sampler.calls(), batch});
  const ValueId scale = request.classifier_free_guidance ? input("guidance_scale", {1, 1, 1}) : kNoValue;
  const SamplerValues sampled =
      add_sampler(graph, sampler, {request.images, request.image_tokens(), config.in_channels});
  const ValueId reference = request.reference_tokens() != 0
                                ? input("reference", {request.images, request.reference_tokens(), config.in_channels})
                                : kNoValue;

  Builder b(graph);
  {
    const auto loop = b.loop(sampler.calls(), "step");
    {
      const auto scope = b.scope("sampler");
      inputs.timestep = b.row(timesteps, loop.counter());  // [batch]
      inputs.hidden_states = reference != kNoValue ? b.concat({sampled.latents(), reference}, 1) : sampled.latents();
      if (request.classifier_free_guidance)
        inputs.hidden_states = b.concat({inputs.hidden_states, inputs.hidden_states}, 0);
    }
    ValueId velocity = build_flux(b, config, inputs, params);  // [batch, tokens, channels]
    {
      const auto scope = b.scope("guidance");
      if (reference != kNoValue) velocity = b.slice(velocity, 1, 0, request.image_tokens());
      if (request.classifier_free_guidance) velocity = guide(b, velocity, scale);
    }
    const auto scope = b.scope("sampler");
    build_sampler_update(b, sampler, sampled, velocity, loop.counter());
  }
  graph.add_output("latents", sampled.latents());
  return graph;
}

}  // namespace headroom
