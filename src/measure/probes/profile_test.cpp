#include "measure/probes/profile.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "measure/probes/alone_times.hpp"
#include "measure/probes/device_times.hpp"
#include "measure/protocol/op_run.hpp"
#include "measure/results/describe.hpp"
#include "measure/suites/kernel_suite.hpp"
#include "pipelines/generator.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Each;
using testing::Gt;
using testing::HasSubstr;

class ProfileTest : public testing::Test {
 protected:
  [[nodiscard]] static ProfiledRun profiled(Generator& generator, const ImageRequest& request) {
    return {.session = generator.session(),
            .run = [&generator](const IterationObserver& observer) { static_cast<void>(generator.denoise(observer)); },
            .prepare = [&generator, request] { generator.prepare(std::span(&request, 1)); }};
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline(std::string(kSourceDir) + "/models/fashion-flux");
  WeightStore weights_{*backend_, pipeline_->components()};
};

TEST_F(ProfileTest, EveryLaunchHasATimeAndAFloor) {
  Generator generator(
      *pipeline_, *backend_, weights_,
      {.images = 1, .token_rows = 2, .token_columns = 2, .steps = 3, .switches = SwitchSet::parse("arena")});
  const ImageRequest request{.label = 1, .seed = 2};
  const Profile measured = profile(profiled(generator, request), *backend_, {.trials = 4, .floor_seconds = 0.01});
  const Program& program = generator.session().program();
  const ProfileRecord& launches = measured.launches;
  ASSERT_EQ(launches.time_ms.size(), program.steps.size());
  EXPECT_THAT(launches.floor_ms, Each(Gt(0)));
  EXPECT_THAT(launches.alone_ms, Each(Gt(0)));
  double step_floor_ms = 0, step_alone_ms = 0;
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    const bool is_gemm = program.steps[i].kernel != nullptr && program.steps[i].cost.unit == ComputeUnit::kMatrix;
    if (!is_gemm) {
      EXPECT_THAT(launches.floor_of[i], AnyOf("copy", "exp"));
      EXPECT_EQ(launches.alone_ms[i], launches.floor_ms[i]);
    }
    EXPECT_TRUE(launches.runs[i] == 3 || launches.runs[i] == 1);
    if (launches.runs[i] != 3) continue;
    step_floor_ms += launches.floor_ms[i];
    step_alone_ms += launches.alone_ms[i];
  }
  EXPECT_DOUBLE_EQ(measured.step_alone_ms, step_alone_ms);
  EXPECT_DOUBLE_EQ(measured.step_floor_ms(), step_floor_ms);
  ASSERT_EQ(measured.steps.size(), 1U);
  EXPECT_GE(measured.steps.front().wall_ms.size(), 4U);
  EXPECT_DOUBLE_EQ(measured.over_floor(), measured.step_ms() / step_floor_ms);

  const PlanRecord plan = describe_plan(program);
  EXPECT_THAT(to_profile_table(measured, plan, ProfileRows::kOp).text(),
              AllOf(HasSubstr("linear f32"), HasSubstr("their floors ")));
  EXPECT_THAT(to_profile_table(measured, plan, ProfileRows::kLaunch).text(),
              HasSubstr("linear transformer_blocks.0.attn.to_q"));
  const std::string by_module = to_profile_table(measured, plan, ProfileRows::kModule).text();
  EXPECT_THAT(by_module, HasSubstr("transformer_blocks.*.attn.to_q"));
  EXPECT_THAT(by_module, testing::Not(HasSubstr("transformer_blocks.0")));
  EXPECT_THAT(by_module, HasSubstr("(the model itself)"));
  EXPECT_EQ(measured.slices.size(), launch_order(program).size()) << "one request, each launch of it";
  EXPECT_FALSE(launches.idle_share) << "of a CPU nobody says when it is idle";
}

