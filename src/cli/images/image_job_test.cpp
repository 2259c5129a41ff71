#include "cli/images/image_job.hpp"

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
  nlohmann::json several = all;
  several["image"] = {"a.png", "b.png"};
  EXPECT_EQ(to_json(with_json({}, several, {}, "test")), several);
  const auto refusal = [&](const nlohmann::json& image) {
    nlohmann::json request = all;
    request["image"] = image;
    return error_of([&] { static_cast<void>(with_json({}, request, {}, "line 1")); });
  };
  EXPECT_EQ(refusal({"a.png", 5}),
            R"("image" in line 1 is an array with 5 at index 1, but names of files were expected)");
  EXPECT_EQ(refusal(nlohmann::json::array()),
            R"("image" in line 1 is an empty array, but names of files were expected)");
  EXPECT_EQ(to_json(ImageJob{}), (nlohmann::json{{"seed", 0}})) << "what is not said is left out";
}

TEST(ImageJob, KeepsNumbersThatAreZeroAndTextsThatAreEmpty) {
  const nlohmann::json zeros = {{"seed", 0},    {"guidance", 0.0}, {"true_cfg_scale", 0.0}, {"strength", 0.0},
                                {"prompt", ""}, {"prompt_2", ""},  {"negative_prompt", ""}};
  EXPECT_EQ(to_json(with_json({}, zeros, {}, "test")), zeros);
  ImageJob defaults;
  defaults.guidance = 7;
  defaults.prompt_2 = "vulpes";
  const ImageJob job = with_json(defaults, zeros, {}, "test");
  EXPECT_EQ(job.guidance, 0);
  EXPECT_EQ(job.strength, 0);
  EXPECT_EQ(job.prompt_2, "");
  EXPECT_FALSE(with_json({}, {{"seed", 1}}, {}, "test").guidance.has_value());
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
  const auto error = [](const nlohmann::json& given) {
    return error_of([&] { static_cast<void>(with_json({}, given, {"out"}, "line 3")); });
  };
  EXPECT_THAT(error(nlohmann::json::array()), HasSubstr("line 3: expected a JSON object"));
  EXPECT_THAT(error({{"promt", "x"}}), AllOf(HasSubstr("unknown key 'promt'"), HasSubstr("did you mean 'prompt'?")));
  EXPECT_THAT(error({{"prompt", 3}}), HasSubstr("prompt"));
  EXPECT_THAT(error({{"seed", -1}}), HasSubstr("seed is -1, expected a whole number from 0 on"));
  EXPECT_THAT(error({{"seed", 1.5}}), HasSubstr("seed is 1.5"));
  EXPECT_THAT(error({{"height", 100'000}}), HasSubstr("height is 100000, expected 1 to 16384"));
  EXPECT_THAT(error({{"steps", -3}}), HasSubstr("steps is -3"));
  EXPECT_THAT(error({{"guidance", 1000}}), HasSubstr("guidance is 1000, expected 0 to 100"));
  EXPECT_THAT(error({{"guidance", "much"}}), HasSubstr("guidance"));
  EXPECT_THAT(error({{"loras", "a.safetensors"}}), HasSubstr("loras is \"a.safetensors\", expected a list"));
  EXPECT_THAT(error({{"loras", {{{"weight", 1}}}}}), HasSubstr("file"));
  EXPECT_THAT(error({{"loras", {{{"file", "a"}, {"wieght", 1}}}}}), HasSubstr("unknown key 'wieght'"));
  for (const char* count : {"steps", "height", "width", "text_tokens"})
    EXPECT_THAT(error({{count, 0}}), HasSubstr("is 0, expected 1 to ")) << count;
  for (const char* number :
       {"steps", "height", "width", "text_tokens", "label", "guidance", "true_cfg_scale", "strength"})
    for (const nlohmann::json& value :
         {nlohmann::json(-1), nlohmann::json(1e20), nlohmann::json(18446744073709551615U), nlohmann::json("1"),
          nlohmann::json(true), nlohmann::json::array(), nlohmann::json()})
      EXPECT_THAT(error({{number, value}}), AllOf(HasSubstr("line 3"), HasSubstr(number))) << value;
  EXPECT_THAT(error({{"seed", 1e20}}), HasSubstr("expected a whole number from 0 on"));
  EXPECT_THAT(error({{"strength", 1.5}}), HasSubstr("strength is 1.5, expected 0 to 1"));
  EXPECT_THAT(error({{"loras", {{{"file", "a"}, {"weight", 1e20}}}}}), HasSubstr("expected -1000 to 1000"));
  const nlohmann::json plain = {{"loras", {{{"file", "a.safetensors"}}}}};
  EXPECT_EQ(with_json({}, plain, {}, "test").loras, (std::vector<LoraUse>{{"a.safetensors", 1}}));
}

}  // namespace
}  // namespace headroom
