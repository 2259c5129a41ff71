// Steps of a stream compared with a direct computation, frame by frame in plain loops, with a denoiser that is a
// formula.

#include "pipelines/streams/stream_steps.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "base/test_util.hpp"
#include "ir/interpreter.hpp"
#include "pipelines/schedules/diffusion_schedule.hpp"
#include "pipelines/schedules/sampler_update.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kPixels = 6;  // of a frame's latents, [1, 1, 2, 3]
constexpr std::uint64_t kSeed = 7;
constexpr double kScale = 1.7, kDelta = 0.8;

using Latents = std::vector<double>;

StreamSteps steps_of(Sampler sampler, Prediction prediction, std::int64_t calls, ResidualGuidance guidance,
                     bool is_batched) {
  DiffusionSchedule levels{.rules = sampler == Sampler::kLcm ? DiffusionRules::kLcm : DiffusionRules::kDdim,
                           .prediction = prediction,
                           .spacing = TimestepSpacing::kTrailing};
  NoiseSchedule schedule = levels.schedule(calls + 1);
  schedule.skip(1);
  StreamSteps steps{.sampler = make_sampler_tables(sampler, schedule),
                    .levels = {},
                    .prediction = prediction,
                    .guidance = guidance,
                    .is_batched = is_batched};
  for (const NoiseStep& step : schedule.steps) steps.levels.push_back(step.from);
  return steps;
}

/// The denoiser: a function of a sample, its timestep, and whether the negative prompt is used.
double predict(double sample, double timestep, bool is_negative) {
  return 0.3 * sample + 0.001 * timestep + (is_negative ? 0.25 : -0.125);
}

Latents drawn(std::uint64_t stream) {
  std::vector<float> numbers(kPixels);
  fill_normal(numbers, kSeed, stream);
  return {numbers.begin(), numbers.end()};
}

Latents latents_of_frame(int i) {
  Latents frame;
  for (int k = 0; k < kPixels; ++k) frame.push_back(std::sin(0.7 * i + k));
  return frame;
}

/// One frame by definition.
Latents denoised(const StreamSteps& steps, const Latents& encoded) {
  const Latents noise = drawn(0);
  Latents result;
  for (std::size_t k = 0; k < encoded.size(); ++k) {
    double sample = steps.levels[0].alpha * encoded[k] + steps.levels[0].sigma * noise[k];
    double anchor = encoded[k];
    if (steps.guidance == ResidualGuidance::kInitialize) {
      const double answer = predict(sample, steps.sampler.timesteps[0], true);
      const auto [alpha, sigma] = steps.levels[0];
      anchor = steps.prediction == Prediction::kV ? alpha * sample - sigma * answer : (sample - sigma * answer) / alpha;
    }
    for (std::size_t call = 0; call < steps.levels.size(); ++call) {
      const auto [alpha, sigma] = steps.levels[call];
      double answer = predict(sample, steps.sampler.timesteps[call], false);
      if (steps.guidance != ResidualGuidance::kNone) {
        double negative = (sample - alpha * anchor) / sigma;
        if (steps.prediction == Prediction::kV) negative = alpha * negative - sigma * anchor;
        negative *= kDelta;
        answer = negative + kScale * (answer - negative);
      }
      const LinearForm& next = steps.sampler.next[call][0];
      const double fresh = drawn(static_cast<std::uint64_t>(noise_stream_of_call(static_cast<std::int64_t>(call))))[k];
      sample = next.of[0] * sample + next.of[LinearForm::kOutput] * answer + next.of[LinearForm::kNoise] * fresh;
    }
    result.push_back(sample);
  }
  return result;
}

/// Runs frames through the graph with the interpreter.
class Interpreted {
 public:
  explicit Interpreted(const StreamSteps& steps) : steps_(steps), graph_("steps") {
    Builder b(graph_);
    const ValueId encoded = graph_.add_input("encoded", TensorType{.shape = {1, 1, 2, 3}});
    graph_.add_output(
        "denoised",
        build_stream_steps(
            b, steps, encoded, [](Builder& builder, ValueId latents, ValueId timesteps, std::int64_t negative_rows) {
              const std::int64_t rows = builder.shape(latents)[0];
              std::vector<double> prompts(static_cast<std::size_t>(negative_rows), 0.25);
              prompts.resize(static_cast<std::size_t>(rows), -0.125);
              const ValueId of_time = builder.reshape(builder.mul_scalar(timesteps, 0.001), {rows, 1, 1, 1});
              const ValueId of_prompt = builder.constant(prompts, {rows, 1, 1, 1});
              return builder.add(builder.add(builder.mul_scalar(latents, 0.3), of_time), of_prompt);
            }));
    for (const ValueId input : graph_.values_of(ValueKind::kInput)) set(graph_.value(input).name);
    for (const ValueId state : graph_.values_of(ValueKind::kState))
      states_.emplace(graph_.value(state).name, HostTensor(graph_.type(state).dtype, graph_.type(state).shape));
  }

