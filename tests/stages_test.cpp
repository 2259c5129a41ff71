// The stages of a whole pipeline as a user meets them: timed with requests, each by itself, and drawn.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "measure/results/result.hpp"
#include "measure/results/timing.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PipelineStagesTest : public ProgramTest {
 protected:
  /// A command on a small request of the pipeline.
  [[nodiscard]] Outcome command(const std::string& name, const std::string& arguments) const {
    const fs::path schnell = fs::path(kSourceDir) / "tests/goldens/pipelines/flux-schnell";
    return headroom(name + " " + schnell.string() + " --quiet --device cpu --threads 1 " + arguments);
  }
  [[nodiscard]] static Result only_result(const Outcome& outcome) {
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return results_from_json(parse_json(outcome.out, "output"), "output").results.at(0);
  }
  [[nodiscard]] static std::vector<std::string> stages_of(const Result& result) {
    std::vector<std::string> names;
    for (const StageRecord& stage : result.stages) names.push_back(stage.name);
    return names;
  }
};

TEST_F(PipelineStagesTest, BenchTimesWholeRequests) {
  const std::string work = "--pass request --height 32 --width 32 --text-tokens 8 --opt steps=1,arena ";
  const std::string options = work + "--trials 3 ";
  const Result result = only_result(command("bench", options + "--floors --json --out " + file("base.json")));
  EXPECT_THAT(stages_of(result),
              ElementsAre("tokenize", "text_encoder", "text_encoder_2", "inputs", "denoise", "decode"));
  EXPECT_EQ(result.trials.front().what, "image") << "which --budget and --compare judge";
  EXPECT_EQ(series_of(result, "step").time_ms.size(), 3U);
  for (const StageRecord& stage : result.stages) {
    EXPECT_EQ(series_of(result, stage.name).time_ms.size(), 3U) << stage.name;
    EXPECT_EQ(stage.floor_ms.has_value(), stage.memory_bytes.has_value()) << stage.name;
  }
  EXPECT_EQ(command("bench", options + "--budget 3600s").code, 4) << "3 trials say nothing of the p99";
  EXPECT_EQ(command("bench", options + "--budget 1us").code, 4) << "nor of the median";
  const Outcome missed = command("bench", work + "--trials 6 --budget 1us --out " + file("missed.json"));
  EXPECT_EQ(missed.code, why_unsettled(read_results(file("missed.json")).results.at(0)) ? 4 : 3)
      << "other programs may disturb the times";
  const Outcome compared = command("bench", options + "--process-noise 1% --compare " + file("base.json"));
  EXPECT_THAT(compared.out, HasSubstr("image")) << compared.err;

  const Outcome text = command("bench", options);
  EXPECT_THAT(text.out, AllOf(HasSubstr("an image"), HasSubstr("stages of a generation"), HasSubstr("text_encoder_2"),
                              HasSubstr("3 trials give no 95% interval, 6 would")));
}

TEST_F(PipelineStagesTest, LadderTellsThem) {
  const Outcome outcome = command("ladder",
                                  "--opt arena --batch 1 --steps 1 --height 32 --width 32 --text-tokens 8 --trials 3 "
                                  "--max-rounds 2 --out " +
                                      file("out"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("stages of a generation"), HasSubstr("decode")));
  const ResultFile kept = read_results(file("out/results.json"));
  for (const Result& result : kept.results) {
    ASSERT_THAT(stages_of(result),
                ElementsAre("tokenize", "text_encoder", "text_encoder_2", "inputs", "denoise", "decode"));
    const TrialSeries& images = series_of(result, "image");
    EXPECT_EQ(series_of(result, "decode").round, images.round) << "by visit, as all series";
  }
  const Outcome report = headroom("report " + file("out/results.json") + " --out " + file("report"));
  ASSERT_EQ(report.code, 0) << report.err;
  const auto is_drawn = [](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    return name.starts_with("stage_times-") && name.ends_with(".png");
  };
  EXPECT_TRUE(std::ranges::any_of(fs::directory_iterator(file("report")), is_drawn));
}

