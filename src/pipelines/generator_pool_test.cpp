#include "pipelines/generator_pool.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

class GeneratorPoolTest : public testing::Test {
 protected:
  RequestOptions of_rows(std::int64_t rows, std::int64_t text_tokens = 8) {
    return {.token_rows = rows, .token_columns = 2, .text_tokens = text_tokens, .steps = 1, .switches = {}};
  }
  HostTensor draw(Generator& generator) {
    const ImageRequest image{.seed = 5, .prompt = "a red fox"};
    return generator.decode(generator.generate({&image, 1}));
  }
  [[nodiscard]] std::size_t held() const { return backend_->memory_use().total; }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  std::unique_ptr<Pipeline> pipeline_ =
      open_pipeline((source_dir(kSourceDir) / "tests/goldens/pipelines/flux-schnell").string());
  WeightStore weights_{*backend_, pipeline_->components()};
  GeneratorPool pool_{*pipeline_, *backend_, weights_, SwitchSet::parse("arena")};
};

TEST_F(GeneratorPoolTest, AnEqualRequestIsTheSameGenerator) {
  Generator* const two = &pool_.get(of_rows(2));
  EXPECT_NE(&pool_.get(of_rows(3)), two);
  EXPECT_EQ(&pool_.get(of_rows(2)), two);
  EXPECT_EQ(two->compiled().applied, std::vector<std::string>{"arena"});
}

TEST_F(GeneratorPoolTest, OnlyTheFirstMeasuresWhatIsNewUnlessAllAreTo) {
  const auto planned_for = [&](GeneratorPool& pool, std::int64_t rows) {
    std::vector<NewWork> found;
    for (const DeviceStage* stage : pool.get(of_rows(rows)).device_stages())
      found.push_back(stage->compiled.program->target.new_work);
    return found;
  };
  using testing::Contains, testing::Each;
  EXPECT_THAT(planned_for(pool_, 2), Each(NewWork::kMeasure));
  EXPECT_THAT(planned_for(pool_, 3), Contains(NewWork::kTakeOver)) << "what reads prompts is shared";
  EXPECT_EQ(pool_.get(of_rows(3)).compiled().program->target.new_work, NewWork::kTakeOver);
  EXPECT_EQ(pool_.get(of_rows(2)).compiled().program->target.new_work, NewWork::kMeasure) << "it is kept";
  GeneratorPool thorough(*pipeline_, *backend_, weights_, SwitchSet::parse("arena"), 0, NewWork::kMeasure);
  for (const std::int64_t rows : {2, 3}) EXPECT_THAT(planned_for(thorough, rows), Each(NewWork::kMeasure)) << rows;
}

TEST_F(GeneratorPoolTest, WhatReadsPromptsIsSharedByThoseOfOneLength) {
  const auto reader = [&](const RequestOptions& options) { return pool_.get(options).shared().reader; };
  const auto short_reader = reader(of_rows(2, 8));
  EXPECT_EQ(reader(of_rows(3, 8)), short_reader);
  EXPECT_NE(reader(of_rows(2, 9)), short_reader);
  static_cast<void>(draw(pool_.get(of_rows(2))));
  Generator& other = pool_.get(of_rows(4));
  static_cast<void>(draw(other));
  EXPECT_EQ(other.stages().front().name, "inputs") << "the prompt was read for another size";
}

TEST_F(GeneratorPoolTest, TheDecoderIsSharedByThoseOfOneSize) {
  const auto decoder = [&](const RequestOptions& options) { return pool_.get(options).shared().decoder; };
  const auto of_two = decoder(of_rows(2, 8));
  ASSERT_NE(of_two, nullptr);
  EXPECT_EQ(decoder(of_rows(2, 9)), of_two);
  EXPECT_NE(decoder(of_rows(3, 8)), of_two);
}

/// Texts of another length take another encoder, for which a caller waits too.
TEST(GeneratorPoolOfLengths, AnEncoderOfALaterTextMeasuresNothing) {
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto pipeline = open_pipeline((source_dir(kSourceDir) / "tests/goldens/pipelines/qwen-image").string());
  WeightStore weights{*backend, pipeline->components()};
  const auto encoders_after = [&](GeneratorPool& pool, const std::string& prompt) {
    const std::vector<ImageRequest> images = {{.prompt = prompt}};
    RequestOptions options{.token_rows = 2, .token_columns = 2, .steps = 1, .switches = {}};
    options.text_lengths = pipeline->text_lengths(pipeline->resolve(options), images);
    Generator& generator = pool.get(options);
    static_cast<void>(generator.generate(images));
    std::vector<NewWork> found;
    for (const DeviceStage* stage : generator.device_stages())
      if (stage->name == "text_encoder") found.push_back(stage->compiled.program->target.new_work);
    return found;
  };
  const std::string longer(100, 'x');
  for (const NewWork after : {NewWork::kTakeOver, NewWork::kMeasure}) {
    GeneratorPool pool{*pipeline, *backend, weights, SwitchSet::parse("arena"), 0, after};
    EXPECT_THAT(encoders_after(pool, "fox"), testing::ElementsAre(NewWork::kMeasure));
    EXPECT_THAT(encoders_after(pool, longer), testing::ElementsAre(after, NewWork::kMeasure));
  }
}

/// Sizes alternate, equal requests give equal images, and memory does not grow.
TEST_F(GeneratorPoolTest, ManyRequestsOfMixedSizesHoldNoMore) {
  constexpr std::int64_t kSizes = 6;  // more than the pool keeps
  std::vector<HostTensor> first;
  for (std::int64_t rows = 1; rows <= kSizes; ++rows) first.push_back(draw(pool_.get(of_rows(rows))));
  std::size_t most = 0;
  for (int round = 0; round < 4; ++round)
    for (std::int64_t rows = kSizes; rows >= 1; --rows) {
      const HostTensor again = draw(pool_.get(of_rows(rows)));
      EXPECT_TRUE(std::ranges::equal(again.bytes(), first[static_cast<std::size_t>(rows - 1)].bytes())) << rows;
      if (round == 0) most = std::max(most, held());
      EXPECT_LE(held(), most) << "round " << round;
    }
}

}  // namespace
}  // namespace headroom
