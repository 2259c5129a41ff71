#include "pipelines/generator.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

class GeneratorTest : public testing::Test {
 protected:
  HostTensor make(RequestOptions options, const std::vector<ImageRequest>& requests) {
    options.images = static_cast<std::int64_t>(requests.size());
    Generator generator(*pipeline_, *backend_, weights_, options);
    return generator.generate(requests);
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  std::unique_ptr<Pipeline> pipeline_ = open_pipeline((source_dir(kSourceDir) / "models/fashion-flux").string());
  WeightStore weights_{*backend_, pipeline_->components()};
};

TEST_F(GeneratorTest, TheModelGivesSizesAndTheSwitchGivesSteps) {
  const Request own = pipeline_->resolve({.images = 3, .switches = {}});
  EXPECT_EQ(own.image_tokens(), 256);
  EXPECT_EQ(own.text_tokens, 16);
  EXPECT_EQ(own.steps, 28);
  EXPECT_EQ(own.batch(), 6);  // guided and unguided
  EXPECT_EQ(pipeline_->resolve({.steps = 10, .switches = {}}).steps, 10);
  EXPECT_EQ(pipeline_->resolve({.steps = 10, .switches = SwitchSet::parse("steps=4")}).steps, 4);
}

TEST_F(GeneratorTest, SizesThatMakeNoSenseAreRefused) {
  EXPECT_THROW(static_cast<void>(pipeline_->resolve({.images = 0, .switches = {}})), Error);
  EXPECT_THROW(static_cast<void>(pipeline_->resolve({.images = 1, .steps = 1'000'000, .switches = {}})), Error);
  EXPECT_THROW(static_cast<void>(pipeline_->resolve({.images = 1, .text_tokens = 513, .switches = {}})), Error);
  EXPECT_THROW(static_cast<void>(make({.steps = 1, .switches = {}}, {{.label = 99, .seed = 0}})), Error);
}

TEST_F(GeneratorTest, AnImageDoesNotDependOnTheOthersOfItsBatch) {
  const RequestOptions two_steps{.steps = 2, .switches = SwitchSet::parse("lossless")};
  const HostTensor alone = make(two_steps, {{.label = 7, .seed = 5}});
  const HostTensor together = make(two_steps, {{.label = 1, .seed = 4}, {.label = 7, .seed = 5}});
  for (std::int64_t i = 0; i < alone.numel(); ++i) ASSERT_NEAR(alone.at(i), together.at(alone.numel() + i), 1e-4);
}

TEST_F(GeneratorTest, TheModelGivesASamplerAndTheSwitchAnother) {
  EXPECT_EQ(pipeline_->resolve({.switches = {}}).sampler, Sampler::kEuler);
  const Request heun = pipeline_->resolve({.steps = 8, .switches = SwitchSet::parse("sampler=heun")});
  EXPECT_EQ(heun.sampler, Sampler::kHeun);
  EXPECT_EQ(heun.steps, 8);
  EXPECT_EQ(heun.calls(), 15);
  EXPECT_THROW(static_cast<void>(pipeline_->resolve({.switches = SwitchSet::parse("sampler=ipndm")})), Error);
}

// With history, and with fresh noise in each step; the previous request has no effect.
TEST_F(GeneratorTest, AnImageOfAnySamplerDependsOnItselfAlone) {
  for (const char* sampler : {"heun", "unipc", "dpm++2m-sde"}) {
    const RequestOptions options{.steps = 3, .switches = SwitchSet::parse(fmt::format("lossless,sampler={}", sampler))};
    const std::vector<ImageRequest> requests = {{.label = 7, .seed = 5}};
    Generator generator(*pipeline_, *backend_, weights_, options);
    const HostTensor first = generator.generate(requests);
    EXPECT_TRUE(std::ranges::equal(generator.generate(requests).bytes(), first.bytes())) << sampler;
    const HostTensor together = make(options, {{.label = 1, .seed = 4}, {.label = 7, .seed = 5}});
    for (std::int64_t i = 0; i < first.numel(); ++i)
      ASSERT_NEAR(first.at(i), together.at(first.numel() + i), 2e-4) << sampler;
  }
}

TEST_F(GeneratorTest, LabelSeedAndGuidanceEachChangeTheImage) {
  const RequestOptions options{.steps = 2, .switches = SwitchSet::parse("lossless")};
  const HostTensor image = make(options, {{.label = 7, .seed = 5}});
  RequestOptions unguided = options;
  unguided.guidance_scale = 1.0;
  for (const HostTensor& other : {make(options, {{.label = 8, .seed = 5}}), make(options, {{.label = 7, .seed = 6}}),
                                  make(unguided, {{.label = 7, .seed = 5}})}) {
    double difference = 0;
    for (std::int64_t i = 0; i < image.numel(); ++i) difference += std::abs(image.at(i) - other.at(i));
    EXPECT_GT(difference / static_cast<double>(image.numel()), 1e-3);
  }
}

TEST_F(GeneratorTest, ShapesShareOneCopyOfTheWeights) {
  static_cast<void>(make({.steps = 1, .switches = SwitchSet::parse("lossless")}, {{.label = 0, .seed = 0}}));
  const std::size_t bytes = weights_.bytes();
  static_cast<void>(
      make({.steps = 2, .switches = SwitchSet::parse("lossless")}, {{.label = 0, .seed = 0}, {.label = 1, .seed = 1}}));
  EXPECT_LE(weights_.bytes(),
            bytes + bytes / 2);  // a kernel may read another packing of some weights at another size
  EXPECT_GE(bytes, static_cast<std::size_t>(4 * pipeline_->denoiser().checkpoint.parameter_count() * 9 / 10));
}

TEST_F(GeneratorTest, DropsTheWeightsOfOtherRequestsWhereAsked) {
  RequestOptions options{.images = 1, .steps = 1, .switches = {}};
  static_cast<void>(make(options, {{.label = 0, .seed = 0}}));
  const std::size_t baseline = weights_.bytes();
  options.switches = SwitchSet::parse("fuse");
  options.drops_other_weights = true;
  const HostTensor kept = make(options, {{.label = 0, .seed = 0}});
  EXPECT_LE(weights_.bytes(), baseline + baseline / 20) << "the weights of the baseline are still there";
  WeightStore fresh(*backend_, pipeline_->components());
  Generator generator(*pipeline_, *backend_, fresh, options);
  EXPECT_EQ(weights_.bytes(), fresh.bytes());
  EXPECT_EQ(weights_.size(), fresh.size());
  const HostTensor alone = generator.generate(std::vector<ImageRequest>{{.label = 0, .seed = 0}});
  EXPECT_TRUE(std::ranges::equal(kept.bytes(), alone.bytes())) << "a weight that both share was dropped or changed";
}

TEST_F(GeneratorTest, WeightsThatAnotherDropsStayWhileTheyAreUsed) {
  const auto weights_held = [&] {
    return backend_->memory_use().used[static_cast<std::size_t>(MemoryCategory::kWeights)];
  };
  const std::vector<ImageRequest> request = {{.label = 3, .seed = 1}};
  RequestOptions options{.images = 1, .steps = 1, .switches = {}};
  auto first = std::make_unique<Generator>(*pipeline_, *backend_, weights_, options);
  const HostTensor before = first->generate(request);
  options.switches = SwitchSet::parse("fuse");
  options.drops_other_weights = true;
  const Generator second(*pipeline_, *backend_, weights_, options);
  const std::size_t together = weights_held();
  EXPECT_GT(together, weights_.bytes()) << "the first generator holds weights that the store has dropped";
  EXPECT_TRUE(std::ranges::equal(first->generate(request).bytes(), before.bytes()));

  for (const DeviceStage* stage : first->device_stages()) weights_.load(*stage->compiled.program);
  EXPECT_EQ(weights_held(), together) << "they are taken up again, not folded again";
  EXPECT_EQ(weights_.bytes(), together);
  std::vector<const Program*> used;
  for (const DeviceStage* stage : second.device_stages()) used.push_back(stage->compiled.program.get());
  weights_.keep_only(used);
  first.reset();
  EXPECT_EQ(weights_held(), weights_.bytes()) << "what nobody uses is gone";
}

}  // namespace
}  // namespace headroom