TEST_F(PipelineStagesTest, AStageIsProfiledAndPlannedByItself) {
  const std::string size = " --height 32 --width 48 --text-tokens 8 --opt arena";
  const Result decode = only_result(command("profile", "--pass decode --trials 3 --json" + size));
  EXPECT_EQ(decode.subject.name, "vae");
  EXPECT_EQ(decode.subject.request.at("pass"), "decode");
  EXPECT_EQ(series_of(decode, "forward").what, "forward");
  ASSERT_TRUE(decode.profile);
  const Outcome text = command("profile", "--pass text_encoder_2 --trials 3" + size);
  EXPECT_THAT(text.out, HasSubstr("rms_norm")) << text.err;

  const nlohmann::json plan = parse_json(command("plan", "--pass decode --json" + size).out, "plan");
  EXPECT_THAT(plan.at("steps").back().at("node").get<std::string>(), HasSubstr("decoder"));
  EXPECT_EQ(command("plan", "--pass request" + size).out.find("decoder"), std::string::npos) << "the loop alone";
}

/// Under hoist the loop has a setup: a stage in results, and a program of its own in plans and profiles.
TEST_F(PipelineStagesTest, TheSetupOfALoopIsTimedProfiledAndPlanned) {
  const std::string work = " --height 32 --width 48 --text-tokens 8 --opt arena,hoist,steps=2";
  const Result request = only_result(command("bench", "--pass request --trials 3 --json" + work));
  EXPECT_THAT(stages_of(request),
              ElementsAre("tokenize", "text_encoder", "text_encoder_2", "inputs", "setup", "denoise", "decode"));
  EXPECT_EQ(series_of(request, "setup").time_ms.size(), 3U);

  const nlohmann::json plan = parse_json(command("plan", "--json" + work).out, "plan");
  const auto has_modulation = [](const nlohmann::json& steps) {
    return std::ranges::any_of(steps, [](const nlohmann::json& step) {
      return step.at("op") == "linear" && step.at("node").get<std::string>().ends_with("norm1.linear");
    });
  };
  EXPECT_TRUE(has_modulation(plan.at("setup")));
  EXPECT_FALSE(has_modulation(plan.at("steps")));
  EXPECT_THAT(command("plan", "--memory" + work).out, HasSubstr("its setup, which runs before it"));

  const Result setup = only_result(command("profile", "--pass setup --trials 3 --json" + work));
  EXPECT_EQ(setup.subject.request.at("pass"), "setup");
  EXPECT_GE(series_of(setup, "setup").time_ms.size(), 3U);
  ASSERT_TRUE(setup.profile);
  EXPECT_EQ(setup.profile->time_ms.size(), plan.at("setup").size());
  EXPECT_THAT(command("profile", "--trials 3" + work).out, HasSubstr("profile it by --pass setup"));
  const Outcome without = command("profile", "--pass setup --opt arena,steps=2");
  EXPECT_EQ(without.code, 2);
  EXPECT_THAT(without.err, HasSubstr("has no setup under 'arena,steps=2': hoist makes one"));
}

TEST_F(PipelineStagesTest, AnUnknownStageIsReportedWithTheKnownOnes) {
  for (const char* name : {"profile", "plan", "bench"}) {
    const Outcome outcome = command(name, "--pass decod");
    EXPECT_EQ(outcome.code, 2) << name;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("request, forward, text_encoder, text_encoder_2, decode"),
                                   HasSubstr("did you mean 'decode'")))
        << name;
  }
  EXPECT_THAT(command("bench", "--pass request --cold").err, HasSubstr("--cold"));
  EXPECT_THAT(command("bench", "--floors").err, HasSubstr("--pass request"));
}

}  // namespace
}  // namespace headroom