  Latents run(const Latents& frame) {
    for (int k = 0; k < kPixels; ++k) inputs_.at("encoded").set(k, frame[static_cast<std::size_t>(k)]);
    OracleResult result = interpret(graph_, inputs_, {}, states_);
    for (auto& [name, state] : states_)
      state = convert(result.states.at(name), state.dtype() == DType::kI32 ? DType::kI32 : DType::kF64);
    const HostTensor& out = result.outputs.at("denoised");
    Latents latents;
    for (int k = 0; k < kPixels; ++k) latents.push_back(out.at(k));
    return latents;
  }

 private:
  void set(const std::string& name) {
    const TensorType& type = graph_.type(graph_.find(ValueKind::kInput, name));
    HostTensor tensor(is_float(type.dtype) ? DType::kF64 : type.dtype, type.shape);
    for (std::int64_t i = 0; i < tensor.numel(); ++i) {
      const auto call = static_cast<std::size_t>(i);
      if (name == "timesteps") tensor.set(i, steps_.sampler.timesteps[call]);
      if (name == "level_alpha") tensor.set(i, steps_.levels[call].alpha);
      if (name == "level_sigma") tensor.set(i, steps_.levels[call].sigma);
      if (name == "noise") tensor.set(i, drawn(0)[call]);
      if (name == "call_noise")
        tensor.set(i, drawn(static_cast<std::uint64_t>(noise_stream_of_call(i / kPixels)))[call % kPixels]);
      if (name == "guidance_scale") tensor.set(i, kScale);
      if (name == "guidance_delta") tensor.set(i, kDelta);
      if (name == "seeds") tensor.set(i, kSeed);
      if (name == "noise_streams") tensor.set(i, static_cast<double>(noise_stream_of_call(i)));
      if (name.starts_with("latents_from_")) {
        const LinearForm& next = steps_.sampler.next[call][0];
        const std::string of = name.substr(13);
        tensor.set(i, next.of[of == "latents" ? 0 : of == "output" ? LinearForm::kOutput : LinearForm::kNoise]);
      }
    }
    inputs_.emplace(name, std::move(tensor));
  }

  const StreamSteps& steps_;
  Graph graph_;
  NamedTensors inputs_, states_;
};

void expect_latents(const Latents& ours, const Latents& expected, const std::string& what) {
  ASSERT_EQ(ours.size(), expected.size()) << what;
  for (std::size_t k = 0; k < ours.size(); ++k) EXPECT_NEAR(ours[k], expected[k], 1e-6) << what << ", " << k;
}

TEST(StreamSteps, AreTheirDefinitionAFrameAtATimeAndInABatch) {
  for (const Sampler sampler : {Sampler::kDdim, Sampler::kLcm})
    for (const Prediction prediction : {Prediction::kEpsilon, Prediction::kV})
      for (const ResidualGuidance guidance :
           {ResidualGuidance::kNone, ResidualGuidance::kSelf, ResidualGuidance::kInitialize})
        for (const std::int64_t calls : {std::int64_t{1}, std::int64_t{2}, std::int64_t{4}})
          for (const bool is_batched : {false, true}) {
            const std::string what =
                fmt::format("{}, prediction {}, guidance {}, {} calls, {}", to_string(sampler),
                            static_cast<int>(prediction), static_cast<int>(guidance), calls, is_batched);
            const StreamSteps steps = steps_of(sampler, prediction, calls, guidance, is_batched);
            Interpreted stream(steps);
            EXPECT_EQ(steps.delay(), is_batched ? calls - 1 : 0);
            for (int i = 0; i < 7; ++i) {
              const Latents out = stream.run(latents_of_frame(i));
              if (i < steps.delay()) continue;
              expect_latents(out, denoised(steps, latents_of_frame(i - static_cast<int>(steps.delay()))),
                             fmt::format("{}, frame {}", what, i));
            }
          }
}

TEST(StreamSteps, OfEqualStructureDifferInNumbersAlone) {
  const StreamSteps one = steps_of(Sampler::kLcm, Prediction::kEpsilon, 2, ResidualGuidance::kSelf, true);
  StreamSteps other = one;
  other.levels[0].sigma = 0.5;
  EXPECT_EQ(structure_of(one), structure_of(other));
  EXPECT_NE(structure_of(one),
            structure_of(steps_of(Sampler::kLcm, Prediction::kEpsilon, 3, ResidualGuidance::kSelf, true)));
  EXPECT_NE(structure_of(one),
            structure_of(steps_of(Sampler::kDdim, Prediction::kEpsilon, 2, ResidualGuidance::kSelf, true)));
  EXPECT_NE(structure_of(one),
            structure_of(steps_of(Sampler::kLcm, Prediction::kEpsilon, 2, ResidualGuidance::kNone, true)));
}

TEST(StreamSteps, GuidanceHasTwoForms) {
  EXPECT_EQ(parse_residual_guidance("self"), ResidualGuidance::kSelf);
  EXPECT_EQ(parse_residual_guidance("initialize"), ResidualGuidance::kInitialize);
  EXPECT_THROW(static_cast<void>(parse_residual_guidance("full")), Error);
}

}  // namespace
}  // namespace headroom