TEST_F(ProfileTest, ARunWithoutALoopIsAStep) {
  const ForwardPass pass = pipeline_->forward_pass({.token_rows = 2, .token_columns = 2, .text_tokens = 16});
  Session session(compile(pass, {}, backend_->properties().target).program, weights_, *backend_);
  pass.set_inputs(session);
  const Profile measured = profile({session, [&](const IterationObserver& observer) { session.run(observer); }},
                                   *backend_, {.trials = 3, .floor_seconds = 0.01});
  EXPECT_GE(measured.steps.front().wall_ms.size(), 3U);
  EXPECT_THAT(measured.launches.runs, Each(1));
  EXPECT_EQ(measured.once_ms, 0);
  EXPECT_GT(measured.step_launches_ms, 0);
  EXPECT_EQ(measured.slices.size(), session.program().steps.size());
}

TEST_F(ProfileTest, WithoutTimesAloneALaunchCountsWithItsFloor) {
  const ForwardPass pass = pipeline_->forward_pass({.token_rows = 2, .token_columns = 2, .text_tokens = 16});
  Session session(compile(pass, {}, backend_->properties().target).program, weights_, *backend_);
  pass.set_inputs(session);
  const Profile measured = profile({session, [&](const IterationObserver& observer) { session.run(observer); }},
                                   *backend_, {.trials = 3, .floor_seconds = 0.01, .times_alone = false});
  EXPECT_EQ(measured.launches.alone_ms, measured.launches.floor_ms);
}

TEST_F(ProfileTest, AnOpAloneRunsTheKernelThatAPlanChooses) {
  const OpSpec spec = make_spec(Op::kLinear, {{DType::kF32, {4, 8}}, {DType::kF32, {16, 8}}}, {}, {false, true});
  EXPECT_EQ(spec.outputs.at(0).shape, (Shape{4, 16}));
  OpRun run(*backend_, spec);
  run.run();
  EXPECT_EQ(run.step().kernel->name(), "onednn.linear");
  EXPECT_EQ(run.step().cost.flops, 2.0 * 4 * 8 * 16);
}

TEST_F(ProfileTest, AnOpLongerThanTheTimeForItIsTimedOnce) {
  const OpSpec spec = make_spec(Op::kLinear, {{DType::kF32, {4, 8}}, {DType::kF32, {16, 8}}}, {}, {false, true});
  AloneTimes short_time(*backend_, {.trials = 4, .max_seconds = 1e-9}), time(*backend_, {.trials = 4});
  EXPECT_EQ(short_time.times_ms(spec).size(), 1U);
  EXPECT_EQ(time.times_ms(spec).size(), 4U);
}

TEST_F(ProfileTest, MeasuresInRounds) {
  Generator generator(
      *pipeline_, *backend_, weights_,
      {.images = 1, .token_rows = 2, .token_columns = 2, .steps = 3, .switches = SwitchSet::parse("arena")});
  const ImageRequest request{.label = 1, .seed = 2};
  const Profile measured =
      profile(profiled(generator, request), *backend_, {.trials = 6, .floor_seconds = 0.01, .rounds = 3});
  ASSERT_EQ(measured.steps.size(), 3U);
  ASSERT_EQ(measured.floors.size(), 3U);
  for (const std::size_t round : {0U, 1U, 2U}) {
    EXPECT_EQ(measured.steps[round].process, round);
    EXPECT_EQ(measured.floors[round].process, round);
    EXPECT_GE(measured.steps[round].wall_ms.size(), 2U);
    EXPECT_EQ(measured.floors[round].wall_ms.size(), 1U);
  }
}

TEST(ProfileRounds, EachIsHeldAgainstItsOwnFloors) {
  // Two rounds of a quiet machine and one of a machine at half speed.
  const Profile measured{.steps = {{.wall_ms = {11, 12, 13}}, {.wall_ms = {24, 24}}, {.wall_ms = {12, 12}}},
                         .floors = {{.wall_ms = {10}}, {.wall_ms = {20}}, {.wall_ms = {10}}},
                         .launches = {},
                         .slices = {}};
  EXPECT_DOUBLE_EQ(measured.step_ms(), 12);
  EXPECT_DOUBLE_EQ(measured.step_floor_ms(), 10);
  EXPECT_DOUBLE_EQ(measured.over_floor(), 1.2);
}

