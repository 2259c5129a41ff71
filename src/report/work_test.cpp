#include "report/work.hpp"

#include <gtest/gtest.h>

#include "report/test_util.hpp"

namespace headroom {
namespace {

using test::make_dataset;
using test::make_file;
using test::make_result;

Subject flux_loop(int rows, int columns) {
  return {.kind = SubjectKind::kModel,
          .name = "a-flux",
          .request = {{"images", 1},
                      {"steps", 10},
                      {"token_rows", rows},
                      {"token_columns", columns},
                      {"text_tokens", 512},
                      {"guidance_scale", 3.5}}};
}

Subject flux_pass(int tokens) {
  return {.kind = SubjectKind::kModel,
          .name = "a-flux",
          .request = {{"pass", "forward"}, {"batch", 1}, {"image_tokens", tokens}, {"text_tokens", 512}}};
}

TEST(DescribeWork, NamesTheSizeOfImagesWhereItIsKnown) {
  Subject loop = flux_loop(45, 80), pass = flux_pass(1024);
  EXPECT_EQ(describe_work(loop), "a-flux, 45x80 image tokens, 1 image at once, 10 steps");
  EXPECT_EQ(describe_details(loop), "512 text tokens, guidance 3.5");
  EXPECT_EQ(describe_work(pass), "a-flux, 1024 image tokens, one forward pass");
  loop.token_pixels = pass.token_pixels = 16;
  EXPECT_EQ(describe_work(loop), "a-flux, 1280x720, 1 image at once, 10 steps");
  EXPECT_EQ(describe_details(loop), "45x80 image tokens, 512 text tokens, guidance 3.5");
  loop.request["true_cfg_scale"] = 4.5;
  EXPECT_EQ(describe_work(loop), "a-flux, 1280x720, 1 image at once, 10 steps, true CFG scale 4.5");
  EXPECT_EQ(describe_work(pass), "a-flux, 512x512 (1024 tokens), one forward pass");
  pass.request["image_tokens"] = 1000;
  pass.request["reference_tokens"] = 24;
  pass.request["batch"] = 4;
  EXPECT_EQ(describe_work(pass), "a-flux, 1000 image tokens and 24 of a reference, a batch of 4, one forward pass");
}

TEST(DescribeWork, NamesPixelsAndTexts) {
  EXPECT_EQ(
      describe_work(
          {.name = "GPT2LMHeadModel",
           .request =
               {{"pass", "training step"}, {"batch", 2}, {"micro_batches", 4}, {"tokens", 32}, {"precision", "bf16"}}}),
      "GPT2LMHeadModel, a batch of 2, 4 micro-batches, 32 tokens, bf16, one training step");
  EXPECT_EQ(describe_work({.kind = SubjectKind::kStream,
                           .name = "sd",
                           .request = {{"width", 768}, {"height", 512}, {"steps", 1}, {"fps", 60}}}),
            "sd, 768x512, 1 step, 60 frames a second");
  EXPECT_EQ(describe_work({.name = "t5", .request = {{"pass", "encode"}, {"batch", 1}, {"text_tokens", 512}}}),
            "t5, 512 text tokens, one encode pass");
}

TEST(TokenSizes, AreThoseOfAnotherResultOfTheModel) {
  Subject given = flux_loop(64, 64);
  given.token_pixels = 16;
  const Dataset dataset = make_dataset(
      {make_file({make_result({}, {10}, flux_loop(32, 32)), make_result({}, {1}, flux_pass(1024), "forward")}),
       make_file({make_result({}, {40}, given)})});
  ASSERT_EQ(dataset.scenarios().size(), 3U);
  std::vector<std::string> works;
  for (const Scenario& scenario : dataset.scenarios()) works.push_back(scenario.work);
  EXPECT_EQ(works, (std::vector<std::string>{"a-flux, 512x512, 1 image at once, 10 steps",
                                             "a-flux, 512x512 (1024 tokens), one forward pass",
                                             "a-flux, 1024x1024, 1 image at once, 10 steps"}));
}

}  // namespace
}  // namespace headroom
