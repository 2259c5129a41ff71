// Whole pipelines of Stable Diffusion 1.5, 2.1, Turbo and XL against diffusers in double precision
// (tests/goldens/make_stable_diffusion.py): small folders as it writes them, from prompts and noise to pixels, and as a user
// meets them.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "media/read_image.hpp"
#include "pipeline_golden.hpp"
#include "pipelines/diffusion_pipeline.hpp"
#include "program_fixture.hpp"
#include "run/weights/lora.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kFolders[] = {"sd-1.5", "sd-2.1", "sdxl"};

/// A copy of a folder with another scheduler.
class Rescheduled {
 public:
  Rescheduled(const std::string& folder, const nlohmann::json& scheduler) {
    fs::copy(golden_folder(folder), path(), fs::copy_options::recursive);
    write_json(path() / "scheduler/scheduler_config.json", scheduler);
  }
  [[nodiscard]] fs::path path() const { return temporary_ / "folder"; }

 private:
  TempFolder temporary_;
};

void expect_whole_pipelines(DeviceKind device, const std::vector<std::string>& sets) {
  for (const std::string folder : kFolders) {
    const OpenedPipeline plain(golden_folder(folder), device);
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, *plain.pipeline);
      std::optional<OpenedPipeline> other;
      if (request.asked().contains("scheduler"))
        other.emplace(Rescheduled(folder, request.asked().at("scheduler")).path(), device);
      const OpenedPipeline& opened = other ? *other : plain;
      LoraFiles files;
      std::vector<LoraUse> uses;
      if (request.asked().contains("lora"))
        uses.push_back({.file = (golden_folder(folder) / "lora.safetensors").string(),
                        .weight = request.asked().at("lora").get<double>()});
      static_cast<void>(opened.weights->update_params(files.updates(uses, opened.pipeline->components())));
      EXPECT_TRUE(files.notes().empty());
      for (const std::string& switches : sets) {
        SCOPED_TRACE(fmt::format("{} {} {}", folder, name, switches));
        expect_golden(opened, request, switches, request.expected("latents"));
      }
    }
  }
}

TEST(StableDiffusion, IsDiffusersFromPromptsToPixels) {
  expect_whole_pipelines(DeviceKind::kCpu, {"baseline", "lossless"});
}

using GpuStableDiffusion = GpuTest;

TEST_F(GpuStableDiffusion, IsDiffusersFromPromptsToPixels) {
  expect_whole_pipelines(DeviceKind::kCuda, {"baseline", "lossless"});
}

/// Ids with each tokenizer's padding, and what is read of them: SDXL's states lie side by side.
TEST(StableDiffusion, PromptsBecomeTheIdsAndStatesOfTransformers) {
  for (const std::string folder : kFolders) {
    const OpenedPipeline opened(golden_folder(folder), DeviceKind::kCpu);
    const Pipeline& pipeline = *opened.pipeline;
    for (const std::string& name : golden_requests(folder)) {
      const PipelineGolden request(folder, name, pipeline);
      PromptReader reader(pipeline, pipeline.resolve({.switches = {}}).text_tokens, {},
                          opened.backend->properties().target);
      reader.load(std::make_shared<Offloader>(*opened.backend, *opened.weights, 0));
      const HostTensor states = request.expected("encoder_hidden_states");  // [images, tokens, width]
      std::int64_t first = 0;                                               // of the reader's own columns
      for (std::size_t r = 0; r < pipeline.text_readers().size(); ++r) {
        std::int64_t width = 0;
        for (std::size_t i = 0; i < request.images().size(); ++i) {
          SCOPED_TRACE(fmt::format("{} {} reader {} image {}", folder, name, r, i));
          const std::string text = prompt_of(pipeline, request.images()[i], r);
          const HostTensor ids = sample(request.expected(r == 0 ? "ids" : "ids_2"), i);
          const HostTensor given = pipeline.text_readers()[r].tokenize(text, ids.numel());
          for (std::int64_t token = 0; token < ids.numel(); ++token)
            ASSERT_EQ(given.at(token), ids.at(token)) << "token " << token;
          std::vector<StageRun> took;
          const std::optional<std::string> texts[] = {text};
          const Conditioning::Text made = reader.read(r, texts, took).front();
          const HostTensor state = to_host(*made.front(), *opened.backend);
          width = state.shape()[2];
          HostTensor own(DType::kF32, state.shape());
          for (std::int64_t k = 0; k < own.numel(); ++k)
            own.set(k, sample(states, i).at(k / width * states.shape()[2] + first + k % width));
          EXPECT_LE(relative_l2(state, own), kTextError);
          if (made.size() > 1) {
            EXPECT_LE(relative_l2(to_host(*made[1], *opened.backend), sample(request.expected("text_embeds"), i)),
                      kTextError);
          }
        }
        first += width;
      }
      EXPECT_EQ(first, states.shape()[2]);
    }
  }
}

