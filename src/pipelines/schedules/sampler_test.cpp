#include "pipelines/schedules/sampler.hpp"

#include <gtest/gtest.h>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(Sampler, IsKnownByItsName) {
  for (const Sampler sampler : {Sampler::kEuler, Sampler::kDpm2MSde, Sampler::kEulerAncestral, Sampler::kLcm})
    EXPECT_EQ(parse_sampler(to_string(sampler)), SamplerChoice{sampler});
  EXPECT_EQ(to_string(Sampler::kDpm2M), "dpm++2m");
  for (std::size_t i = 0; i < kSamplers; ++i)
    EXPECT_EQ(find_sampler(to_string(static_cast<Sampler>(i))), static_cast<Sampler>(i));
  EXPECT_EQ(find_sampler("lmss"), std::nullopt);
}

TEST(Sampler, AnUnknownNameIsRefusedWithThoseThatThereAre) {
  try {
    static_cast<void>(parse_sampler("unipcc"));
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "switch sampler=unipcc: expected one of euler, heun, dpm++2m, dpm++2m-sde, unipc, ddim, plms, "
                 "euler-ancestral, lcm, dpm++2s, dpm++2s-sde, dpm++sde, deis, lms, ddpm, tcd; did you mean 'unipc'?");
  }
}

TEST(Sampler, TakesAShiftOfItsLevels) {
  EXPECT_EQ(parse_sampler("unipc:shift=1"), (SamplerChoice{Sampler::kUniPC, 1.0}));
  EXPECT_EQ(parse_sampler("dpm++2m:shift=0.75"), (SamplerChoice{Sampler::kDpm2M, 0.75}));
  for (const char* wrong : {"unipc:", "unipc:shift", "unipc:shift=", "unipc:shift=0", "unipc:shift=nan",
                            "unipc:shift=1x", "unipc:shift=1:shift=2", "unipc:order=3"})
    EXPECT_THROW(static_cast<void>(parse_sampler(wrong)), Error) << wrong;
}

TEST(Sampler, TcdTakesHowMuchOfAStepsNoiseIsFresh) {
  EXPECT_EQ(parse_sampler("tcd:eta=0.3"), (SamplerChoice{.sampler = Sampler::kTcd, .eta = 0.3}));
  EXPECT_EQ(parse_sampler("tcd:eta=0"), (SamplerChoice{.sampler = Sampler::kTcd, .eta = 0.0}));
  for (const char* wrong :
       {"tcd:eta=1.1", "tcd:eta=-0.1", "tcd:eta=nan", "tcd:eta=", "tcd:eta=0:eta=1", "ddim:eta=0.3"})
    EXPECT_THROW(static_cast<void>(parse_sampler(wrong)), Error) << wrong;
}

TEST(Sampler, HeunCallsTwiceInEachStepButTheLastAndPlmsInTheFirst) {
  EXPECT_EQ(count_calls(Sampler::kHeun, 1), 1);
  EXPECT_EQ(count_calls(Sampler::kHeun, 8), 15);
  EXPECT_EQ(count_calls(Sampler::kDpmSde, 8), 15);
  EXPECT_EQ(count_calls(Sampler::kDpm2S, 8), 8);
  EXPECT_EQ(count_calls(Sampler::kUniPC, 8), 8);
  EXPECT_EQ(count_calls(Sampler::kPlms, 1), 1);
  EXPECT_EQ(count_calls(Sampler::kPlms, 8), 9);
}

}  // namespace
}  // namespace headroom
