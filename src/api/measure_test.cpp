// What the program's commands report, by the public interface alone.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "api/headroom.hpp"
#include "base/test_paths.hpp"

namespace {

using headroom::Device;
using headroom::Report;
using headroom::Work;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::ThrowsMessage;

std::string tiny() { return std::string(headroom::kSourceDir) + "/tests/goldens/flux/tiny-guidance"; }
std::string fashion() { return std::string(headroom::kSourceDir) + "/models/fashion-flux"; }
Work tiny_pass() { return {.model = tiny(), .pass = "forward", .height = 32, .width = 48, .text_tokens = 3}; }
Work tiny_request() { return {.model = fashion(), .pass = "request", .height = 16, .width = 16, .steps = 1}; }

TEST(Measure, BenchTimesAPass) {
  std::set<std::string, std::less<>> seen;
  const Report report = bench(Device("cpu", 2), tiny_pass(), "lossless", {.trials = 3, .cold = true},
                              [&](std::string_view what, std::int64_t, std::int64_t) { seen.emplace(what); });
  EXPECT_THAT(report.result, AllOf(HasSubstr("headroom.result/1"), HasSubstr("\"forward\""), HasSubstr("\"cold\"")));
  EXPECT_THAT(report.text, AllOf(HasSubstr("tiny-guidance forward, batch 1"), HasSubstr("(n = 3"),
                                 HasSubstr("with cold caches"), HasSubstr("planned in")));
  EXPECT_THAT(seen, testing::ElementsAre("trials", "warm-up"));
}

TEST(Measure, BenchTimesRequests) {
  const Report report = bench(Device("cpu", 2), tiny_request(), "lossless", {.trials = 2});
  EXPECT_THAT(report.result, AllOf(HasSubstr("\"image\""), HasSubstr("\"step\"")));
  EXPECT_THAT(report.text, AllOf(HasSubstr("1 image at once"), HasSubstr("denoise"), HasSubstr("memory:")));
}

TEST(Measure, LadderMeasuresEverySwitch) {
  const Report report = ladder(Device("cpu", 2), tiny_pass(), "arena,fuse", {.trials = 3});
  EXPECT_THAT(report.text, AllOf(HasSubstr("baseline"), HasSubstr("arena"), HasSubstr("fuse")));
  EXPECT_THAT(report.result, AllOf(HasSubstr("headroom.result/1"), HasSubstr("arena+fuse")));
}

TEST(Measure, AnObserverEndsTheWork) {
  struct Stop {};
  const auto stop = [](std::string_view, std::int64_t, std::int64_t) { throw Stop(); };
  EXPECT_THROW((void)bench(Device("cpu", 2), tiny_pass(), "baseline", {}, stop), Stop);
  EXPECT_THROW((void)ladder(Device("cpu", 2), tiny_pass(), "arena", {}, stop), Stop);
}

TEST(Measure, PlansAreThoseOfPassesAndOfRequests) {
  const std::string pass = plan_text(Device("cpu", 2), tiny_pass());
  EXPECT_THAT(pass, AllOf(HasSubstr("planned in"), HasSubstr("weights take"), HasSubstr("program")));
  EXPECT_GT(plan_text(Device("cpu", 2), tiny_pass(), "lossless", true).size(), pass.size());
  EXPECT_THAT(pass, HasSubstr("program flux_forward"));
  EXPECT_THAT(plan_text(Device("cpu", 2), tiny_request()),
              AllOf(HasSubstr("program"), Not(HasSubstr("program flux_forward"))));
}

TEST(Measure, WorkThatMakesNoSenseIsRefused) {
  const Device device("cpu", 2);
  const auto refuses = [&](const Work& work, const headroom::BenchOptions& options, const std::string& words) {
    EXPECT_THAT([&] { (void)bench(device, work, "baseline", options); },
                ThrowsMessage<headroom::Error>(HasSubstr(words)));
  };
  refuses({.model = tiny(), .batch = 0}, {}, "batch is 0");
  refuses({.model = tiny(), .pass = "decode"}, {}, "has no pass 'decode'");
  refuses(tiny_pass(), {.trials = 0}, "trials is 0");
  refuses(tiny_pass(), {.floors = true}, "floors are of whole requests");
  refuses(tiny_request(), {.cold = true}, "cold and first_step are for one pass");
  refuses({.model = "no-such-model"}, {}, "no-such-model");
  EXPECT_THAT([&] { (void)bench(device, tiny_pass(), "auto"); }, ThrowsMessage<headroom::Error>(HasSubstr("auto")));
  EXPECT_THAT([&] { (void)ladder(device, tiny_pass(), "arena", {.rounds = 1}); },
              ThrowsMessage<headroom::Error>(HasSubstr("rounds")));
}

}  // namespace
