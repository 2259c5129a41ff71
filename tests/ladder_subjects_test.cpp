// `headroom ladder` and `headroom sweep` on everything they take: passes of networks, streams, images of any folder,
// and sizes that are not square.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "measure/results/result.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kGoldens = std::string(kSourceDir) + "/tests/goldens/";
const std::string kShort = " --trials 3 --max-rounds 2 -q ";

class LadderSubjects : public ProgramTest {
 protected:
  /// The results of a ladder that must not fail.
  [[nodiscard]] std::vector<Result> climb(const std::string& arguments) {
    const Outcome outcome = headroom("ladder " + arguments + kShort + "--out " + file("out"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    table_ = outcome.out;
    return outcome.code == 0 ? read_results(file("out") + "/results.json").results : std::vector<Result>();
  }
  [[nodiscard]] static std::vector<std::string> names_of(const std::vector<Result>& results) {
    std::vector<std::string> names;
    for (const Result& result : results) names.push_back(result.name);
    return names;
  }
  [[nodiscard]] static const QualityRecord* find(const Result& result, const std::string& metric) {
    const auto found = std::ranges::find(result.quality, metric, &QualityRecord::metric);
    return found == result.quality.end() ? nullptr : &*found;
  }

  std::string table_;
};

TEST_F(LadderSubjects, ArePassesOfNetworksThatMakeNoImages) {
  const std::vector<Result> decoder =
      climb(kGoldens + "vae/tiny --pass decode --height 16 --width 24 --opt arena,bf16");
  ASSERT_THAT(names_of(decoder), ElementsAre("baseline", "arena", "bf16", "arena+bf16"));
  for (const Result& result : decoder) {
    EXPECT_EQ(result.subject.request.at("pass"), "decode");
    EXPECT_EQ(result.subject.request.at("width"), 24);
    EXPECT_GE(series_of(result, "forward").time_ms.size(), 6U) << "of two rounds";
    ASSERT_NE(find(result, "relative_l2"), nullptr) << result.name;
  }
  EXPECT_THAT(table_, AllOf(HasSubstr("a pass"), HasSubstr("relative L2"), HasSubstr("synergy")));

  const std::vector<Result> encoder = climb(kGoldens + "text/clip-l --opt arena");
  ASSERT_EQ(encoder.size(), 2U);
  EXPECT_TRUE(encoder[0].subject.request.contains("text_tokens"));
}

TEST_F(LadderSubjects, AreStagesAndPassesOfPipelines) {
  const std::vector<Result> unet = climb(kGoldens + "pipelines/sd-1.5 --pass forward");
  ASSERT_FALSE(unet.empty());
  EXPECT_THAT(names_of(unet), AllOf(Contains("channels-last"), Contains("fuse"), Not(Contains("hoist")),
                                    Not(Contains(HasSubstr("steps")))));
  EXPECT_EQ(unet[0].subject.request.at("pass"), "forward");
  const std::vector<Result> stage = climb(kGoldens + "pipelines/sd-1.5 --pass decode --opt arena");
  ASSERT_EQ(stage.size(), 2U);
  EXPECT_EQ(find(stage[1], "relative_l2")->value, 0);
  const Outcome strict = headroom("ladder " + kGoldens + "pipelines/sd-1.5 --pass decode --opt arena --strict " +
                                  "--guidance 3 --seed 4" + kShort);
  EXPECT_THAT(strict.err, HasSubstr("--strict: --guidance changes nothing: it is for whole requests, and this is one "
                                    "pass; --seed changes nothing"));
}

TEST_F(LadderSubjects, AreFramesOfStreams) {
  const std::vector<Result> ink =
      climb(std::string(kSourceDir) + "/models/live-ink --height 32 --width 32 --opt arena,fuse --quality 2");
  ASSERT_THAT(names_of(ink), ElementsAre("baseline", "arena", "fuse", "arena+fuse"));
  for (const Result& result : ink) {
    EXPECT_EQ(result.subject.request.at("pass"), "frame");
    ASSERT_NE(find(result, "psnr_db"), nullptr) << result.name;
    EXPECT_EQ(find(result, "psnr_db")->against, "the teacher's pictures");
    EXPECT_TRUE(find(result, "psnr_db")->interval) << "of two clips";
    EXPECT_NE(find(result, "flicker"), nullptr) << result.name;
  }
  EXPECT_THAT(table_, AllOf(HasSubstr("a frame"), HasSubstr("flicker")));
  const Outcome useless = headroom("ladder " + std::string(kSourceDir) + "/models/live-ink --opt rcfg=self" + kShort);
  EXPECT_EQ(useless.code, 2);
  EXPECT_THAT(useless.err, HasSubstr("--opt rcfg=self: it reads no prompt"));
}

TEST_F(LadderSubjects, AreMeasuredInProcesses) {
  const std::string ladder =
      "ladder " + kGoldens + "vae/tiny --height 16 --width 16 --opt arena,fuse --out " + file("out") + kShort;
  ASSERT_EQ(headroom(ladder + "--pass decode --processes 2").code, 0);
  for (const Result& result : read_results(file("out") + "/results.json").results) {
    std::vector<std::int64_t> processes;
    for (const TrialSeries& series : result.trials)  // visits that other work disturbed are a series of their own
      if (series.what.starts_with("forward"))
        processes.insert(processes.end(), series.process.begin(), series.process.end());
    EXPECT_THAT(processes, AllOf(Contains(0), Contains(1))) << result.name;
  }
  EXPECT_FALSE(std::filesystem::exists(file("out") + "/unfinished.json"));
}

TEST_F(LadderSubjects, HaveImagesOfAnyFolderJudged) {
  write_file_atomically(file("prompts.txt"), "a red fox\na bowl of ramen\n");
  const std::vector<Result> images = climb(kGoldens + "pipelines/sd-1.5 --steps 2 --images 2 --opt arena,steps=1 " +
                                           "--quality 4 --prompts " + file("prompts.txt"));
  ASSERT_THAT(names_of(images), ElementsAre("baseline", "arena", "steps=1", "arena+steps=1"));
  for (const Result& result : {images[2], images[3]}) {
    for (const char* metric : {"psnr_db", "flip"}) {
      ASSERT_NE(find(result, metric), nullptr) << metric;
      EXPECT_EQ(find(result, metric)->against, "baseline, 4 images, same seeds");
      EXPECT_TRUE(find(result, metric)->value && find(result, metric)->interval) << metric;
    }
    EXPECT_EQ(find(result, "accuracy"), nullptr) << "there is no classifier";
  }
  EXPECT_LT(find(images[2], "psnr_db")->value.value(), 60) << "another number of steps is another image";
  EXPECT_THAT(table_, AllOf(HasSubstr("PSNR"), HasSubstr("FLIP")));
}

TEST_F(LadderSubjects, RefuseWhatIsForOthers) {
  const std::string decode = "ladder " + kGoldens + "vae/tiny --pass decode --height 16 --width 16 ";
  for (const auto& [arguments, reason] : std::vector<std::pair<std::string, std::string>>{
           {decode + "--quality 4", "--quality judges images of whole requests and clips of streams"},
           {decode + "--floors", "--floors is for the stages of whole requests"},
           {decode + "--prompts " + std::string(kSourceDir) + "/README.md", "--prompts is for whole requests"},
           {"ladder " + std::string(kSourceDir) + "/models/live-ink --random-weights 0 --quality 2",
            "--quality judges trained weights, and those of live-ink are random"},
           {"ladder " + std::string(kSourceDir) + "/models/fashion-flux --quality 4 --height 16 --width 16",
            "the model's own size: leave out --height and --width, or --token-rows"},
           {"ladder " + std::string(kSourceDir) + "/models/live-ink --pass warp",
            "expected one of step, blend, remember, frame"},
           {"bench " + std::string(kSourceDir) + "/models/live-ink --pass frame --opt arena,stream-batch=2",
            "the switch stream-batch=2 does not apply to a frame of live-ink: each frame is made of"},
           {"bench " + kGoldens + "pipelines/sd-1.5 --reference-rows 3 --reference-columns 3",
            "--reference-rows: sd-1.5 edits no images"},
           {"ladder " + kGoldens + "pipelines/sd-1.5 --pass warp", "text_encoder, encode, decode, frame"},
           {"ladder " + kGoldens + "vae/tiny --pass warp", "expected one of decode, encode\n"}}) {
    const Outcome outcome = headroom(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr(reason));
  }
}

TEST_F(LadderSubjects, SweepOverSizesThatAreNotSquare) {
  const std::string sweep = "sweep " + kGoldens + "flux/tiny-guidance --steps 1 --trials 3 -q --out " + file("a.json");
  const Outcome outcome = headroom(sweep + " --resolution 32x16,16x32,32");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("32x16"), HasSubstr("16x32"), HasSubstr("32x32")));
  const std::vector<Result> results = read_results(file("a.json")).results;
  ASSERT_EQ(results.size(), 3U);
  for (const Result& result : results) {
    const auto rows = result.subject.request.at("token_rows"), columns = result.subject.request.at("token_columns");
    const bool is_wide = result.id.find("32x16") != std::string::npos;
    const bool is_high = result.id.find("16x32") != std::string::npos;
    EXPECT_EQ(rows, is_wide ? 1 : 2) << result.id;
    EXPECT_EQ(columns, is_high ? 1 : 2) << result.id;
  }
  const Outcome again = headroom(sweep + " --resolution 16x32,32x16,32x32");
  EXPECT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_results(file("a.json")).results, results) << "no cell is measured again";
  const Outcome wrong = headroom(sweep + " --resolution 32x");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("--resolution: '32x' is neither a size such as 512x768"));
}

}  // namespace
}  // namespace headroom
