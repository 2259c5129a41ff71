// The setup of a denoise loop under `hoist`: a stage of its own, which computes what a request's steps read in common.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "pipelines/generator.hpp"
#include "run/memory_need.hpp"
#include "run/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

std::filesystem::path golden(const std::string& name) {
  return source_dir(kSourceDir) / "tests/goldens/pipelines" / name;
}

/// Whether the program reads weights of such a module: kernels may compute several modules in one step.
bool reads_weights_of(const Program& program, const std::string& part_of_path) {
  return std::ranges::any_of(program.weights,
                             [&](const WeightUse& use) { return use.key.find(part_of_path) != std::string::npos; });
}

/// Latents of a loop compiled as one program, whose setup has not been split off.
HostTensor denoise_in_one_program(const Pipeline& pipeline, Backend& backend, WeightStore& weights,
                                  const RequestOptions& options, std::span<const ImageRequest> images) {
  const Request request = pipeline.resolve(options);
  const DeviceTarget target = backend.properties().target;
  const Compiled compiled = compile(pipeline.build_denoise(request), options.switches, target,
                                    {.steps_applied = true, .baseline = pipeline.denoiser().baseline});
  EXPECT_EQ(compiled.program->setup, nullptr);
  PromptReader reader(pipeline, request.text_tokens, options.switches, target, request.text_lengths);
  reader.load(std::make_shared<Offloader>(backend, weights, 0));
  std::vector<StageRun> took;
  Conditioning conditioning;
  for (std::size_t i = 0; i < pipeline.text_readers().size(); ++i)
    conditioning.texts.push_back(reader.read(i, texts_of(pipeline, request, images, i), took));
  Session session(compiled.program, weights, backend);
  pipeline.set_request_inputs(session, request);
  pipeline.set_image_inputs(session, request, images, conditioning);
  session.run();
  return session.output("latents");
}

/// `modulation` is part of the path of every module that makes modulations.
void expect_equal_bits(DeviceKind device, const std::string& folder, const std::string& modulation,
                       const std::vector<std::string>& sets) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(golden(folder).string());
  const std::unique_ptr<Backend> backend = make_backend(device);
  WeightStore weights(*backend, pipeline->components());
  const ImageRequest image{.seed = 3, .prompt = "a red fox", .negative_prompt = "fog, and much of it"};
  for (const std::string& set : sets)
    for (const std::int64_t steps : {3, 1}) {
      SCOPED_TRACE(fmt::format("{} {} {}", folder, set, steps));
      const RequestOptions options{.token_rows = 2,
                                   .token_columns = 3,
                                   .text_tokens = 32,
                                   .steps = steps,
                                   .true_cfg_scale = 2.0,
                                   .has_negative_prompt = true,
                                   .switches = SwitchSet::parse(set)};
      RequestOptions of_texts = options;
      const Request request = pipeline->resolve(options);
      of_texts.text_lengths = pipeline->text_lengths(request, {&image, 1});
      if (of_texts.text_lengths.size() > 1) {
        ASSERT_NE(of_texts.text_lengths[0], of_texts.text_lengths[1]) << "cut to one length";
      }
      Generator generator(*pipeline, *backend, weights, of_texts);
      ASSERT_NE(generator.setup(), nullptr);
      EXPECT_TRUE(reads_weights_of(generator.setup()->program(), modulation));
      EXPECT_FALSE(reads_weights_of(generator.session().program(), modulation));
      expect_same(generator.generate({&image, 1}),
                  denoise_in_one_program(*pipeline, *backend, weights, of_texts, {&image, 1}));
    }
}

TEST(LoopSetup, ChangesNoBitOfTheLatents) {
  const std::vector<std::string> sets = {"arena,hoist", "lossless", "lossless,bf16"};
  expect_equal_bits(DeviceKind::kCpu, "flux-dev", "norm1.linear", sets);
  expect_equal_bits(DeviceKind::kCpu, "qwen-image", "img_mod", sets);
}

using GpuLoopSetup = GpuTest;
TEST_F(GpuLoopSetup, ChangesNoBitOfTheLatents) {
  for (const auto& [folder, modulation] : {std::pair("flux-dev", "norm1.linear"), std::pair("qwen-image", "img_mod")})
    expect_equal_bits(DeviceKind::kCuda, folder, modulation, {"arena,hoist", "lossless", "lossless,bf16"});
}

