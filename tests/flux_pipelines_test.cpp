// Whole FLUX pipelines against diffusers in double precision (tests/goldens/make_flux_pipelines.py): small folders of dev,
// schnell and Kontext as it writes them, from prompts and noise to pixels.

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "pipeline_golden.hpp"
#include "pipelines/stages/kontext_sizes.hpp"

namespace headroom {
namespace {

constexpr const char* kFolders[] = {"flux-dev", "flux-schnell", "flux-kontext"};

/// Latents after the last step; the file has them after each.
HostTensor final_latents(const PipelineGolden& request) {
  return without_first_axis(unstack(request.expected("latents")).back());
}

void expect_whole_pipelines(DeviceKind device, const std::vector<std::string>& sets) {
  for (const std::string folder : kFolders) {
    const OpenedPipeline opened(golden_folder(folder), device);
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, *opened.pipeline);
      for (const std::string& switches : sets) {
        SCOPED_TRACE(fmt::format("{} {} {}", folder, name, switches));
        expect_golden(opened, request, switches, final_latents(request));
      }
    }
  }
}

TEST(FluxPipelines, AreDiffusersFromPromptsToPixels) {
  expect_whole_pipelines(DeviceKind::kCpu, {"baseline", "lossless"});
}

using GpuFluxPipelines = GpuTest;

TEST_F(GpuFluxPipelines, AreDiffusersFromPromptsToPixels) {
  expect_whole_pipelines(DeviceKind::kCuda, {"baseline", "lossless"});
}

/// Over all requests of a folder: roundings of a single one are luck.
TEST(FluxPipelines, InBf16AreNoFurtherFromItThanDiffusersIs) {
  for (const std::string folder : kFolders) {
    const OpenedPipeline opened(golden_folder(folder), DeviceKind::kCpu);
    double ours = 0, diffusers = 0;
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, *opened.pipeline);
      RequestOptions options = request.options();
      options.switches = SwitchSet::parse("lossless,bf16");
      Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
      ours += std::pow(relative_l2(generator.generate(request.images()), final_latents(request)), 2);
      diffusers += std::pow(request.expected("latents_bf16_error").at(0), 2);
    }
    EXPECT_LE(std::sqrt(ours), 1.1 * std::sqrt(diffusers)) << folder;
  }
}

TEST(FluxPipelines, PromptsBecomeTheIdsAndStatesOfTransformers) {
  for (const std::string folder : kFolders) {
    const OpenedPipeline opened(golden_folder(folder), DeviceKind::kCpu);
    const Pipeline& pipeline = *opened.pipeline;
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, pipeline);
      PromptReader reader(pipeline, request.options().text_tokens, {}, opened.backend->properties().target);
      reader.load(std::make_shared<Offloader>(*opened.backend, *opened.weights, 0));
      const char* const ids[] = {"clip_ids", "t5_ids"};
      const char* const states[] = {"pooled_prompt_embeds", "prompt_embeds"};
      for (std::size_t r = 0; r < 2; ++r)
        for (std::size_t i = 0; i < request.images().size(); ++i) {
          SCOPED_TRACE(fmt::format("{} {} reader {} image {}", folder, name, r, i));
          const std::string text = prompt_of(pipeline, request.images()[i], r);
          const HostTensor expected = sample(request.expected(ids[r]), i);
          const HostTensor given = pipeline.text_readers()[r].tokenize(text, expected.shape()[1]);
          for (std::int64_t token = 0; token < expected.numel(); ++token)
            ASSERT_EQ(given.at(token), expected.at(token)) << "token " << token;
          std::vector<StageRun> took;
          const std::optional<std::string> texts[] = {text};
          const HostTensor made = to_host(*reader.read(r, texts, took).front().front(), *opened.backend);
          EXPECT_LE(relative_l2(made, sample(request.expected(states[r]), i)), kTextError);
        }
    }
  }
}

TEST(FluxPipelines, KontextChoosesTheSizesOfDiffusers) {
  const nlohmann::json sizes = read_json(golden_folder("flux-kontext") / "sizes.json");
  const auto size_of = [](const nlohmann::json& pair) { return ImageSize{.height = pair.at(0), .width = pair.at(1)}; };
  for (const nlohmann::json& row : sizes.at("references"))
    EXPECT_EQ(kontext_reference_size(size_of(row.at("reference"))), size_of(row.at("resized"))) << row;
  for (const nlohmann::json& row : sizes.at("outputs")) {
    if (row.at("asked").at(0).is_null()) continue;  // the pipeline's own
    EXPECT_EQ(kontext_output_size(size_of(row.at("asked")), 16), size_of(row.at("output"))) << row;
  }
}

/// A reading is kept, and dropped when that is asked for.
TEST(FluxPipelines, AnEqualPromptIsReadOnce) {
  const OpenedPipeline opened(golden_folder("flux-schnell"), DeviceKind::kCpu);
  Generator generator(*opened.pipeline, *opened.backend, *opened.weights,
                      {.images = 2, .token_rows = 2, .token_columns = 2, .text_tokens = 8, .steps = 1, .switches = {}});
  const std::vector<ImageRequest> images = {{.seed = 1, .prompt = "a fox"}, {.seed = 2, .prompt = "a fox"}};
  const auto stages = [&] {
    std::vector<std::string> names;
    static_cast<void>(generator.generate(images));
    for (const StageRun& stage : generator.stages()) names.push_back(stage.name);
    return names;
  };
  const std::vector<std::string> all = {"tokenize", "text_encoder", "text_encoder_2", "inputs", "denoise"};
  const std::vector<std::string> kept = {"inputs", "denoise"};
  EXPECT_EQ(stages(), all);
  EXPECT_EQ(stages(), kept);
  generator.prompt_reader().forget();
  EXPECT_EQ(stages(), all);
}

}  // namespace
}  // namespace headroom
