#include "measure/protocol/auto_request.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

std::vector<std::string> loops_of(const Request& request, std::string_view fixed = "") {
  return cheaper_loops_of(request, SwitchSet::parse(fixed));
}

TEST(CheaperLoops, AreOfFewestCallsFirstAndOfEveryKind) {
  const std::vector<std::string> loops = loops_of({.steps = 28});
  EXPECT_EQ(loops.front(), "sampler=unipc,steps=7");
  EXPECT_THAT(loops, Contains("sampler=dpm++2m,steps=14"));
  EXPECT_THAT(loops, Contains("meancache=9"));
  EXPECT_THAT(loops, Contains(StartsWith("fbcache=")));
  const auto place = [&](const char* loop) { return std::ranges::find(loops, loop) - loops.begin(); };
  EXPECT_LT(place("meancache=7"), place("sampler=unipc,steps=9"));
  EXPECT_LT(place("meancache=14"), place("meancache=18"));
  for (const std::string& loop : loops) EXPECT_NO_THROW(static_cast<void>(SwitchSet::parse(loop))) << loop;
}

TEST(CheaperLoops, LeaveWhatIsGiven) {
  EXPECT_THAT(loops_of({.steps = 28}, "steps=28"), Each(Not(HasSubstr("steps="))));
  const std::vector<std::string> of_sampler = loops_of({.steps = 28, .sampler = Sampler::kDpm2M}, "sampler=dpm++2m");
  EXPECT_THAT(of_sampler, Contains("steps=14"));
  EXPECT_THAT(of_sampler, Each(Not(HasSubstr("sampler="))));
}

/// A model distilled for few steps, or for a sampler with fresh noise, defines no ODE for a better solver.
TEST(CheaperLoops, OfFewStepsOrWithFreshNoiseHaveNoOtherSampler) {
  EXPECT_THAT(loops_of({.steps = 28, .sampler = Sampler::kLcm}), Each(Not(HasSubstr("steps="))));
  EXPECT_THAT(loops_of({.steps = 4}), Each(Not(HasSubstr("steps="))));
  EXPECT_THAT(loops_of({.steps = 2}), Each(Not(HasSubstr("meancache="))));
}

class CheaperLoopsOfTheModel : public testing::Test {
 protected:
  void SetUp() override {
#ifdef __SANITIZE_ADDRESS__
    GTEST_SKIP() << "to judge 140 images takes minutes under the sanitizers";
#endif
  }
  [[nodiscard]] AutoRequest request(RequestOptions options) const {
    AutoRequest request = make_auto_request(*pipeline_, options);
    request.judged_images = 140;  // the judge has 128 features
    return request;
  }
  RequestBench bench(const RequestOptions& options) {
    return {*backend_, request(options), [this](std::string_view label, std::int64_t done, std::int64_t total) {
              EXPECT_EQ(done, ++judged_[std::string(label)]);
              EXPECT_LE(done, total);
            }};
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu, 1);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline((source_dir(kSourceDir) / "models/fashion-flux-turbo").string());
  std::map<std::string, std::int64_t> judged_;  // steps by label
};

TEST_F(CheaperLoopsOfTheModel, AreJudgedWhereThereIsAJudge) {
  const SwitchSet every = SwitchSet::parse("lossless"), fewer = every.with(SwitchSet::parse("steps=1"));
  RequestBench two_steps = bench({.steps = 2, .switches = {}});
  const AutoBench::Loss loss = two_steps.loss(fewer, every);
  EXPECT_THAT(loss.what, AnyOf(HasSubstr("label is no longer seen"), HasSubstr("Frechet distance")));
  EXPECT_GT(loss.value, 0) << "one step is worse than two";
  // No label of 140 images is lost, which is compatible with a loss of at most 3 in about 200.
  EXPECT_LT(two_steps.loss(every, every).value, 0.015) << "and the same no worse than itself";
  const std::map<std::string, std::int64_t> once = {{"judging 140 images with every step", 7 * 2},
                                                    {"judging 140 images with steps=1", 7}};
  EXPECT_EQ(judged_, once) << "nothing is judged twice";
}

TEST_F(CheaperLoopsOfTheModel, AreHeldByTheirLatentsWhereTheJudgeIsOfAnotherSize) {
  const SwitchSet every = SwitchSet::parse("lossless"), fewer = every.with(SwitchSet::parse("steps=1"));
  RequestBench small = bench({.token_rows = 4, .token_columns = 4, .steps = 2, .switches = {}});
  const AutoBench::Loss loss = small.loss(fewer, every);
  EXPECT_EQ(loss.what, "the relative L2 of its latents");
  EXPECT_GT(loss.value, 1e-3);
  EXPECT_LT(loss.value, 2);
  EXPECT_TRUE(judged_.empty());
}

/// `auto` does not change the number of steps that the user gives.
TEST_F(CheaperLoopsOfTheModel, LeaveStepsThatAreGiven) {
  EXPECT_THAT(bench({.steps = 28, .switches = {}}).cheaper_loops(),
              AllOf(Contains("meancache=7"), Each(Not(HasSubstr("steps=")))));
  EXPECT_THAT(bench({.switches = SwitchSet::parse("steps=28")}).cheaper_loops(), Each(Not(HasSubstr("steps="))));
  EXPECT_THAT(bench({.switches = {}}).cheaper_loops(), Contains("meancache=2"));
}

}  // namespace
}  // namespace headroom
