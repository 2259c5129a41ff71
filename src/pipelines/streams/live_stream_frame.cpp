#include "pipelines/streams/live_stream_frame.hpp"

#include "ir/builder.hpp"
#include "pipelines/schedules/sampler_update.hpp"

namespace headroom {

Graph build_live_stream_frame(const LiveStreamUNetConfig& config, const Shape& shape, const SamplerTables& sampler,
                              const ParamSource& params) {
  Graph graph("live_stream_frame");
  Builder b(graph);
  const ValueId frame = graph.add_input("frame", TensorType{.shape = shape});
  graph.add_output("shown", build_live_stream_image(b, config, frame, sampler, params));
  return graph;
}

ValueId build_live_stream_image(Builder& b, const LiveStreamUNetConfig& config, ValueId frame,
                                const SamplerTables& sampler, const ParamSource& params) {
  Graph& graph = b.graph();
  const Shape shape = b.shape(frame);
  const TensorType image{.shape = shape};
  const ValueId noise = graph.add_input("noise", image);
  const ValueId timesteps = graph.add_input("timesteps", TensorType{.shape = {sampler.calls(), shape[0]}});
  const SamplerValues sampled = add_sampler(graph, sampler, shape);
  const ValueId previous = graph.add_state("previous", image);
  const LiveStreamMemory now{
      .memory = graph.add_state("memory", TensorType{.shape = {shape[0], config.memory_frames, config.memory_dim}}),
      .position = graph.add_state("position", TensorType{.dtype = DType::kI32, .shape = {}})};

  const ValueId start = sampler.noise_scale == 1 ? noise : b.mul_scalar(noise, sampler.noise_scale);
  ValueId features = kNoValue;
  {
    const auto loop = b.loop(sampler.calls(), "step");
    ValueId sample = start;  // [batch, channels, h, w]
    if (sampler.calls() > 1)
      sample = b.where(b.equal(loop.counter(), b.constant({0}, {}, DType::kI32)), start, sampled.latents());
    const LiveStreamStep step = build_live_stream_step(b, config,
                                                       {.sample = sample,
                                                        .frame = frame,
                                                        .previous = previous,
                                                        .memory = now.memory,
                                                        .position = now.position,
                                                        .timestep = b.row(timesteps, loop.counter())},
                                                       params);
    const auto scope = b.scope("sampler");
    build_sampler_update(b, sampler, sampled, step.prediction, loop.counter(), sample);
    features = loop.yield(step.features);
  }
  const ValueId denoised = b.read(sampled.latents());
  const ValueId shown = build_live_stream_blend(b, config, denoised, frame, previous, params);
  const LiveStreamMemory next = build_live_stream_remember(b, config, features, now, params);
  b.set_next(previous, shown);
  b.set_next(now.memory, next.memory);
  b.set_next(now.position, next.position);
  return shown;
}

void set_live_stream_inputs(Session& session, const SamplerTables& sampler, const HostTensor& noise) {
  const Graph& graph = session.program().graph;
  HostTensor timesteps(DType::kF32, graph.type(graph.find(ValueKind::kInput, "timesteps")).shape);
  const std::int64_t batch = timesteps.shape()[1];
  for (std::int64_t i = 0; i < timesteps.numel(); ++i)
    timesteps.set(i, sampler.timesteps[static_cast<std::size_t>(i / batch)]);
  session.set_input("timesteps", timesteps);
  session.set_input("noise", noise);
  set_sampler_inputs(session, sampler);
}

void start_live_stream(Session& session, const HostTensor& first, std::span<const std::uint64_t> seeds) {
  const Graph& graph = session.program().graph;
  start_sampler(session, seeds);
  session.set_state("latents", first);  // every frame writes it before reading it
  session.set_state("previous", first);
  session.set_state("memory", HostTensor(DType::kF32, graph.type(graph.find(ValueKind::kState, "memory")).shape));
  session.set_state("position", HostTensor(DType::kI32, {}));
}

}  // namespace headroom
