#include "pipelines/schedules/sampler_update.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/tensors/random.hpp"
#include "io/checkpoint.hpp"
#include "ir/text/text.hpp"
#include "pipelines/schedules/diffusion_schedule.hpp"
#include "pipelines/schedules/flow_schedule.hpp"
#include "run/compile.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr Sampler kAll[] = {
    Sampler::kEuler,          Sampler::kHeun, Sampler::kDpm2M, Sampler::kDpm2MSde, Sampler::kUniPC, Sampler::kDdim,
    Sampler::kEulerAncestral, Sampler::kLcm,  Sampler::kDpm2S, Sampler::kDeis,     Sampler::kLms,   Sampler::kTcd};
constexpr std::int64_t kSteps = 6;
constexpr std::int64_t kTokens = 5, kChannels = 3;

SamplerTables flow_tables(Sampler sampler) {
  return make_sampler_tables(sampler, FlowSchedule{}.schedule(kSteps, 1024));
}
SamplerTables diffusion_tables(Sampler sampler) {
  const DiffusionSchedule schedule{
      .beta_start = 0.00085, .beta_end = 0.012, .beta_schedule = BetaSchedule::kScaledLinear};
  return make_sampler_tables(sampler, schedule.schedule(kSteps));
}

/// A loop around a model that is a formula: tanh(0.7 x) + 0.2 x.
Graph build(const SamplerTables& tables, std::int64_t images) {
  Graph graph("sample");
  const SamplerValues values = add_sampler(graph, tables, {images, kTokens, kChannels});
  Builder b(graph);
  {
    const auto loop = b.loop(tables.calls(), "step");
    const ValueId x = values.latents();
    const ValueId output = b.add(b.tanh(b.mul_scalar(x, 0.7)), b.mul_scalar(x, 0.2));
    build_sampler_update(b, tables, values, output, loop.counter());
  }
  graph.add_output("latents", values.latents());
  return graph;
}

/// Generates samples for given seeds; all runs use one session.
class Runner {
 public:
  Runner(Backend& backend, const SamplerTables& tables, std::int64_t images, const std::string& switches)
      : weights_(backend, checkpoint_),
        session_(compile(build(tables, images), SwitchSet::parse(switches), backend.properties().target).program,
                 weights_, backend) {
    set_sampler_inputs(session_, tables);
  }

  HostTensor run(const std::vector<std::uint64_t>& seeds) {
    start_sampler(session_, seeds);
    for (std::size_t i = 0; i < seeds.size(); ++i)
      session_.set_state_normal("latents", static_cast<std::int64_t>(i), {.seed = seeds[i]});
    session_.run();
    return session_.output("latents");
  }

  /// A request that ends in NaN.
  void run_off() {
    static_cast<void>(run({0, 0}));
    HostTensor latents(DType::kF32, {2, kTokens, kChannels});
    std::ranges::fill(latents.as<float>(), std::numeric_limits<float>::quiet_NaN());
    session_.set_state("latents", latents);
    session_.run();
  }

 private:
  Checkpoint checkpoint_ = Checkpoint::random(nlohmann::json::object(), {}, 0);
  WeightStore weights_;
  Session session_;
};

/// The result of the tables in double precision.
std::vector<double> expected(const SamplerTables& tables, std::uint64_t seed) {
  constexpr std::size_t kElements = kTokens * kChannels;
  std::vector<float> start(kElements), drawn(kElements);
  fill_normal(start, seed, 0);
  std::vector<std::array<double, LinearForm::kColumns>> columns(kElements);
  for (std::size_t i = 0; i < kElements; ++i) columns[i][0] = start[i];
  for (std::size_t call = 0; call < tables.next.size(); ++call) {
    fill_normal(drawn, seed, 16 + call);
    for (std::size_t i = 0; i < kElements; ++i) {
      auto& column = columns[i];
      column[LinearForm::kOutput] = std::tanh(0.7 * column[0]) + 0.2 * column[0];
      column[LinearForm::kNoise] = drawn[i];
      std::array<double, LinearForm::kStates> next{};
      for (std::size_t state = 0; state < next.size(); ++state)
        for (std::size_t k = 0; k < column.size(); ++k) next[state] += tables.next[call][state].of[k] * column[k];
      std::ranges::copy(next, column.begin());
    }
  }
  std::vector<double> end;
  for (const auto& column : columns) end.push_back(column[0]);
  return end;
}

