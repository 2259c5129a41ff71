// Whole pipelines of FLUX.3 and FLUX.2 [klein] against diffusers in double precision
// (tests/goldens/make_flux3_pipelines.py): small folders as it writes them, from prompts and references to pixels.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "pipeline_golden.hpp"
#include "run/weights/lora.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFlux3Folders[] = {"flux3-base", "flux3-distilled", "flux2-klein"};

/// The parts that flux3-distilled has of another repository.
std::map<std::string, std::string, std::less<>> flux3_parts(const std::string& folder) {
  std::map<std::string, std::string, std::less<>> parts;
  if (folder == "flux3-distilled")
    for (const char* const role : {"text_encoder", "tokenizer", "vae"})
      parts.emplace(role, (golden_folder("flux3-base") / role).string());
  return parts;
}

OpenedPipeline open_flux3(const std::string& folder, DeviceKind device) {
  return {golden_folder(folder), device, std::nullopt, flux3_parts(folder)};
}

void expect_flux3_pipelines(DeviceKind device, const std::vector<std::string>& sets) {
  for (const std::string folder : kFlux3Folders) {
    const OpenedPipeline opened = open_flux3(folder, device);
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, *opened.pipeline);
      for (const std::string& switches : sets) {
        SCOPED_TRACE(fmt::format("{} {} {}", folder, name, switches));
        expect_golden(opened, request, switches, request.expected("latents"));
      }
    }
  }
}

TEST(Flux3Pipelines, AreDiffusersFromPromptsToPixels) {
  expect_flux3_pipelines(DeviceKind::kCpu, {"baseline", "lossless", "hoist"});
}

using GpuFlux3Pipelines = GpuTest;

TEST_F(GpuFlux3Pipelines, AreDiffusersFromPromptsToPixels) {
  expect_flux3_pipelines(DeviceKind::kCuda, {"baseline", "lossless"});
}

/// Over all requests: roundings of a single one are luck.
TEST(Flux3Pipelines, InBf16AreNoFurtherFromItThanDiffusersIs) {
  for (const std::string folder : kFlux3Folders) {
    const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
    double ours = 0, diffusers = 0;
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, *opened.pipeline);
      RequestOptions options = request.options();
      options.switches = SwitchSet::parse("lossless,bf16");
      Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
      ours += std::pow(relative_l2(generator.generate(request.images()), request.expected("latents")), 2);
      diffusers += std::pow(request.expected("latents_bf16_error").at(0), 2);
    }
    EXPECT_LE(std::sqrt(ours), 1.3 * std::sqrt(diffusers)) << folder;
  }
}

TEST(Flux3Pipelines, PromptsBecomeTheIdsAndStatesOfTransformers) {
  for (const std::string folder : kFlux3Folders) {
    const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
    const Pipeline& pipeline = *opened.pipeline;
    const TextReader& reader = pipeline.text_readers().front();
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden golden(folder, name, pipeline);
      const Request request = pipeline.resolve(golden.options());
      SCOPED_TRACE(fmt::format("{} {}", folder, name));
      const std::string text = prompt_of(pipeline, golden.images().front(), 0);
      const HostTensor ids = reader.tokenize(text, request.text_tokens), expected = golden.expected("ids");
      ASSERT_EQ(ids.numel(), expected.numel());
      for (std::int64_t i = 0; i < ids.numel(); ++i) ASSERT_EQ(ids.at(i), expected.at(i)) << i;
      if (!golden.has("prompt_embeds")) continue;
      PromptReader prompts(pipeline, request.text_tokens, {}, opened.backend->properties().target);
      prompts.load(std::make_shared<Offloader>(*opened.backend, *opened.weights, 0));
      std::vector<StageRun> took;
      const std::optional<std::string> texts[] = {text};
      const HostTensor made = to_host(*prompts.read(0, texts, took).front().front(), *opened.backend);
      const HostTensor states = golden.expected("prompt_embeds");  // [1, tokens, width]
      ASSERT_EQ(made.numel(), states.numel());
      HostTensor flat(DType::kF32, made.shape());
      for (std::int64_t i = 0; i < flat.numel(); ++i) flat.set(i, states.at(i));
      EXPECT_LE(relative_l2(made, flat), kTextError);
    }
  }
}