/// Without a negative prompt SDXL's U-Net is given zeros, with an empty one what the encoders make of it; others read an empty one.
TEST(StableDiffusion, NoNegativePromptIsWhatTheFieldTakesForIt) {
  const auto latents = [](const std::string& folder, const std::optional<std::string>& negative) {
    const OpenedPipeline opened(golden_folder(folder), DeviceKind::kCpu);
    Generator generator(*opened.pipeline, *opened.backend, *opened.weights,
                        {.token_rows = 4, .token_columns = 4, .steps = 2, .switches = {}});
    const std::vector<ImageRequest> images = {{.seed = 3, .prompt = "a fox", .negative_prompt = negative}};
    return generator.generate(images);
  };
  EXPECT_GT(relative_l2(latents("sdxl", std::nullopt), latents("sdxl", "")), 1e-3);
  EXPECT_EQ(relative_l2(latents("sd-2.1", std::nullopt), latents("sd-2.1", "")), 0);
}

/// The whole request is one recording wherever the device goes through loops, and what is the same in every step is before the loop.
TEST(StableDiffusion, WhatAPromptAloneDecidesIsComputedOnce) {
  const OpenedPipeline opened(golden_folder("sdxl"), DeviceKind::kCpu);
  const Request request = opened.pipeline->resolve({.token_rows = 4, .token_columns = 4, .steps = 2, .switches = {}});
  const Compiled compiled =
      compile_denoise(*opened.pipeline, request, SwitchSet::parse("hoist"), opened.backend->properties().target);
  std::int64_t inside = 0;
  const Graph& graph = compiled.program->graph;
  for (const Node& node : graph.nodes()) {
    const bool is_of_text =
        node.path.find("attn2.to_k") != std::string::npos || node.path.find("attn2.to_v") != std::string::npos ||
        node.path.find("time_emb_proj") != std::string::npos || node.path.find("time_embedding") != std::string::npos ||
        node.path.find("add_embedding") != std::string::npos;
    inside += node.op == Op::kMatmul && is_of_text && node.region != kTopRegion;
  }
  EXPECT_EQ(inside, 0);
}

TEST(StableDiffusion, DefaultsAreThoseOfTheField) {
  const auto own = [](const fs::path& folder) { return open_pipeline(folder.string())->resolve({.switches = {}}); };
  const Request sd = own(golden_folder("sd-1.5"));
  EXPECT_EQ(sd.steps, 50);
  EXPECT_EQ(sd.calls(), 51) << "PLMS makes the first step twice";
  EXPECT_EQ(sd.true_cfg_scale, 7.5);
  EXPECT_TRUE(sd.classifier_free_guidance);
  EXPECT_EQ(sd.text_tokens, 77);
  EXPECT_EQ(sd.token_rows, 6) << "sample_size";
  EXPECT_EQ(own(golden_folder("sdxl")).true_cfg_scale, 5);
  const nlohmann::json turbo = read_json(golden_folder("sd-2.1") / "requests.json").at("turbo_1").at("scheduler");
  const Rescheduled distilled("sd-2.1", turbo);
  EXPECT_EQ(own(distilled.path()).steps, 50) << "no file of a Turbo says that it is one";
  EXPECT_EQ(own(distilled.path()).guidance_scale, 7.5);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(distilled.path().string());
  EXPECT_NEAR(pipeline->sampler_tables(pipeline->resolve({.steps = 1, .switches = {}})).noise_scale, 0.99767, 1e-5)
      << "14.615 of an image that is then divided";
  write_json(distilled.path() / "generation_config.json", {{"num_inference_steps", 4}, {"guidance_scale", 2.0}});
  EXPECT_EQ(own(distilled.path()).steps, 4);
  EXPECT_TRUE(own(distilled.path()).classifier_free_guidance);
  write_json(distilled.path() / "generation_config.json", {{"num_inference_steps", 1}, {"guidance_scale", 0.0}});
  EXPECT_EQ(own(distilled.path()).steps, 1);
  EXPECT_FALSE(own(distilled.path()).classifier_free_guidance);
}

