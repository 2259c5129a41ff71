#include "pipelines/streams/stream_steps.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "pipelines/schedules/sampler_update.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kFrameNoiseStream = 0;  // of the seed, as for images
constexpr const char *kNoise = "noise", *kTimesteps = "timesteps", *kAlpha = "level_alpha", *kSigma = "level_sigma",
                     *kScale = "guidance_scale", *kDelta = "guidance_delta", *kPosition = "stream_position",
                     *kAnchors = "anchors", *kCallNoise = "call_noise";

/// [calls, 1, 1, ...], to be multiplied by samples of that rank.
Shape by_call(std::int64_t calls, int rank) {
  Shape shape{calls};
  for (int axis = 0; axis < rank; ++axis) shape.push_back(1);
  return shape;
}

/// Builds the graph of these steps.
class StepsBuilder {
 public:
  StepsBuilder(Builder& builder, const StreamSteps& steps, ValueId encoded, const PredictRows& predict)
      : b_(builder), graph_(builder.graph()), steps_(steps), encoded_(encoded), predict_(predict) {
    const Shape of_one = b_.shape(encoded);
    HR_CHECK_EQ(of_one[0], std::int64_t{1});
    const Shape table = by_call(steps.calls(), of_one.rank());
    noise_ = graph_.add_input(kNoise, TensorType{.shape = of_one});
    timesteps_ = graph_.add_input(kTimesteps, TensorType{.shape = {steps.calls()}});
    alpha_ = graph_.add_input(kAlpha, TensorType{.shape = table});
    sigma_ = graph_.add_input(kSigma, TensorType{.shape = table});
    if (steps.guidance != ResidualGuidance::kNone) {
      scale_ = graph_.add_input(kScale, TensorType{.shape = {}});
      delta_ = graph_.add_input(kDelta, TensorType{.shape = {}});
    }
    const auto scope = b_.scope("start");
    first_alpha_ = b_.reshape(b_.slice(alpha_, 0, 0, 1), ones(of_one.rank()));
    first_sigma_ = b_.reshape(b_.slice(sigma_, 0, 0, 1), ones(of_one.rank()));
    start_ = b_.add(b_.mul(encoded_, first_alpha_), b_.mul(noise_, first_sigma_));  // [1, ...]
  }

  ValueId frame_by_frame() {
    const SamplerValues sampled = add_sampler(graph_, steps_.sampler, b_.shape(encoded_));
    ValueId anchor = encoded_;
    if (steps_.guidance == ResidualGuidance::kInitialize)
      anchor = clean(start_, predict_(b_, start_, b_.slice(timesteps_, 0, 0, 1), 1), first_alpha_, first_sigma_);
    {
      const auto loop = b_.loop(steps_.calls(), "step");
      ValueId sample = start_;
      if (steps_.calls() > 1)
        sample = b_.where(b_.equal(loop.counter(), b_.constant({0}, {}, DType::kI32)), start_, sampled.latents());
      const ValueId timestep = b_.reshape(b_.row(timesteps_, loop.counter()), {1});
      const ValueId predicted = predict_(b_, sample, timestep, 0);
      const auto scope = b_.scope("sampler");
      const auto of_table = [&](ValueId table) { return b_.row(table, loop.counter()); };
      build_sampler_update(b_, steps_.sampler, sampled, guide(sample, predicted, anchor, of_table), loop.counter(),
                           sample);
    }
    return b_.read(sampled.latents());
  }

