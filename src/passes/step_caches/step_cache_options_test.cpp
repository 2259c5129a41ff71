#include "passes/step_caches/step_cache_options.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::string fault(const auto& parse) {
  try {
    parse();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    return error.what();
  }
  return "";
}

TEST(StepCacheOptions, AreReadFromTheArgument) {
  const StepCacheOptions plain = parse_step_cache("fbcache", "0.08");
  EXPECT_EQ(plain.threshold, 0.08);
  EXPECT_EQ(plain.warmup, 1);
  EXPECT_EQ(plain.last, 0);
  EXPECT_EQ(plain.run, 0);
  EXPECT_FALSE(plain.forecasts);
  EXPECT_EQ(plain.schedule, "");

  const StepCacheOptions full = parse_step_cache("fbcache", "1.5:run=5:warmup=2:last=1:taylor=1:schedule=10");
  EXPECT_EQ(full.threshold, 1.5);
  EXPECT_EQ(full.warmup, 2);
  EXPECT_EQ(full.last, 1);
  EXPECT_EQ(full.run, 5);
  EXPECT_TRUE(full.forecasts);
  EXPECT_EQ(full.schedule, "10");
}

TEST(StepCacheOptions, RefuseWhatIsNone) {
  const auto error = [](std::string_view argument) {
    return fault([&] { (void)parse_step_cache("fbcache", argument); });
  };
  EXPECT_THAT(error("abc"), HasSubstr("fbcache=abc: the threshold is 'abc', expected a number over 0"));
  EXPECT_THAT(error("0"), HasSubstr("expected a number over 0"));
  EXPECT_THAT(error("-1"), HasSubstr("expected a number over 0"));
  EXPECT_THAT(error("nan"), HasSubstr("expected a number over 0"));
  EXPECT_THAT(error("0.1x"), HasSubstr("the threshold is '0.1x'"));
  EXPECT_THAT(error("0.1:"), HasSubstr("'' is none of warmup, last, run, taylor, schedule"));
  EXPECT_THAT(error("0.1:warm=2"), HasSubstr("did you mean 'warmup'?"));
  EXPECT_THAT(error("0.1:warmup"), HasSubstr("each with =value"));
  EXPECT_THAT(error("0.1:warmup=0"), HasSubstr("warmup is '0', expected a whole number from 1"));
  EXPECT_THAT(error("0.1:run=2.5"), HasSubstr("run is '2.5'"));
  EXPECT_THAT(error("0.1:taylor=2"), HasSubstr("taylor is '2', expected a whole number from 0 to 1"));
  EXPECT_THAT(error("0.1:schedule=01"), HasSubstr("the first of them 1"));
  EXPECT_THAT(error("0.1:schedule=12"), HasSubstr("a digit for each step"));
  EXPECT_THAT(error("0.1:schedule="), HasSubstr("a digit for each step"));
}

TEST(StepCacheOptions, AScheduleIsRepeated) {
  EXPECT_EQ(steps_of_schedule("110", 5), (std::vector<bool>{true, true, false, true, true}));
  EXPECT_EQ(steps_of_schedule("1000", 2), (std::vector<bool>{true, false}));
}

TEST(StepCacheOptions, SayWhoDecides) {
  EXPECT_EQ(cache_that_decides(SwitchSet::parse("arena,fbcache=0.1:run=2")), "fbcache=0.1:run=2");
  EXPECT_EQ(cache_that_decides(SwitchSet::parse("arena,fbcache=0.1:schedule=10")), "");
  EXPECT_EQ(cache_that_decides(SwitchSet::parse("arena")), "");
  EXPECT_TRUE(has_forced_decisions(SwitchSet::parse("arena,fbcache=0.1:schedule=10")));
  EXPECT_FALSE(has_forced_decisions(SwitchSet::parse("arena,fbcache=0.1")));
  EXPECT_FALSE(has_forced_decisions(SwitchSet::parse("meancache=2:schedule=1010"))) << "data decide nothing of it";
}

TEST(StepCacheOptions, AScheduleIsAddedToTheCacheOfAList) {
  EXPECT_EQ(with_schedule("lossless, fbcache=0.1", "10"), "lossless,fbcache=0.1:schedule=10");
  EXPECT_EQ(with_schedule("meancache=14", "10"), "meancache=14:schedule=10");
  EXPECT_THAT(fault([] { (void)with_schedule("lossless", "10"); }),
              HasSubstr("there is no step cache among the switches, which are fbcache, teacache, meancache"));
}

TEST(StepCacheOptions, AScheduleIsTakenOutOfTheCachesOfAList) {
  EXPECT_EQ(without_schedule("arena,fbcache=0.1:schedule=10"), "arena,fbcache=0.1");
  EXPECT_EQ(without_schedule("teacache=0.1:warmup=2:schedule=110:last=1,steps=8"),
            "teacache=0.1:warmup=2:last=1,steps=8");
  EXPECT_EQ(without_schedule("meancache=2:schedule=1010"), "meancache=2");
  for (const char* list : {"baseline", "arena,fbcache=0.1:warmup=2"}) EXPECT_EQ(without_schedule(list), list);
}

}  // namespace
}  // namespace headroom
