#include "base/text/nearest.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kSwitches = {"arena", "flash", "fuse", "hoist", "fp16", "bf16", "tf32", "fp8", "graph"};

TEST(Nearest, NamesWhatASlipOfTheKeysMeant) {
  EXPECT_THAT(nearest_names("flsh", kSwitches), ElementsAre("flash"));
  EXPECT_THAT(nearest_names("falsh", kSwitches), ElementsAre("flash")) << "exchanged letters are one slip";
  EXPECT_THAT(nearest_names("fusee", kSwitches), ElementsAre("fuse"));
  EXPECT_THAT(nearest_names("graqh", kSwitches), ElementsAre("graph"));
  EXPECT_THAT(nearest_names("FUSE", kSwitches), ElementsAre("fuse"));
  EXPECT_THAT(nearest_names("bp16", kSwitches), ElementsAre("fp16", "bf16")) << "in the order of the list";
}

TEST(Nearest, NamesWhatABeginningMeant) {
  const std::vector<std::string> commands = {"run", "report", "history"};
  EXPECT_THAT(nearest_names("hist", commands), ElementsAre("history"));
  EXPECT_THAT(nearest_names("re", commands), ElementsAre("report"));
}

TEST(Nearest, NamesNothingThatIsFarOff) {
  EXPECT_THAT(nearest_names("warp", kSwitches), IsEmpty());
  EXPECT_THAT(nearest_names("flash", kSwitches), IsEmpty()) << "what was given is no correction of it";
  EXPECT_THAT(nearest_names("x", kSwitches), IsEmpty());
  EXPECT_THAT(nearest_names("", kSwitches), IsEmpty());
  EXPECT_THAT(nearest_names(std::string(100, 'f'), kSwitches), IsEmpty());
  EXPECT_THAT(nearest_names("flash", {}), IsEmpty());
}

TEST(Nearest, AFilterMeansAPartOfAName) {
  const std::vector<std::string> kernels = {"linear f32 8x8", "linear bf16 8x8", "linear bf16 9x9", "gelu bf16 8"};
  EXPECT_THAT(nearest_names("liner bf16", kernels, Likeness::kPart), ElementsAre("linear bf16 8x8", "linear bf16 9x9"));
  EXPECT_THAT(nearest_names("geul", kernels, Likeness::kPart), ElementsAre("gelu bf16 8"));
  EXPECT_THAT(nearest_names("attention", kernels, Likeness::kPart), IsEmpty());
}

TEST(Nearest, EndsTheSentence) {
  EXPECT_EQ(did_you_mean("flsh", kSwitches), "; did you mean 'flash'?");
  EXPECT_EQ(did_you_mean("bp16", kSwitches), "; did you mean 'fp16' or 'bf16'?");
  const std::vector<std::string> many = {"--save", "--save-base", "--save-verdict", "--seed"};
  EXPECT_EQ(did_you_mean("--sav", many), "; did you mean '--save', '--save-base' or '--save-verdict'?");
  EXPECT_EQ(did_you_mean("warp", kSwitches), "");
}

}  // namespace
}  // namespace headroom