TEST(LoopSetup, IsOfHoistAlone) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(golden("qwen-image").string());
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  const RequestOptions options{.token_rows = 2, .token_columns = 3, .steps = 3, .switches = SwitchSet::parse("arena")};
  EXPECT_EQ(compile_denoise(*pipeline, pipeline->resolve(options), options.switches, backend->properties().target)
                .program->setup,
            nullptr);
}

/// A transformer with modulations larger than the granularity of reservations.
std::unique_ptr<Pipeline> open_wide_transformer(const TempFolder& folder) {
  std::filesystem::copy(golden("flux-schnell") / "transformer", folder / "transformer");
  nlohmann::json config = read_json(folder / "transformer/config.json");
  config.update({{"num_layers", 1}, {"num_single_layers", 1}, {"num_attention_heads", 64}});
  write_json(folder / "transformer/config.json", config);
  return open_pipeline((folder / "transformer").string(), {.random_seed = 1});
}

/// Under a limit that the loop fills, the setup's weights are not there while it runs.
void expect_unloaded_setup(DeviceKind device) {
  const TempFolder folder;
  const std::unique_ptr<Pipeline> pipeline = open_wide_transformer(folder);
  const std::unique_ptr<Backend> backend = make_backend(device);
  RequestOptions options{
      .token_rows = 2, .token_columns = 3, .text_tokens = 8, .steps = 3, .switches = SwitchSet::parse("lossless")};
  const std::vector<ImageRequest> images = make_image_requests(*pipeline, 0, 1, 5);
  std::size_t limit = 0, all = 0;
  HostTensor expected;
  {
    WeightStore weights(*backend, pipeline->components());
    Generator generator(*pipeline, *backend, weights, options);
    expected = generator.generate(images);
    EXPECT_TRUE(generator.setup()->is_loaded()) << "there is room for all";
    all = backend->memory_use().total;
  }
  {
    const WeightStore empty(*backend, pipeline->components());
    const Compiled compiled =
        compile_denoise(*pipeline, pipeline->resolve(options), options.switches, backend->properties().target);
    const Program &loop = *compiled.program, &setup = *loop.setup;
    const std::size_t loop_bytes = memory_need_alone(loop, empty).total() + lasting_bytes(setup, empty),
                      setup_bytes = memory_need_alone(setup, empty).total() + lasting_bytes(loop, empty);
    limit = std::max(loop_bytes, setup_bytes);
  }
  EXPECT_LT(limit, all - all / 5);
  options.memory_limit = limit;
  WeightStore weights(*backend, pipeline->components());
  backend->reset_peak();
  Generator generator(*pipeline, *backend, weights, options);
  EXPECT_LE(backend->memory_use().peak, limit);
  for (int request = 0; request < 3; ++request) {
    int steps = 0;
    const HostTensor latents = generator.generate(images, [&](std::int64_t, double) {
      ++steps;
      EXPECT_FALSE(generator.setup()->is_loaded());
    });
    EXPECT_EQ(steps, 3);
    expect_same(latents, expected);
  }
  EXPECT_LE(backend->memory_use().peak, limit);
  std::vector<std::string> stages;
  for (const StageRun& stage : generator.stages()) stages.push_back(stage.name);
  EXPECT_THAT(stages, testing::ElementsAre("inputs", "setup", "denoise"));
}

TEST(LoopSetup, IsUnloadedWhileTheLoopRuns) { expect_unloaded_setup(DeviceKind::kCpu); }
TEST_F(GpuLoopSetup, IsUnloadedWhileTheLoopRuns) { expect_unloaded_setup(DeviceKind::kCuda); }

TEST(LoopSetup, IsNamedWhereItAloneDoesNotFit) {
  const TempFolder folder;
  const std::unique_ptr<Pipeline> pipeline = open_wide_transformer(folder);
  const std::unique_ptr<Backend> backend = make_backend(DeviceKind::kCpu);
  WeightStore weights(*backend, pipeline->components());
  const RequestOptions options{.token_rows = 2,
                               .token_columns = 3,
                               .text_tokens = 8,
                               .steps = 3,
                               .switches = SwitchSet::parse("lossless"),
                               .memory_limit = 1 << 20};
  const std::string message = message_of([&] { const Generator generator(*pipeline, *backend, weights, options); });
  EXPECT_THAT(message, testing::AnyOf(HasSubstr("its stage denoise needs"), HasSubstr("its stage setup needs")));
}

}  // namespace
}  // namespace headroom
