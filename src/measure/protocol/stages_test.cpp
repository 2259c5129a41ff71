#include "measure/protocol/stages.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "measure/protocol/generation.hpp"
#include "measure/results/describe.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> names_of(const std::vector<StageRecord>& stages) {
  std::vector<std::string> names;
  for (const StageRecord& stage : stages) names.push_back(stage.name);
  return names;
}

class StagesTest : public testing::Test {
 protected:
  [[nodiscard]] GenerationOptions options() const {
    return {.request = {.images = 2, .token_rows = 4, .token_columns = 4, .text_tokens = 8, .steps = 2, .switches = {}},
            .warmup_steps = 0,
            .min_trials = 4};
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  std::unique_ptr<Pipeline> pipeline_ =
      open_pipeline((source_dir(kSourceDir) / "tests/goldens/pipelines/flux-schnell").string());
};

TEST_F(StagesTest, AResultTellsEveryStageOfARequest) {
  const Result result = measure_generation(*pipeline_, *backend_, options()).results.front();
  ASSERT_THAT(names_of(result.stages),
              ElementsAre("tokenize", "text_encoder", "text_encoder_2", "inputs", "denoise", "decode"));
  std::int64_t activations = 0;
  std::vector<double> whole_ms(series_of(result, "image").time_ms.size());
  for (const StageRecord& stage : result.stages) {
    const TrialSeries& times = series_of(result, stage.name);
    ASSERT_EQ(times.time_ms.size(), whole_ms.size()) << stage.name;
    for (std::size_t i = 0; i < whole_ms.size(); ++i) whole_ms[i] += times.time_ms[i];
    const bool on_host = stage.name == "tokenize" || stage.name == "inputs";
    EXPECT_EQ(stage.memory_bytes.has_value(), !on_host) << stage.name;
    EXPECT_EQ(stage.weights_bytes.has_value(), !on_host) << stage.name;
    EXPECT_FALSE(stage.floor_ms) << stage.name;
    activations += stage.memory_bytes.value_or(0);
    if (!on_host) {
      EXPECT_GT(*stage.weights_bytes, 0) << stage.name;
    }
  }
  for (std::size_t i = 0; i < whole_ms.size(); ++i)
    EXPECT_DOUBLE_EQ(series_of(result, "image").time_ms[i], whole_ms[i] / 2) << "two images";
  EXPECT_EQ(result.memory->activations_bytes, activations) << "of all stages, which are in memory together";
}

TEST_F(StagesTest, AFloorIsOfAllThatAGenerationRuns) {
  WeightStore weights(*backend_, pipeline_->components());
  Generator generator(*pipeline_, *backend_, weights, options().request);
  (void)generator.decode(generator.generate(make_image_requests(*pipeline_, 0, 2, 0)));
  const std::vector<StageWork> work = work_of_stages(generator);
  std::vector<std::int64_t> runs;
  for (const StageWork& one : work) runs.push_back(one.runs);
  EXPECT_THAT(runs, ElementsAre(2, 2, 1, 2)) << "two prompts, read and read, one loop, two images decoded";

  std::vector<StageRecord> stages = describe_stages(generator);
  add_floors(stages, work, *backend_);
  for (const StageRecord& stage : stages) {
    EXPECT_EQ(stage.floor_ms.has_value(), stage.memory_bytes.has_value()) << stage.name;
    EXPECT_GT(stage.floor_ms.value_or(1), 0) << stage.name;
  }
}

TEST_F(StagesTest, RequestsAreTimedWithoutTheirWarmUp) {
  WeightStore weights(*backend_, pipeline_->components());
  Generator generator(*pipeline_, *backend_, weights, options().request);
  const Protocol protocol{.warmup_min = 1, .warmup_max = 1, .trials = 3};
  const GenerationTimes times = time_requests(generator, make_image_requests(*pipeline_, 0, 2, 0), *backend_, protocol);
  EXPECT_EQ(times.images.wall_ms.size(), 3U);
  EXPECT_EQ(times.images.warmup, 1);
  EXPECT_EQ(times.steps.wall_ms.size(), 6U);
  EXPECT_EQ(times.steps.warmup, 2);
  EXPECT_EQ(times.prologues.wall_ms.size(), 3U);
  for (const StageTimes& stage : times.stages) EXPECT_EQ(stage.runs.wall_ms.size(), 3U) << stage.name;
}

StageRecord on_host(const std::string& name) {
  return {.name = name, .memory_bytes = {}, .weights_bytes = {}, .floor_ms = {}};
}
StageRecord on_device(const std::string& name, double floor_ms) {
  return {.name = name, .memory_bytes = 1, .weights_bytes = 1, .floor_ms = floor_ms};
}

Result timed(const std::vector<StageRecord>& stages) {
  Result result;
  for (const StageRecord& stage : stages) result.trials.push_back(make_series(stage.name, Trials{.wall_ms = {12}}));
  result.stages = stages;
  return result;
}

TEST(StageTable, SaysHowManyTimesItsFloorAStageTakes) {
  const Result whole = timed({on_device("denoise", 10), on_host("decode")});
  const Result loop = timed({on_host("inputs"), on_device("denoise", 10)});
  const std::pair<std::string, const Result*> both[] = {{"arena", &whole}, {"fuse", &loop}};
  EXPECT_THAT(to_stage_table(both)->render(),
              AllOf(HasSubstr("12.0 ms (1.20x)"), HasSubstr("arena"), HasSubstr("decode"), HasSubstr(" -")));
  const Result fast = timed({on_device("denoise", 20), on_host("decode")});
  const std::pair<std::string, const Result*> below[] = {{"arena", &fast}};
  EXPECT_THAT(to_stage_table(below)->render(), HasSubstr("12.0 ms (below)")) << "a floor that does not bound it";
  const std::pair<std::string, const Result*> only_loop[] = {{"fuse", &loop}};
  EXPECT_FALSE(to_stage_table(only_loop)) << "which the table above it tells";
}

TEST(StageTable, SaysOfHowManyGenerationsItIsAndHowSure) {
  Result result = timed({on_device("denoise", 10), on_host("decode")});
  result.trials.clear();
  for (const char* const stage : {"denoise", "decode"})
    result.trials.push_back(make_series(stage, Trials{.wall_ms = {10, 11, 12, 13, 14, 15}}));
  const std::pair<std::string, const Result*> one[] = {{"arena", &result}};
  const Interval interval = *result.trials.front().statistics.median_interval;
  const std::string table = to_stage_table(one)->render();
  EXPECT_THAT(table, AllOf(HasSubstr("stages of a generation  n "), HasSubstr("  6  "),
                           HasSubstr(format_interval_ms(interval))));
  EXPECT_THAT(to_stage_table(one)->to_csv(),
              HasSubstr("arena,6,12.5," + exact_number(interval.low) + "," + exact_number(interval.high) + ",12.5,"));
}

TEST(StageTable, KeepsTheLongestStageWhereThereIsLittleRoom) {
  Result result = timed({on_host("tokenize"), on_device("denoise", 10), on_host("decode")});
  result.trials[1] = make_series("denoise", Trials{.wall_ms = {900}});
  const std::pair<std::string, const Result*> one[] = {{"arena", &result}};
  const std::string table = to_stage_table(one)->render(60);
  EXPECT_THAT(table, AllOf(HasSubstr("900 ms (90.0x)"), HasSubstr("not shown in 60 columns: ")));
}

}  // namespace
}  // namespace headroom