TEST(Flux3Pipelines, ReferencesAreThoseOfDiffusers) {
  for (const std::string folder : {"flux3-base", "flux2-klein"}) {
    const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden golden(folder, name, *opened.pipeline);
      SCOPED_TRACE(fmt::format("{} {}", folder, name));
      std::vector<Image> pictures;
      while (golden.has("reference_" + std::to_string(pictures.size())))
        pictures.push_back(golden.picture("reference_" + std::to_string(pictures.size())));
      if (pictures.empty()) continue;
      const PreparedReferences prepared = opened.pipeline->prepare_references(pictures);
      ASSERT_EQ(prepared.images.size(), pictures.size());
      for (std::size_t i = 0; i < pictures.size(); ++i)
        EXPECT_EQ(prepared.images[i], golden.picture("prepared_" + std::to_string(i))) << i;
      if (!golden.has("crop")) continue;
      const HostTensor box = golden.expected("crop");
      EXPECT_EQ(prepared.crop.left, box.at(0));
      EXPECT_EQ(prepared.crop.top, box.at(1));
      EXPECT_EQ(prepared.crop.left + prepared.crop.width, box.at(2));
      EXPECT_EQ(prepared.crop.top + prepared.crop.height, box.at(3));
      EXPECT_EQ(prepared.output.height, golden.expected("image").shape()[2]);
    }
  }
}

ImageSize size_in(const nlohmann::json& row) { return {.height = row.at(0), .width = row.at(1)}; }

TEST(Flux3Pipelines, CanvasesAndCutsAreThoseOfDiffusers) {
  const nlohmann::json rows = read_json(golden_folder("flux3-base") / "sizes.json");
  ASSERT_EQ(rows.size(), 200U);
  for (const nlohmann::json& row : rows) {
    SCOPED_TRACE(row.dump());
    const ImageSize picture = size_in(row.at("picture"));
    const ReferenceCanvas canvas = flux3_canvas(picture);
    EXPECT_EQ(canvas.resized, size_in(row.at("resized")));
    EXPECT_EQ(canvas.canvas, size_in(row.at("canvas")));
    const nlohmann::json& box = row.at("box");
    EXPECT_EQ(canvas.box, (ImageRegion{.left = box[0],
                                       .top = box[1],
                                       .width = box[2].get<std::int64_t>() - box[0].get<std::int64_t>(),
                                       .height = box[3].get<std::int64_t>() - box[1].get<std::int64_t>()}));
    if (row.at("several").is_null()) {
      EXPECT_THROW(static_cast<void>(reference_cut(picture)), Error);
    } else {
      EXPECT_EQ(reference_cut(picture).resized, size_in(row.at("several").at("resized")));
      EXPECT_EQ(reference_cut(picture).cut, size_in(row.at("several").at("cut")));
    }
    if (row.at("flux2").is_null() && picture.height * picture.width < 100'000) {
      const Image small = make_image(static_cast<int>(picture.width), static_cast<int>(picture.height), 1);
      EXPECT_THROW(static_cast<void>(prepare_flux2_references({&small, 1})), Error);
    }
  }
}