/// A step of one copy with the given time, and a floor of 10 ms.
Profile one_launch(double ms) {
  Profile profile{.steps = {{.wall_ms = {ms}}}, .floors = {{.wall_ms = {10}}}, .launches = {}, .slices = {}};
  profile.launches.time_ms = {ms};
  profile.launches.alone_ms = profile.launches.floor_ms = {10};
  profile.launches.floor_of = {"copy"};
  profile.launches.runs = {1};
  profile.step_launches_ms = ms;
  profile.step_alone_ms = 10;
  return profile;
}

std::string table_of(const Profile& profile) {
  PlanRecord plan;
  plan.nodes = {{.node = "a",
                 .op = "add",
                 .kernel = "k",
                 .implementation = "i",
                 .compute_type = "f32",
                 .cost_unit = "vector",
                 .rejections = {}}};
  return to_profile_table(profile, plan, ProfileRows::kOp).text();
}

TEST(ProfileTable, NeverTellsAFactorBelowTheFloor) {
  EXPECT_THAT(table_of(one_launch(15)), AllOf(HasSubstr("1.50x"), HasSubstr("1.50x over the floor\n")));
  EXPECT_THAT(table_of(one_launch(9.8)), AllOf(HasSubstr("1.00x"), HasSubstr("10.0 ms: at the floor\n")));
  const std::string below = table_of(one_launch(0.6));
  EXPECT_THAT(below, AllOf(HasSubstr("below"),
                           HasSubstr("1 row is faster than the floor (`below`): the data stayed in a cache"),
                           HasSubstr("the step is faster than they are, so they do not bound it")));
  EXPECT_THAT(below, testing::Not(AnyOf(HasSubstr("0.06"), HasSubstr("-9.4"))));
}

TEST(ProfileTable, SaysAPassWhereAPassWasProfiled) {
  Profile profile = one_launch(15);
  EXPECT_THAT(table_of(profile), HasSubstr("\na step takes 15.0 ms; "));
  profile.is_pass = true;
  profile.launches.idle_share = 0.25;
  EXPECT_THAT(table_of(profile), AllOf(HasSubstr("\na pass takes 15.0 ms; "), HasSubstr("idle for 25.00% of a pass\n"),
                                       testing::Not(HasSubstr("step"))));
  profile.launches.runs = {4};  // a frame of a stream has a loop
  EXPECT_THAT(table_of(profile), HasSubstr("\na step takes 15.0 ms; "));
}

TEST(ProfileTable, SharesAreThoseOfAllLaunchesOfARequest) {
  Profile profile = one_launch(2);
  profile.launches.time_ms = {2, 4};
  profile.launches.alone_ms = profile.launches.floor_ms = {1, 1};
  profile.launches.floor_of = {"copy", "copy"};
  profile.launches.runs = {3, 1};  // a step of 2 ms three times, and 4 ms once
  PlanRecord plan;
  for (const char* op : {"add", "mul"})
    plan.nodes.push_back({.node = op,
                          .op = op,
                          .kernel = "k",
                          .implementation = "i",
                          .compute_type = "f32",
                          .cost_unit = "vector",
                          .rejections = {}});
  const Printout table = to_profile_table(profile, plan, ProfileRows::kOp);
  EXPECT_THAT(table.text(), AllOf(HasSubstr("share of launches"), HasSubstr("60.0%"), HasSubstr("40.0%")));
}

TEST(ProfileTable, SaysWhatDisturbedIt) {
  Profile profile = one_launch(0.6);
  profile.disturbances = {"floors: other work held the CPUs"};
  EXPECT_THAT(table_of(profile), AllOf(HasSubstr("the measurement was disturbed; measure again"),
                                       HasSubstr("disturbed: floors: other work held the CPUs\n")));
  profile = one_launch(15);
  profile.disturbances = {"floors: other work held the CPUs"};
  EXPECT_THAT(table_of(profile), HasSubstr("1.50x over the floor, but the measurement was disturbed\n"));
}