  ValueId batched() {
    const std::int64_t rows = steps_.calls();
    Shape shape = b_.shape(encoded_);
    shape.set(0, rows);
    const SamplerValues sampled = add_sampler(graph_, steps_.sampler, shape);
    const ValueId position = graph_.add_state(kPosition, TensorType{.dtype = DType::kI32, .shape = {}});
    const ValueId count = b_.constant({static_cast<double>(rows)}, {}, DType::kI32);
    const ValueId call = b_.mod(b_.sub(position, numbers(rows)), count);  // [rows]: the current call of each frame
    const ValueId is_new = b_.reshape(b_.equal(call, b_.constant({0}, {}, DType::kI32)), per_row(rows, shape.rank()));
    const ValueId sample = b_.where(is_new, start_, sampled.latents());  // [rows, ...]
    const ValueId timesteps = b_.gather(timesteps_, call);               // [rows]
    const bool initializes = steps_.guidance == ResidualGuidance::kInitialize;

    ValueId predicted = kNoValue, anchor = encoded_;
    if (initializes) {
      const ValueId first = b_.slice(timesteps_, 0, 0, 1);
      const ValueId both = predict_(b_, b_.concat({start_, sample}, 0), b_.concat({first, timesteps}, 0), 1);
      anchor = clean(start_, b_.slice(both, 0, 0, 1), first_alpha_, first_sigma_);
      predicted = b_.slice(both, 0, 1, rows);
    } else {
      predicted = predict_(b_, sample, timesteps, 0);
    }
    const auto scope = b_.scope("sampler");
    ValueId anchors = kNoValue;
    if (steps_.guidance != ResidualGuidance::kNone) {
      const ValueId kept = graph_.add_state(kAnchors, TensorType{.shape = shape});
      anchors = b_.where(is_new, anchor, kept);
      b_.set_next(kept, anchors);
    }
    const auto of_table = [&](ValueId table) {  // [calls, 1, ...] -> [rows, ...]
      return b_.reshape(b_.gather(table, call), per_row(rows, shape.rank()));
    };
    SamplerCalls calls{.of_table = of_table};
    if (sampled.seeds != kNoValue) {
      const ValueId noises = graph_.add_input(kCallNoise, TensorType{.shape = shape});
      calls.noise = b_.gather(noises, call);
    }
    const ValueId next =
        build_sampler_update(b_, steps_.sampler, sampled, guide(sample, predicted, anchors, of_table), calls, sample);
    const ValueId after = b_.mod(b_.add_scalar(position, 1), count);  // also the position of the oldest frame
    b_.set_next(position, after);
    return b_.reshape(b_.row(next, after), dims_of(encoded_));
  }

 private:
  static std::vector<std::int64_t> ones(int rank) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(rank), 1);
  }
  static std::vector<std::int64_t> per_row(std::int64_t rows, int rank) {
    std::vector<std::int64_t> shape = ones(rank);
    shape.front() = rows;
    return shape;
  }
  [[nodiscard]] std::vector<std::int64_t> dims_of(ValueId value) const {
    const std::span<const std::int64_t> dims = b_.shape(value).dims();
    return {dims.begin(), dims.end()};
  }
  ValueId numbers(std::int64_t count) {
    std::vector<double> numbers(static_cast<std::size_t>(count));
    std::iota(numbers.begin(), numbers.end(), 0);
    return b_.constant(std::move(numbers), {count}, DType::kI32);
  }

  /// The image estimate of a sample at a level, from its prediction.
  ValueId clean(ValueId sample, ValueId predicted, ValueId alpha, ValueId sigma) {
    const auto scope = b_.scope("guidance");
    if (steps_.prediction == Prediction::kV) return b_.sub(b_.mul(sample, alpha), b_.mul(predicted, sigma));
    return b_.div(b_.sub(sample, b_.mul(predicted, sigma)), alpha);
  }

  template <class OfTable>
  ValueId guide(ValueId sample, ValueId predicted, ValueId anchor, const OfTable& of_table) {
    if (steps_.guidance == ResidualGuidance::kNone) return predicted;
    const auto scope = b_.scope("guidance");
    const ValueId alpha = of_table(alpha_), sigma = of_table(sigma_);
    ValueId negative = b_.div(b_.sub(sample, b_.mul(anchor, alpha)), sigma);
    if (steps_.prediction == Prediction::kV) negative = b_.sub(b_.mul(negative, alpha), b_.mul(anchor, sigma));
    negative = b_.mul(negative, delta_);
    return b_.add(negative, b_.mul(b_.sub(predicted, negative), scale_));
  }

  Builder& b_;
  Graph& graph_;
  const StreamSteps& steps_;
  ValueId encoded_;
  const PredictRows& predict_;
  ValueId noise_ = kNoValue, timesteps_ = kNoValue, alpha_ = kNoValue, sigma_ = kNoValue;
  ValueId scale_ = kNoValue, delta_ = kNoValue;
  ValueId first_alpha_ = kNoValue, first_sigma_ = kNoValue;
  ValueId start_ = kNoValue;
};