TEST(Flux3Pipelines, ReflectPicturesAsNumpyDoes) {
  const SafetensorsFile file = SafetensorsFile::open(golden_folder("flux3-base") / "canvas.safetensors");
  const auto read = [&](const std::string& name) {
    const HostTensor bytes = file.read(name);
    Image image = make_image(static_cast<int>(bytes.shape()[1]), static_cast<int>(bytes.shape()[0]), 3);
    std::ranges::copy(bytes.as<std::uint8_t>(), image.pixels.begin());
    return image;
  };
  int count = 0;
  for (; file.has(std::to_string(count) + ".image"); ++count) {
    const Image picture = read(std::to_string(count) + ".image"), canvas = read(std::to_string(count) + ".canvas");
    EXPECT_EQ(reflected_to(picture, {.height = canvas.height, .width = canvas.width}), canvas) << count;
  }
  EXPECT_GE(count, 4);
}

TEST(Flux3Pipelines, AskForPartsOfAnotherRepositoryByNameAndOption) {
  const std::string error =
      error_of([] { static_cast<void>(open_pipeline(golden_folder("flux3-distilled").string())); });
  EXPECT_THAT(error, HasSubstr("lacks 3 parts of a Flux3DistilledModularPipeline"));
  EXPECT_THAT(error, HasSubstr("text_encoder (Qwen3VLForConditionalGeneration of example/flux-3-tiny-base, --part "
                               "text_encoder=PATH)"));
  EXPECT_THAT(error, testing::Not(HasSubstr("scheduler"))) << "it is made from its configuration";
}

TEST(Flux3Pipelines, HaveTheDefaultsOfDiffusers) {
  const OpenedPipeline base = open_flux3("flux3-base", DeviceKind::kCpu);
  const Request guided = base.pipeline->resolve({.switches = {}});
  EXPECT_EQ(guided.steps, 50);
  EXPECT_EQ(guided.guidance_scale, 3.5);
  EXPECT_TRUE(guided.classifier_free_guidance);
  EXPECT_THAT(guided.text_lengths, ElementsAre(80, 80));
  EXPECT_FALSE(base.pipeline->resolve({.guidance_scale = 1, .switches = {}}).classifier_free_guidance);
  const OpenedPipeline distilled = open_flux3("flux3-distilled", DeviceKind::kCpu);
  const Request plain = distilled.pipeline->resolve({.switches = {}});
  EXPECT_EQ(plain.steps, 16);
  EXPECT_FALSE(plain.classifier_free_guidance);
  EXPECT_THAT(
      error_of([&] { static_cast<void>(distilled.pipeline->resolve({.switches = SwitchSet::parse("sampler=heun")})); }),
      HasSubstr("flow map"));
  EXPECT_THAT(error_of([&] {
                const std::vector<TokenSize> many(11, {2, 2});
                static_cast<void>(distilled.pipeline->resolve({.references = many, .switches = {}}));
              }),
              HasSubstr("11 images are given, expected at most 10"));
}

TEST(Flux3Pipelines, HaveTheGuidanceOfTheirGuider) {
  const TempFolder folder;
  fs::copy(golden_folder("flux3-base"), folder.path(), fs::copy_options::recursive);
  nlohmann::json index = read_json(folder / "modular_model_index.json");
  index["guider"] = {"diffusers", "ClassifierFreeGuidance", {{"pretrained_model_name_or_path", "a/b"}}};
  write_json(folder / "modular_model_index.json", index);
  const auto open = [&] { return open_pipeline(folder.path().string()); };
  EXPECT_THAT(error_of([&] { static_cast<void>(open()); }),
              HasSubstr("names a guider that is not in it: copy its guider_config.json into the folder"));
  fs::create_directory(folder / "guider");
  nlohmann::json guider = {{"_class_name", "ClassifierFreeGuidance"}, {"_diffusers_version", "0.42.1"}};
  const auto set = [&](const char* key, const nlohmann::json& value) {
    guider[key] = value;
    write_json(folder / "guider" / "guider_config.json", guider);
  };
  set("guidance_scale", 2.5);
  EXPECT_EQ(open()->resolve({.switches = {}}).guidance_scale, 2.5);
  set("use_original_formulation", true);
  EXPECT_EQ(open()->resolve({.switches = {}}).guidance_scale, 3.5);
  set("enabled", false);
  EXPECT_FALSE(open()->resolve({.switches = {}}).classifier_free_guidance);
  set("stop", 0.8);
  EXPECT_THAT(error_of([&] { static_cast<void>(open()); }), HasSubstr("guider_config.json: stop is 0.8, expected 1"));
  set("_class_name", "SkipLayerGuidance");
  EXPECT_THAT(error_of([&] { static_cast<void>(open()); }),
              HasSubstr("_class_name is SkipLayerGuidance, expected ClassifierFreeGuidance"));
}