TEST(StableDiffusion, AnImageToBeginWithLeavesTheLastSteps) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(golden_folder("sd-2.1").string());
  const auto resolve = [&](std::optional<double> strength, std::int64_t steps, std::int64_t rows) {
    return pipeline->resolve({.references = {{rows, rows}}, .steps = steps, .strength = strength, .switches = {}});
  };
  const Request request = resolve(0.6, 5, 4);
  EXPECT_EQ(request.calls(), 3);
  EXPECT_EQ(request.token_rows, 4) << "it is as large as the image";
  EXPECT_EQ(resolve(std::nullopt, 10, 4).calls(), 8) << "its own strength is 0.8";
  EXPECT_THAT(error_of([&] { static_cast<void>(resolve(0, 10, 4)); }), HasSubstr("the strength is 0, expected"));
  EXPECT_EQ(resolve(1, 10, 4).calls(), 10);
  EXPECT_THAT(error_of([&] { static_cast<void>(pipeline->resolve({.token_rows = 2049, .switches = {}})); }),
              HasSubstr("the number of token rows is 2049, expected 1 to 2048, which are 2 to 4096 pixels"));
  EXPECT_THAT(error_of([&] { static_cast<void>(resolve(0.1, 5, 4)); }), HasSubstr("leaves none of 5 steps"));
  EXPECT_THAT(error_of([&] { static_cast<void>(resolve(0.1, 1, 4)); }), HasSubstr("leaves none of 1 step,"));
  EXPECT_THAT(error_of([&] { static_cast<void>(resolve(0.1, 3, 4)); }), HasSubstr("expected at least 0.3334"));
  EXPECT_EQ(resolve(0.3334, 3, 4).calls(), 1);
  EXPECT_THAT(error_of([&] { static_cast<void>(resolve(1.5, 5, 4)); }), HasSubstr("the strength is 1.5"));
  EXPECT_THAT(error_of([&] { static_cast<void>(pipeline->resolve({.steps = 5, .strength = 0.5, .switches = {}})); }),
              HasSubstr("and there is none"));
  EXPECT_THAT(error_of([&] {
                static_cast<void>(
                    pipeline->resolve({.token_rows = 8, .token_columns = 8, .references = {{4, 4}}, .switches = {}}));
              }),
              HasSubstr("is 4 x 4 tokens, expected 8 x 8"));
}

