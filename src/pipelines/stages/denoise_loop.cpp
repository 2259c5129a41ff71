#include "pipelines/stages/denoise_loop.hpp"

#include <utility>
#include <vector>

#include "pipelines/schedules/sampler_update.hpp"
#include "pipelines/stages/image_coding.hpp"

namespace headroom {
namespace {

/// The lengths of x[..., c] along its last axis, [..., 1].
ValueId lengths_of(Builder& b, ValueId x) {
  const Shape& shape = b.shape(x);
  std::vector<std::int64_t> extents(shape.dims().begin(), shape.dims().end());
  extents.back() = 1;
  return b.reshape(b.sqrt(b.sum(b.mul(x, x), {shape.rank() - 1})), std::move(extents));
}

/// [2 * images, ...] -> [images, ...]
ValueId guide(Builder& b, ValueId predicted, ValueId scale, GuidanceForm form) {
  const std::vector<ValueId> halves = b.chunk(predicted, 2, 0);
  const ValueId guided = b.add(halves[0], b.mul(b.sub(halves[1], halves[0]), scale));
  if (form == GuidanceForm::kLinear) return guided;
  return b.mul(guided, b.div(lengths_of(b, halves[1]), lengths_of(b, guided)));
}

}  // namespace

void build_denoise_loop(Builder& b, const Request& request, const SamplerTables& sampler, const Shape& latents,
                        const Predict& predict, GuidanceForm guidance) {
  Graph& graph = b.graph();
  Shape of_scale{1};
  for (int axis = 0; axis < latents.rank(); ++axis) of_scale.push_back(1);
  const ValueId timesteps = graph.add_input("timesteps", TensorType{.shape = {sampler.calls(), request.batch()}});
  const ValueId scale =
      request.classifier_free_guidance ? graph.add_input("guidance_scale", TensorType{.shape = of_scale}) : kNoValue;
  const SamplerValues sampled = add_sampler(graph, sampler, with_batch(request.images, latents));
  {
    const auto loop = b.loop(sampler.calls(), "step");
    ValueId given = sampled.latents(), timestep = kNoValue;
    {
      const auto scope = b.scope("sampler");
      timestep = b.row(timesteps, loop.counter());  // [batch]
      if (request.classifier_free_guidance) given = b.concat({given, given}, 0);
    }
    ValueId predicted = predict(b, given, timestep, loop.counter());
    if (request.classifier_free_guidance) {
      const auto scope = b.scope("guidance");
      predicted = guide(b, predicted, scale, guidance);
    }
    const auto scope = b.scope("sampler");
    build_sampler_update(b, sampler, sampled, predicted, loop.counter());
  }
  graph.add_output("latents", sampled.latents());
}

}  // namespace headroom