/// The latents of a request, under switches that must all be in use.
HostTensor latents_under(const OpenedPipeline& opened, const PipelineGolden& golden, const std::string& switches) {
  RequestOptions options = golden.options();
  options.switches = SwitchSet::parse(switches);
  Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
  HostTensor made = generator.generate(golden.images());
  for (const Declined& declined : generator.compiled().declined) ADD_FAILURE() << switches << ": " << declined.reason;
  return made;
}

/// Caches that reuse nothing change nothing, whatever texts and references a request has; those of a schedule do.
TEST(Flux3Pipelines, StepCachesComputeAndReuse) {
  for (const std::string folder : kFlux3Folders) {
    const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden golden(folder, name, *opened.pipeline);
      SCOPED_TRACE(fmt::format("{} {}", folder, name));
      for (const std::string switches : {"fbcache=1e-9", "teacache=1e-9"})
        EXPECT_LE(relative_l2(latents_under(opened, golden, switches), golden.expected("latents")), kLatentsError)
            << switches;
      for (const std::string switches : {"fbcache=0.1:schedule=10", "teacache=0.1:schedule=10"}) {
        const double difference = relative_l2(latents_under(opened, golden, switches), golden.expected("latents"));
        EXPECT_GT(difference, 10 * kLatentsError) << switches;
        EXPECT_LT(difference, 0.5) << switches;
      }
    }
  }
}

TEST(Flux3Pipelines, AreDiffusersOnTwoRanks) {
  for (const std::string folder : kFlux3Folders) {
    const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
    const PipelineGolden golden(folder, "three_references", *opened.pipeline);
    EXPECT_LE(relative_l2(latents_under(opened, golden, "cp=2"), golden.expected("latents")), kLatentsError) << folder;
  }
}

/// A low-rank update of a module, [width -> rows of all modules], in the names of its authors and of diffusers.
struct ModuleUpdate {
  std::string theirs;
  std::vector<std::string> ours;
};

HostTensor drawn(Shape shape, unsigned seed) {
  HostTensor tensor(DType::kF32, shape);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 0.2F);
  for (float& value : tensor.as<float>()) value = normal(random);
  return tensor;
}