/// A folder in which somebody has put TAESD for the autoencoder: another class, and pixels along a latent.
TEST(StableDiffusion, ATinyAutoencoderCodesImagesAsWell) {
  const Rescheduled copy("sd-2.1", read_json(golden_folder("sd-2.1") / "scheduler/scheduler_config.json"));
  fs::remove_all(copy.path() / "vae");
  fs::create_directory(copy.path() / "vae");
  nlohmann::json vae = read_json(golden_folder("../vae/tiny") / "config.json");
  vae["latent_channels"] = 4;
  write_json(copy.path() / "vae/config.json", vae);
  nlohmann::json index = read_json(copy.path() / "model_index.json");
  index["vae"] = {"diffusers", "AutoencoderTiny"};
  write_json(copy.path() / "model_index.json", index);
  const OpenedPipeline opened(copy.path(), DeviceKind::kCpu, /*random_seed=*/5);
  const std::int64_t side = 2 * opened.pipeline->token_pixels();
  Generator generator(*opened.pipeline, *opened.backend, *opened.weights,
                      {.references = {{2, 2}}, .steps = 2, .strength = 0.5, .switches = {}});
  const std::vector<ImageRequest> images = {
      {.seed = 3, .prompt = "a fox", .references = {filled_tensor({1, 3, side, side}, 0.5)}}};
  const HostTensor pixels = generator.decode(generator.generate(images));
  EXPECT_EQ(pixels.shape(), (Shape{1, 3, side, side}));
  EXPECT_NO_THROW(static_cast<void>(to_images(pixels))) << "which refuses NaN";
}

/// Folders that are broken in one way: each is one clear sentence.
TEST(StableDiffusion, PartsThatDoNotFitAreRefused) {
  const auto error_with = [](const std::string& folder, const char* file, const char* key,
                             const nlohmann::json& value) {
    const Rescheduled copy(folder, read_json(golden_folder(folder) / "scheduler/scheduler_config.json"));
    nlohmann::json json = read_json(copy.path() / file);
    json[key] = value;
    write_json(copy.path() / file, json);
    return error_of([&] { static_cast<void>(open_pipeline(copy.path().string(), {.random_seed = 1})); });
  };
  EXPECT_THAT(error_with("sd-1.5", "unet/config.json", "cross_attention_dim", 24),
              HasSubstr("last_hidden_state is 20 wide, but the unet's encoder_hidden_states are 24"));
  EXPECT_THAT(error_with("sdxl", "unet/config.json", "cross_attention_dim", 24),
              HasSubstr("are 48 wide together, but the unet's encoder_hidden_states are 24"));
  EXPECT_THAT(error_with("sd-1.5", "vae/config.json", "latent_channels", 8),
              HasSubstr("latents have 8 channels, but the unet takes 4 and makes 4"));
  EXPECT_THAT(error_with("sd-1.5", "scheduler/scheduler_config.json", "_class_name", "FlowMatchEulerDiscreteScheduler"),
              HasSubstr("expected a scheduler of diffusion"));
}

// What cannot run is an error where a loop is built of it, with the file's folder and what to do; a pass of the denoiser needs no
// scheduler, and a sampler that is named replaces it.
TEST(StableDiffusion, ASchedulerThatIsReplacedKeepsNoFolderShut) {
  const nlohmann::json own = read_json(golden_folder("sd-1.5") / "scheduler/scheduler_config.json");
  const std::pair<nlohmann::json, const char*> changes[] = {
      {{{"_class_name", "KDPM2DiscreteScheduler"}, {"shiny", 1}},
       "_class_name is KDPM2DiscreteScheduler, which is not supported"},
      {{{"skip_prk_steps", false}}, "skip_prk_steps is false, expected true"},
      {{{"_class_name", "DDPMScheduler"}, {"variance_type", "learned_range"}}, "variance_type is learned_range"},
      {{{"_class_name", "DPMSolverMultistepScheduler"}, {"solver_order", 3}}, "solver_order is 3, expected 1 to 2"}};
  for (const auto& [keys, error] : changes) {
    nlohmann::json config = own;
    config.update(keys);
    const Rescheduled copy("sd-1.5", config);
    const std::unique_ptr<Pipeline> pipeline = open_pipeline(copy.path().string(), {.random_seed = 1});
    const Request request = pipeline->resolve({.steps = 4, .switches = {}});
    EXPECT_NE(pipeline->forward_pass(request).component, nullptr);
    const std::string message = error_of([&] { static_cast<void>(pipeline->build_denoise(request)); });
    EXPECT_THAT(message, HasSubstr(copy.path().string()));
    EXPECT_THAT(message, HasSubstr(error));
    EXPECT_THAT(message, HasSubstr("--opt sampler=NAME replaces it"));
    const Request named = pipeline->resolve({.steps = 4, .switches = SwitchSet::parse("sampler=euler")});
    EXPECT_EQ(pipeline->sampler_tables(named).calls(), 4);
  }
}