void set_number(Session& session, const char* name, double value) {
  if (session.program().graph.find(ValueKind::kInput, name) == kNoValue) return;
  HostTensor number(DType::kF32, {});
  number.set(0, value);
  session.set_input(name, number);
}

template <class Of>
void set_by_call(Session& session, const char* name, std::int64_t calls, const Of& of) {
  const Graph& graph = session.program().graph;
  HostTensor numbers(DType::kF32, graph.type(graph.find(ValueKind::kInput, name)).shape);
  for (std::int64_t call = 0; call < calls; ++call) numbers.set(call, of(static_cast<std::size_t>(call)));
  session.set_input(name, numbers);
}

}  // namespace

ResidualGuidance parse_residual_guidance(std::string_view argument) {
  if (argument == "self") return ResidualGuidance::kSelf;
  if (argument == "initialize") return ResidualGuidance::kInitialize;
  fail_usage("rcfg={}: expected self or initialize", argument);
}

ValueId build_stream_steps(Builder& builder, const StreamSteps& steps, ValueId encoded, const PredictRows& predict) {
  HR_CHECK_EQ(static_cast<std::int64_t>(steps.levels.size()), steps.calls());
  StepsBuilder built(builder, steps, encoded, predict);
  return steps.is_batched ? built.batched() : built.frame_by_frame();
}

void set_stream_steps(Session& session, const StreamSteps& steps, std::uint64_t seed, double guidance_scale,
                      double guidance_delta) {
  const Graph& graph = session.program().graph;
  session.set_input_normal(kNoise, {.seed = seed, .stream = kFrameNoiseStream});
  set_by_call(session, kTimesteps, steps.calls(), [&](std::size_t call) { return steps.sampler.timesteps[call]; });
  set_by_call(session, kAlpha, steps.calls(), [&](std::size_t call) { return steps.levels[call].alpha; });
  set_by_call(session, kSigma, steps.calls(), [&](std::size_t call) { return steps.levels[call].sigma; });
  set_number(session, kScale, guidance_scale);
  set_number(session, kDelta, guidance_delta);
  set_sampler_inputs(session, steps.sampler);
  if (graph.find(ValueKind::kInput, "seeds") != kNoValue) {
    const std::int64_t rows = graph.type(graph.find(ValueKind::kInput, "seeds")).shape[0];
    HostTensor seeds(DType::kI64, {rows});
    std::ranges::fill(seeds.as<std::int64_t>(), static_cast<std::int64_t>(seed));
    session.set_input("seeds", seeds);
  }
  const ValueId noises = graph.find(ValueKind::kInput, kCallNoise);
  if (noises == kNoValue) return;
  HostTensor drawn(DType::kF32, graph.type(noises).shape);
  const std::size_t size = drawn.as<float>().size() / static_cast<std::size_t>(steps.calls());
  for (std::int64_t call = 0; call < steps.calls(); ++call)
    fill_normal(drawn.as<float>().subspan(static_cast<std::size_t>(call) * size, size), seed,
                static_cast<std::uint64_t>(noise_stream_of_call(call)));
  session.set_input(kCallNoise, drawn);
}

void start_stream_steps(Session& session) {
  const Graph& graph = session.program().graph;
  for (const char* name : {"latents", "history_1", "history_2", "history_3", kPosition, kAnchors})
    if (const ValueId state = graph.find(ValueKind::kState, name); state != kNoValue)
      session.set_state(name, HostTensor(graph.type(state).dtype, graph.type(state).shape));
}

std::string structure_of(const StreamSteps& steps) {
  std::string structure = fmt::format("{} calls, {}, {}, {}:", steps.calls(), steps.is_batched,
                                      static_cast<int>(steps.prediction), static_cast<int>(steps.guidance));
  for (std::size_t state = 0; state < LinearForm::kStates; ++state) {
    if (!steps.sampler.uses_state(state)) continue;
    for (std::size_t column = 0; column < LinearForm::kColumns; ++column)
      structure += steps.sampler.is_always(state, column, 0)   ? '0'
                   : steps.sampler.is_always(state, column, 1) ? '1'
                                                               : 'x';
  }
  return structure;
}

}  // namespace headroom