/// Adapters in the names of Black Forest Labs, whose matmuls join several, do what those in diffusers' names do.
TEST(Flux3Pipelines, AdaptersMayHaveTheNamesOfTheAuthors) {
  const std::string flux2 = "transformer_blocks.0.attn.", flux3 = "single_transformer_blocks.1.";
  const std::map<std::string, std::vector<ModuleUpdate>> updates = {
      {"flux2-klein",
       {{"double_blocks.0.img_attn.qkv", {flux2 + "to_q", flux2 + "to_k", flux2 + "to_v"}},
        {"double_blocks.0.txt_mlp.0", {"transformer_blocks.0.ff_context.linear_in"}},
        {"single_blocks.1.linear1", {"single_transformer_blocks.1.attn.to_qkv_mlp_proj"}},
        {"single_stream_modulation.lin", {"single_stream_modulation.linear"}}}},
      {"flux3-base",
       {{"single_blocks.1.q_proj", {flux3 + "attn.to_q"}},
        {"single_blocks.1.mlp_in", {flux3 + "ff.linear_in"}},
        {"content_mode_blocks.image.0.attn_out", {"mode_blocks.image.0.attn.to_out.0"}},
        {"early_stream_modulations.txt.lin", {"early_stream_modulations.txt.linear"}}}}};
  constexpr std::int64_t kRank = 2;
  for (const auto& [folder, modules] : updates) {
    const OpenedPipeline plain = open_flux3(folder, DeviceKind::kCpu);
    const PipelineGolden golden(folder, folder == "flux3-base" ? "guided" : "plain", *plain.pipeline);
    std::map<std::string, HostTensor> by_authors, by_diffusers;
    for (const auto& [theirs, ours] : modules) {
      std::int64_t rows = 0;
      for (const std::string& module : ours) {
        const Shape weight = plain.pipeline->denoiser().checkpoint.read(module + ".weight").shape();
        const std::string name = "transformer." + module;
        by_diffusers.emplace(name + ".lora_A.weight", drawn({kRank, weight[1]}, 1));
        by_diffusers.emplace(name + ".lora_B.weight", drawn({weight[0], kRank}, static_cast<unsigned>(2 + rows)));
        rows += weight[0];
      }
      HostTensor all(DType::kF32, {rows, kRank});
      std::size_t at = 0;
      for (const std::string& module : ours)
        for (const float value : by_diffusers.at("transformer." + module + ".lora_B.weight").as<float>())
          all.as<float>()[at++] = value;
      by_authors.emplace("diffusion_model." + theirs + ".lora_A.weight",
                         by_diffusers.at("transformer." + ours.front() + ".lora_A.weight"));
      by_authors.emplace("diffusion_model." + theirs + ".lora_B.weight", std::move(all));
    }
    const TempFolder written;
    const auto with = [&](const std::map<std::string, HostTensor>& adapter) {
      write_safetensors(written / "lora.safetensors", adapter);
      const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
      LoraFiles loras;
      const LoraUse use{.file = (written / "lora.safetensors").string()};
      opened.pipeline->set_updates(loras.updates({&use, 1}, opened.pipeline->components()));
      EXPECT_THAT(loras.notes(), testing::IsEmpty());
      WeightStore weights(*opened.backend, opened.pipeline->components());
      Generator generator(*opened.pipeline, *opened.backend, weights, golden.options());
      return generator.generate(golden.images());
    };
    const HostTensor authors = with(by_authors), diffusers = with(by_diffusers);
    EXPECT_LE(relative_l2(authors, diffusers), 1e-6) << folder;
    EXPECT_GT(relative_l2(authors, golden.expected("latents")), 1e-3) << folder << " is changed";
  }
}

/// What depends on no latents is a program of its own, which runs once.
TEST(Flux3Pipelines, TextLeavesTheLoop) {
  for (const std::string folder : {"flux3-base", "flux3-distilled"}) {
    const OpenedPipeline opened = open_flux3(folder, DeviceKind::kCpu);
    const PipelineGolden golden(folder, "three_references", *opened.pipeline);
    const Request request = opened.pipeline->resolve(golden.options());
    const Compiled compiled =
        compile_denoise(*opened.pipeline, request, SwitchSet::parse("hoist"), opened.backend->properties().target);
    const auto count_linears = [](const Graph& graph, std::string_view module) {
      return std::ranges::count_if(
          graph.nodes(), [&](const Node& node) { return node.path.starts_with(module) && node.op == Op::kLinear; });
    };
    ASSERT_NE(compiled.program->setup, nullptr);
    EXPECT_GT(count_linears(compiled.program->setup->graph, "txt_mode_blocks."), 0);
    EXPECT_EQ(count_linears(compiled.program->graph, "txt_mode_blocks."), 0);
    const bool is_base = folder == "flux3-base";  // a flow map's references depend on the step
    EXPECT_EQ(count_linears(compiled.program->graph, "mode_blocks.image_cond.") > 0, !is_base) << folder;
  }
}

}  // namespace
}  // namespace headroom