// Numbers of steps that a scheduler makes more or fewer of are counted as they are made.
TEST(StableDiffusion, CallsAreThoseThatTheSchedulerMakes) {
  nlohmann::json config = read_json(golden_folder("sd-1.5") / "scheduler/scheduler_config.json");
  config["timestep_spacing"] = "trailing";
  const Rescheduled copy("sd-1.5", config);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(copy.path().string(), {.random_seed = 1});
  for (const char* sampler : {"euler", "ddim", "heun", "dpm++sde", "plms", "deis", "dpm++2s"})
    for (const std::int64_t steps : {4, 60, 61}) {
      const Request request =
          pipeline->resolve({.steps = steps, .switches = SwitchSet::parse(fmt::format("sampler={}", sampler))});
      EXPECT_EQ(pipeline->sampler_tables(request).calls(), request.calls()) << sampler << ' ' << steps;
    }
}

// A null is a key that is not there, in each config that a pipeline reads: what comes of it is the same, and no internal error.
TEST(StableDiffusion, NullsInConfigsAreKeysThatAreNotThere) {
  for (const char* folder : {"sd-1.5", "sdxl"}) {
    const nlohmann::json scheduler = read_json(golden_folder(folder) / "scheduler/scheduler_config.json");
    for (const char* file : {"scheduler/scheduler_config.json", "unet/config.json", "vae/config.json"}) {
      const Rescheduled copy(folder, scheduler);
      nlohmann::json own = read_json(golden_folder(folder) / file);
      if (std::string_view(file).starts_with("vae")) own["force_upcast"] = true;
      const auto outcome = [&](const nlohmann::json& config) {
        write_json(copy.path() / file, config);
        return error_of([&] {
          const std::unique_ptr<Pipeline> pipeline = open_pipeline(copy.path().string(), {.random_seed = 1});
          static_cast<void>(pipeline->build_denoise(pipeline->resolve({.steps = 2, .switches = {}})));
        });
      };
      for (const auto& [key, value] : own.items()) {
        if (key.starts_with('_')) continue;
        nlohmann::json with_null = own, without = own;
        with_null[key] = nullptr;
        without.erase(key);
        EXPECT_EQ(outcome(with_null), outcome(without)) << folder << ' ' << file << ' ' << key;
      }
    }
  }
}

class StableDiffusionProgram : public ProgramTest {
 protected:
  [[nodiscard]] static std::string model(const char* name) { return golden_folder(name).string(); }
};

TEST_F(StableDiffusionProgram, RunDrawsAndRedraws) {
  const std::string small = " --quiet --device cpu --threads 1 --steps 2 ";
  const Outcome drawn =
      headroom("run " + model("sd-2.1") + small + "--prompt fox --negative-prompt blurry --out " + file("fox.png"));
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  const Image fox = read_image(file("fox.png"));
  EXPECT_EQ(fox.width, 16);
  const Outcome redrawn = headroom("run " + model("sd-2.1") + small + "--prompt hare --image " + file("fox.png") +
                                   " --strength 0.5 --height 24 --json --out " + file("hare.png"));
  ASSERT_EQ(redrawn.code, 0) << redrawn.err;
  EXPECT_EQ(read_image(file("hare.png")).height, 24);
  EXPECT_THAT(redrawn.out, AllOf(HasSubstr("\"encode\""), HasSubstr("\"denoise\"")));
  const nlohmann::json summary = parse_json(redrawn.out, "output");
  EXPECT_EQ(summary.at("step_ms").size(), 1U) << "half of two steps";
  const Outcome again = headroom("run --like " + file("hare.png") + " " + model("sd-2.1") +
                                 " --quiet --device cpu --threads 1 --out " + file("again.png"));
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(read_image(file("again.png")).pixels, read_image(file("hare.png")).pixels);

  const Outcome lost = headroom("run " + model("sd-2.1") + small + "--prompt x --strength 0.5 --out " + file("x.png"));
  EXPECT_EQ(lost.code, 2);
  EXPECT_THAT(lost.err, HasSubstr("a strength of 0.5 is for an image to begin with, and there is none"));
  const Outcome flux =
      headroom("run " + model("flux-schnell") + small + "--prompt x --strength 0.5 --out " + file("x.png"));
  EXPECT_EQ(flux.code, 2);
  EXPECT_THAT(flux.err, HasSubstr("but flux-schnell begins with noise"));
}

