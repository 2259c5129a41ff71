// Whole pipelines of Qwen-Image and Z-Image, which read texts of any length, against diffusers in double precision
// (tests/goldens/make_qwen_image_pipelines.py, make_z_image_pipelines.py): small folders as it writes them, from prompts
// and noise to pixels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "pipeline_golden.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;

constexpr const char* kQwenFolder = "qwen-image";
constexpr const char* kZImageFolder = "z-image";
constexpr const char* kFolders[] = {kQwenFolder, kZImageFolder};

/// The first element of `of_rows` [rows, width] at that row, and as many rows as `count`.
double row_error(const HostTensor& made, const HostTensor& of_all, std::size_t index, std::int64_t count) {
  const HostTensor of_one = sample(of_all, index);  // [1, rows, width], zeros behind the text
  HostTensor expected(DType::kF32, {count, of_one.shape()[2]});
  for (std::int64_t i = 0; i < expected.numel(); ++i) expected.set(i, of_one.at(i));
  return relative_l2(made, expected);
}

class UnpaddedPipelines : public testing::TestWithParam<const char*> {};
class GpuUnpaddedPipelines : public GpuTest, public testing::WithParamInterface<const char*> {};

void expect_pipelines(const char* folder, DeviceKind device, const std::vector<std::string>& sets) {
  const OpenedPipeline opened(golden_folder(folder), device);
  for (const std::string& name : golden_requests(folder)) {
    const PipelineGolden request(folder, name, *opened.pipeline);
    for (const std::string& switches : sets) {
      SCOPED_TRACE(fmt::format("{} {}", name, switches));
      expect_golden(opened, request, switches, request.expected("latents"));
    }
  }
}

TEST_P(UnpaddedPipelines, AreDiffusersFromPromptsToPixels) {
  expect_pipelines(GetParam(), DeviceKind::kCpu, {"baseline", "lossless", "hoist"});
}

TEST_P(GpuUnpaddedPipelines, AreDiffusersFromPromptsToPixels) {
  expect_pipelines(GetParam(), DeviceKind::kCuda, {"baseline", "lossless"});
}

/// Over all requests: roundings of a single one are luck.
TEST_P(UnpaddedPipelines, InBf16AreNoFurtherFromItThanDiffusersIs) {
  const OpenedPipeline opened(golden_folder(GetParam()), DeviceKind::kCpu);
  double ours = 0, diffusers = 0;
  for (const std::string& name : golden_requests(GetParam())) {
    const PipelineGolden request(GetParam(), name, *opened.pipeline);
    RequestOptions options = request.options();
    options.switches = SwitchSet::parse("lossless,bf16");
    Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
    ours += std::pow(relative_l2(generator.generate(request.images()), request.expected("latents")), 2);
    diffusers += std::pow(request.expected("latents_bf16_error").at(0), 2);
  }
  EXPECT_LE(std::sqrt(ours), 1.1 * std::sqrt(diffusers));
}

TEST_P(UnpaddedPipelines, PromptsBecomeTheIdsAndStatesOfTransformers) {
  const OpenedPipeline opened(golden_folder(GetParam()), DeviceKind::kCpu);
  const Pipeline& pipeline = *opened.pipeline;
  const TextReader& reader = pipeline.text_readers().front();
  for (const std::string& name : golden_requests(GetParam())) {
    const PipelineGolden golden(GetParam(), name, pipeline);
    const Request request = pipeline.resolve(golden.options());
    PromptReader prompts(pipeline, request.text_tokens, {}, opened.backend->properties().target);
    prompts.load(std::make_shared<Offloader>(*opened.backend, *opened.weights, 0));
    for (const std::string sign : {"", "negative_"}) {
      if (!golden.has(sign + "ids")) continue;
      for (std::size_t i = 0; i < golden.images().size(); ++i) {
        SCOPED_TRACE(fmt::format("{} {}image {}", name, sign, i));
        const ImageRequest& image = golden.images()[i];
        const std::string text =
            sign.empty() ? prompt_of(pipeline, image, 0) : negative_prompt_of(image, 0).value_or("");
        const auto count = static_cast<std::int64_t>(golden.expected(sign + "text_lengths").at(static_cast<int>(i)));
        const HostTensor ids = reader.tokenize(text, request.text_tokens);
        ASSERT_EQ(ids.numel(), reader.dropped_tokens + count);
        const HostTensor expected = sample(golden.expected(sign + "ids"), i);
        for (std::int64_t token = 0; token < ids.numel(); ++token)
          ASSERT_EQ(ids.at(token), expected.at(token)) << "token " << token;
        std::vector<StageRun> took;
        const std::optional<std::string> texts[] = {text};
        const HostTensor made = to_host(*prompts.read(0, texts, took).front().front(), *opened.backend);
        EXPECT_EQ(made.shape()[0], count);
        EXPECT_LE(row_error(made, golden.expected(sign + "prompt_embeds"), i, count), kTextError);
      }
    }
  }
}

