#include "cli/image_job.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;

TEST(ImageJob, ComesBackFromItsJson) {
  const nlohmann::json all = {{"prompt", "a fox"},
                              {"prompt_2", "vulpes"},
                              {"negative_prompt", "blur"},
                              {"seed", 18446744073709551615U},
                              {"label", 3},
                              {"height", 512},
                              {"width", 768},
                              {"steps", 9},
                              {"text_tokens", 77},
                              {"guidance", 2.5},
                              {"true_cfg_scale", 1.5},
                              {"image", "in.png"},
                              {"noise", "n.safetensors"},
                              {"loras", {{{"file", "a.safetensors"}, {"weight", -0.5}}}}};
  EXPECT_EQ(to_json(with_json({}, all, {}, "test")), all);
  EXPECT_EQ(to_json(ImageJob{}), (nlohmann::json{{"seed", 0}})) << "what is not said is left out";
}

TEST(ImageJob, SaysNothingOfWhatAnObjectLeavesOut) {
  ImageJob defaults;
  defaults.prompt = "a fox";
  defaults.steps = 9;
  const ImageJob job = with_json(defaults, {{"seed", 5}, {"out", "x.png"}}, {"out"}, "test");
  EXPECT_EQ(job.prompt, "a fox");
  EXPECT_EQ(job.seed, 5U);
  EXPECT_EQ(job.steps, 9);
}

TEST(ImageJob, RefusesWhatIsNoRequest) {
  const auto error = [](const nlohmann::json& json) {
    return error_of([&] { static_cast<void>(with_json({}, json, {"out"}, "line 3")); });
  };
  EXPECT_THAT(error(nlohmann::json::array()), HasSubstr("line 3: expected a JSON object"));
  EXPECT_THAT(error({{"promt", "x"}}), AllOf(HasSubstr("unknown key 'promt'"), HasSubstr("did you mean 'prompt'?")));
  EXPECT_THAT(error({{"prompt", 3}}), HasSubstr("prompt"));
  EXPECT_THAT(error({{"seed", -1}}), HasSubstr("seed is -1, expected a whole number from 0 on"));
  EXPECT_THAT(error({{"seed", 1.5}}), HasSubstr("seed is 1.5"));
  EXPECT_THAT(error({{"height", 100'000}}), HasSubstr("height is 100000, expected 0 to 16384"));
  EXPECT_THAT(error({{"steps", -3}}), HasSubstr("steps is -3"));
  EXPECT_THAT(error({{"guidance", 1000}}), HasSubstr("guidance is 1000, expected 0 to 100"));
  EXPECT_THAT(error({{"guidance", "much"}}), HasSubstr("guidance"));
  EXPECT_THAT(error({{"loras", "a.safetensors"}}), HasSubstr("loras is \"a.safetensors\", expected a list"));
  EXPECT_THAT(error({{"loras", {{{"weight", 1}}}}}), HasSubstr("file"));
  EXPECT_THAT(error({{"loras", {{{"file", "a"}, {"wieght", 1}}}}}), HasSubstr("unknown key 'wieght'"));
  const nlohmann::json plain = {{"loras", {{{"file", "a.safetensors"}}}}};
  EXPECT_EQ(with_json({}, plain, {}, "test").loras, (std::vector<LoraUse>{{"a.safetensors", 1}}));
}

}  // namespace
}  // namespace headroom