TEST_F(StableDiffusionProgram, RequestsByLineHaveAStrength) {
  const std::string requests = file("requests.jsonl");
  const Outcome drawn = headroom("run " + model("sdxl") +
                                 " --quiet --device cpu --threads 1 --steps 2 --prompt fox --out " + file("fox.png"));
  ASSERT_EQ(drawn.code, 0) << drawn.err;
  std::ofstream(requests) << nlohmann::json{{"prompt", "hare"},
                                            {"image", file("fox.png")},
                                            {"strength", 0.5},
                                            {"negative_prompt", ""},
                                            {"out", file("hare.png")}}
                                 .dump()
                          << '\n'
                          << nlohmann::json{{"prompt", "x"}, {"strength", 0.5}, {"out", file("x.png")}}.dump() << '\n';
  const Outcome served =
      headroom("run " + model("sdxl") + " --quiet --device cpu --threads 1 --steps 2 --prompts - < " + requests);
  EXPECT_THAT(served.out, AllOf(HasSubstr("hare.png"), HasSubstr("and there is none"))) << served.err;
}

TEST_F(StableDiffusionProgram, OtherCommandsTakeTheFolder) {
  const std::string small = " --quiet --device cpu --threads 1 ";
  const Outcome planned = headroom("plan " + model("sd-1.5") + small);
  EXPECT_EQ(planned.code, 0) << planned.err;
  EXPECT_THAT(planned.out, HasSubstr("attn2"));
  EXPECT_EQ(headroom("profile " + model("sd-1.5") + small + "--steps 1").code, 0);
  const Outcome timed = headroom("bench " + model("sdxl") + small + "--pass request --opt steps=1 --trials 3");
  EXPECT_EQ(timed.code, 0) << timed.err;
  EXPECT_THAT(timed.out, AllOf(HasSubstr("text_encoder_2"), HasSubstr("decode")));
  EXPECT_EQ(headroom("bench " + model("sd-2.1") + small + "--pass encode --trials 3").code, 0);
  const Outcome laddered =
      headroom("ladder " + model("sd-2.1") + small +
               "--opt arena,hoist,meancache=2 --batch 1 --steps 3 --trials 3 --max-rounds 2 --out " + file("out"));
  EXPECT_EQ(laddered.code, 0) << laddered.err;
  const Outcome swept =
      headroom("sweep " + model("sd-2.1") + small + "--resolution 16,32 --steps 1 --trials 3 --out " + file("sweep"));
  EXPECT_EQ(swept.code, 0) << swept.err;
}

/// A U-Net has no row of blocks that one residual stream goes through; its prediction can be kept all the same.
TEST_F(StableDiffusionProgram, StepCachesOfBlocksSayWhyTheyDoNotFit) {
  const std::string run =
      "run " + model("sd-2.1") + " --device cpu --threads 1 --steps 4 --prompt fox --out " + file("fox.png");
  for (const char* cache : {"fbcache=0.1", "teacache=0.1"}) {
    const Outcome outcome = headroom(run + " --opt lossless," + cache);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(std::string(cache).substr(0, 7))) << "declined with a reason";
  }
  const Outcome kept = headroom(run + " --opt lossless,meancache=2 --json");
  EXPECT_EQ(kept.code, 0) << kept.err;
  EXPECT_THAT(kept.out, HasSubstr("\"computed_steps\""));
}

}  // namespace
}  // namespace headroom