/// A generator made for prompts of other lengths compiles its loop again, and its encoder for lengths of other steps.
TEST(QwenImagePipelines, AGeneratorTakesPromptsOfAnyLength) {
  const OpenedPipeline opened(golden_folder(kQwenFolder), DeviceKind::kCpu);
  const PipelineGolden golden(kQwenFolder, "guided_by_a_long_text", *opened.pipeline);
  RequestOptions options = golden.options();
  options.switches = SwitchSet::parse("arena");
  Generator other(*opened.pipeline, *opened.backend, *opened.weights, options);
  const std::vector<std::int64_t> of_default = other.request().text_lengths;
  EXPECT_EQ(of_default.size(), 2U);
  const HostTensor first = other.generate(golden.images());
  EXPECT_THAT(other.request().text_lengths, ElementsAre(121, 8));
  EXPECT_LE(relative_l2(first, golden.expected("latents")), kLatentsError);
  std::vector<ImageRequest> images = golden.images();
  std::swap(images[0].prompt, images[0].negative_prompt);
  EXPECT_GT(relative_l2(other.generate(images), first), 0.1);
  EXPECT_THAT(other.request().text_lengths, ElementsAre(8, 121));
  EXPECT_LE(relative_l2(other.generate(golden.images()), first), 1e-6);
  std::vector<std::string> stages;
  for (const StageRun& stage : other.stages()) stages.push_back(stage.name);
  EXPECT_THAT(stages, ElementsAre("inputs", "denoise")) << "both texts are kept";
}

TEST(QwenImagePipelines, GuidesOnlyByANegativePromptUnlessAsked) {
  const OpenedPipeline opened(golden_folder(kQwenFolder), DeviceKind::kCpu);
  const Pipeline& pipeline = *opened.pipeline;
  const Request plain = pipeline.resolve({.switches = {}});
  EXPECT_FALSE(plain.classifier_free_guidance);
  EXPECT_EQ(plain.steps, 50);
  EXPECT_EQ(plain.text_tokens, 512);
  EXPECT_EQ(plain.image_tokens(), 64 * 64);
  const Request negative = pipeline.resolve({.has_negative_prompt = true, .switches = {}});
  EXPECT_TRUE(negative.classifier_free_guidance);
  EXPECT_EQ(negative.true_cfg_scale, 4);
  EXPECT_EQ(negative.text_lengths.size(), 2U);
  EXPECT_FALSE(
      pipeline.resolve({.true_cfg_scale = 1, .has_negative_prompt = true, .switches = {}}).classifier_free_guidance);
  EXPECT_TRUE(pipeline.resolve({.true_cfg_scale = 2, .switches = {}}).classifier_free_guidance);
  EXPECT_THAT(error_of([&] { static_cast<void>(pipeline.resolve({.text_tokens = 1025, .switches = {}})); }),
              testing::HasSubstr("text tokens is 1025, expected 1 to 1024"));
  EXPECT_THAT(error_of([&] {
                static_cast<void>(pipeline.resolve({.references = {{2, 2}}, .switches = {}}));
              }),
              testing::HasSubstr("edits no images"));
}

/// Prompts of two lengths are one row of blocks, with one residual stream of the image.
TEST_P(UnpaddedPipelines, StepCachesTakeGuidanceByTextsOfAnyLength) {
  const OpenedPipeline opened(golden_folder(GetParam()), DeviceKind::kCpu);
  const PipelineGolden golden(GetParam(), "guided", *opened.pipeline);
  std::vector<std::string> sets = {"fbcache=1e-9", "teacache=1e-9"};
  if (GetParam() == std::string(kQwenFolder)) sets.push_back("meancache=2");  // Z-Image takes 1 - the noise level
  for (const std::string& switches : sets) {
    RequestOptions options = golden.options();
    options.switches = SwitchSet::parse(switches);
    Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
    const HostTensor made = generator.generate(golden.images());
    EXPECT_TRUE(generator.has_step_cache()) << switches;
    EXPECT_EQ(generator.compiled().applied, options.switches.names());
    const std::vector<bool> computed = generator.computed_steps();
    EXPECT_EQ(std::ranges::count(computed, true), switches == "meancache=2" ? 2 : options.steps) << switches;
    EXPECT_LE(relative_l2(made, golden.expected("latents")), switches == "meancache=2" ? 0.5 : kLatentsError)
        << switches;
  }
}