TEST(KernelSuite, FiltersByNameAndRefusesWhatTakesNothing) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  EXPECT_THROW((void)bench_kernels(*backend, {.filter = "no such kernel"}), Error);
  EXPECT_THROW((void)bench_kernels(*backend, {.filter = "("}), Error);
  const ResultFile file = bench_kernels(*backend, {.filter = "^linear f32 5440x192x192$", .max_seconds = 0.05});
  ASSERT_EQ(file.results.size(), 2U);
  EXPECT_EQ(file.results[0].subject.name, "copy");
  EXPECT_EQ(file.plans.at(file.results[1].plan.value()).nodes.front().cost_flops, 5440.0 * 192 * (2 * 192 + 1));
  EXPECT_THAT(to_kernel_table(file).text(),
              AllOf(HasSubstr("memcpy"), HasSubstr("5440x192x192"), HasSubstr("GFLOP/s")));
}

TEST(KernelSuite, FloorsOfWhatOnlyMovesAreTheCopy) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const ResultFile file = bench_kernels(*backend, {.filter = "^add f32$", .max_seconds = 0.05});
  ASSERT_EQ(file.results.size(), 2U);
  EXPECT_FALSE(file.results[0].floor) << "the copy is what others are held against";
  // Three tensors, but the copy has two.
  EXPECT_DOUBLE_EQ(file.results[1].floor.value().ms, 1.5 * series_of(file.results[0], "launch").statistics.median);
  EXPECT_EQ(file.results[1].floor->of, "copy");
}

TEST(KernelSuite, AlternatesWithTheWorkOfItsFloor) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  ResultFile file = bench_kernels(
      *backend, {.filter = "^(linear f32 5440x192x192|cast f32 to bf16)$", .max_seconds = 0.05, .rounds = 3});
  ASSERT_EQ(file.results.size(), 3U);
  for (const std::size_t i : {1U, 2U}) {
    const Result& result = file.results[i];
    ASSERT_EQ(result.trials.size(), 2U) << result.name;
    EXPECT_EQ(result.trials[1].what, "floor");
    EXPECT_EQ(result.floor.value().ms, result.trials[1].statistics.median);
    for (const TrialSeries& series : result.trials) {
      EXPECT_EQ(series.process.front(), 0);
      EXPECT_EQ(series.process.back(), 2);
    }
  }

  // In two of three rounds it takes 1.25 times its floor, which outweighs the third.
  Result& cast = *std::ranges::find(file.results, "cast f32 to bf16", &Result::name);
  TrialSeries& launch = cast.trials[0];
  TrialSeries& floor = cast.trials[1];
  for (std::size_t i = 0; i < launch.time_ms.size(); ++i) launch.time_ms[i] = launch.process[i] == 2 ? 50 : 10;
  for (std::size_t i = 0; i < floor.time_ms.size(); ++i) floor.time_ms[i] = floor.process[i] == 2 ? 400 : 8;
  const std::string table = to_kernel_table(file).text();
  const std::size_t row = table.find("cast f32 to bf16");
  EXPECT_THAT(table.substr(row, table.find('\n', row) - row), testing::EndsWith("1.25x"));
}

TEST(KernelSuite, TimesFusedOpsAsTheirPlainOpsAndWithColdCaches) {
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const ResultFile file =
      bench_kernels(*backend, {.filter = "^attention f32 of 1x2 heads, 1024", .max_seconds = 0.05, .cold = true});
  ASSERT_EQ(file.results.size(), 3U);
  EXPECT_EQ(file.results[2].name, file.results[1].name + ", standard");
  EXPECT_NE(work_hash(file.results[2].subject), work_hash(file.results[1].subject));
  EXPECT_EQ(file.plans.at(file.results[1].plan.value()).nodes.size(), 1U);
  EXPECT_GE(file.plans.at(file.results[2].plan.value()).nodes.size(), 3U);
  EXPECT_EQ(file.results[1].floor, file.results[2].floor) << "of the work, however it is done";
  EXPECT_EQ(file.results[1].trials.at(1).what, "cold");
  EXPECT_THAT(to_kernel_table(file).text(), AllOf(HasSubstr("cold"), HasSubstr("onednn.matmul + highway.softmax")));
}

}  // namespace
}  // namespace headroom