void expect_what_the_tables_say(Backend& backend) {
  for (const bool is_flow : {true, false})
    for (const Sampler sampler : kAll)
      for (const char* switches : {"baseline", "lossless"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_string(sampler), is_flow ? "flow" : "diffusion", switches));
        const SamplerTables tables = is_flow ? flow_tables(sampler) : diffusion_tables(sampler);
        Runner runner(backend, tables, 2, switches);
        const HostTensor ours = runner.run({7, 8});
        double difference = 0, norm = 0;
        for (std::int64_t image = 0; image < 2; ++image) {
          const std::vector<double> theirs = expected(tables, static_cast<std::uint64_t>(7 + image));
          for (std::size_t i = 0; i < theirs.size(); ++i) {
            const double error = ours.at(image * std::ssize(theirs) + static_cast<std::int64_t>(i)) - theirs[i];
            difference += error * error;
            norm += theirs[i] * theirs[i];
          }
        }
        EXPECT_LE(std::sqrt(difference / norm), 2e-6);
        // The previous request has no effect, and the second image made alone is the same.
        runner.run_off();
        const HostTensor again = runner.run({7, 8});
        EXPECT_EQ(std::memcmp(again.bytes().data(), ours.bytes().data(), ours.bytes().size()), 0);
        const HostTensor alone = Runner(backend, tables, 1, switches).run({8});
        EXPECT_EQ(std::memcmp(alone.bytes().data(), ours.bytes().data() + alone.bytes().size(), alone.bytes().size()),
                  0);
      }
}

TEST(SamplerUpdate, IsWhatTheTablesSay) { expect_what_the_tables_say(*make_backend(DeviceKind::kCpu)); }

class GpuSamplerUpdate : public GpuTest {};
TEST_F(GpuSamplerUpdate, IsWhatTheTablesSay) { expect_what_the_tables_say(backend()); }

/// Names of the inputs and states of a sampler's graph.
std::vector<std::string> names(const SamplerTables& tables, ValueKind kind) {
  const Graph graph = build(tables, 1);
  std::vector<std::string> names;
  for (const ValueId value : graph.values_of(kind)) names.push_back(graph.value(value).name);
  return names;
}

TEST(SamplerUpdate, KeepsAndReadsWhatItsSamplerNeeds) {
  EXPECT_THAT(names(flow_tables(Sampler::kEuler), ValueKind::kState), ElementsAre("latents"));
  EXPECT_THAT(names(flow_tables(Sampler::kEuler), ValueKind::kInput), ElementsAre("latents_from_output"));
  EXPECT_THAT(names(flow_tables(Sampler::kDdim), ValueKind::kInput), ElementsAre("latents_from_output"));
  EXPECT_THAT(names(diffusion_tables(Sampler::kEuler), ValueKind::kInput),
              ElementsAre("latents_from_latents", "latents_from_output"));
  EXPECT_THAT(names(flow_tables(Sampler::kDpm2M), ValueKind::kState), ElementsAre("latents", "history_1"));
  EXPECT_THAT(names(flow_tables(Sampler::kUniPC), ValueKind::kState), ElementsAre("latents", "history_1", "history_2"));
  EXPECT_THAT(
      names(flow_tables(Sampler::kLcm), ValueKind::kInput),
      ElementsAre("latents_from_latents", "latents_from_output", "latents_from_noise", "seeds", "noise_streams"));
}

// x + (sigma' - sigma) v, in this form.
TEST(SamplerUpdate, EulersOfFlowMatchingIsOneProductAndOneSum) {
  const std::string text = print(build(flow_tables(Sampler::kEuler), 1));
  EXPECT_THAT(text, HasSubstr("row(%latents_from_output, %step)")) << text;
  const SamplerTables tables = flow_tables(Sampler::kEuler);
  const std::vector<double> sigmas = FlowSchedule{}.sigmas(kSteps, 1024);
  for (std::size_t i = 0; i < tables.next.size(); ++i) {
    EXPECT_EQ(tables.next[i][0].of[0], 1);
    EXPECT_EQ(tables.next[i][0].of[LinearForm::kOutput], sigmas[i + 1] - sigmas[i]);
    EXPECT_EQ(static_cast<float>(tables.timesteps[i] / 1000), static_cast<float>(sigmas[i]));
  }
}

}  // namespace
}  // namespace headroom