TEST(QwenImagePipelines, OfATransformerAloneReadRandomTexts) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline((golden_folder(kQwenFolder) / "transformer").string());
  const Request request = pipeline->resolve({.images = 2, .text_tokens = 9, .switches = {}});
  EXPECT_THAT(request.text_lengths, ElementsAre(9, 9));
  Request more = request;
  more.set_images(3);
  EXPECT_THAT(more.text_lengths, ElementsAre(9, 9, 9));
  const Graph graph = pipeline->build_denoise(request);
  EXPECT_EQ(graph.type(graph.find(ValueKind::kInput, "encoder_hidden_states")).shape, (Shape{18, 16}));
  EXPECT_EQ(graph.blocks().size(), 2U);
}

/// Guidance is off at 0, and a scale of 1 runs both passes: it is what is added to the guided prediction.
TEST(ZImagePipelines, CountGuidanceFromTheGuidedPrediction) {
  const OpenedPipeline opened(golden_folder(kZImageFolder), DeviceKind::kCpu);
  const Pipeline& pipeline = *opened.pipeline;
  const Request turbo = pipeline.resolve({.switches = {}});
  EXPECT_EQ(turbo.steps, 8);
  EXPECT_EQ(turbo.guidance_scale, 0);
  EXPECT_FALSE(turbo.classifier_free_guidance);
  const Request guided = pipeline.resolve({.guidance_scale = 1, .switches = {}});
  EXPECT_TRUE(guided.classifier_free_guidance);
  EXPECT_EQ(guided.true_cfg_scale, 2);
  EXPECT_EQ(guided.text_lengths.size(), 2U);
  const std::vector<IdleOption> idle = pipeline.idle_options({.switches = {}}, {.negative_prompt = "red"});
  ASSERT_EQ(idle.size(), 1U);
  EXPECT_THAT(idle[0].reason, testing::HasSubstr("takes more than 0"));
  EXPECT_THAT(error_of([&] {
                static_cast<void>(pipeline.resolve({.references = {{2, 2}}, .switches = {}}));
              }),
              testing::HasSubstr("edits no images"));
}

/// Nothing but the scheduler tells Z-Image from Z-Image-Turbo.
TEST(ZImagePipelines, WithAnotherShiftAreNotTurbo) {
  const TempFolder temporary;
  const std::filesystem::path folder = temporary / "z-image";
  std::filesystem::copy(golden_folder(kZImageFolder), folder, std::filesystem::copy_options::recursive);
  nlohmann::json scheduler = read_json(folder / "scheduler/scheduler_config.json");
  scheduler["shift"] = 6.0;
  write_json(folder / "scheduler/scheduler_config.json", scheduler);
  const Request request = open_pipeline(folder.string())->resolve({.switches = {}});
  EXPECT_EQ(request.steps, 50);
  EXPECT_EQ(request.guidance_scale, 5);
  EXPECT_EQ(request.true_cfg_scale, 6);
}

TEST_P(UnpaddedPipelines, ApplyTheirSwitches) {
  const OpenedPipeline opened(golden_folder(GetParam()), DeviceKind::kCpu);
  const PipelineGolden golden(GetParam(), "of_several_lengths", *opened.pipeline);
  const HostTensor expected = golden.expected("latents");
  for (const auto& [switches, error] :
       {std::pair("arena,flash,fuse,hoist", kLatentsError), std::pair("arena,flash,fuse,hoist,bf16", 0.05)}) {
    RequestOptions options = golden.options();
    options.switches = SwitchSet::parse(switches);
    Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
    EXPECT_LE(relative_l2(generator.generate(golden.images()), expected), error) << switches;
    EXPECT_EQ(generator.compiled().applied, options.switches.names()) << switches;
  }
}

INSTANTIATE_TEST_SUITE_P(All, UnpaddedPipelines, testing::ValuesIn(kFolders));
INSTANTIATE_TEST_SUITE_P(All, GpuUnpaddedPipelines, testing::ValuesIn(kFolders));

}  // namespace
}  // namespace headroom
