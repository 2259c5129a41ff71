// Pipeline folders with one defect each: each gives one clear sentence.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class FluxPipelineTest : public testing::Test {
 protected:
  static fs::path golden(const char* name) { return source_dir(kSourceDir) / "tests/goldens/pipelines" / name; }
  FluxPipelineTest() { fs::copy(golden("flux-dev"), folder_, fs::copy_options::recursive); }

  /// Changes one key of a JSON file of the copy.
  void change(const char* file, const char* key, const nlohmann::json& value) {
    nlohmann::json json = read_json(folder_ / file);
    json[key] = value;
    write_json(folder_ / file, json);
  }
  [[nodiscard]] std::string error() const {
    return error_of([&] { static_cast<void>(open_pipeline(folder_.string())); });
  }

  TempFolder temporary_;
  fs::path folder_ = temporary_ / "flux";
};

TEST_F(FluxPipelineTest, AWholeFolderOpens) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(folder_.string());
  EXPECT_EQ(pipeline->name(), "flux");
  EXPECT_EQ(pipeline->components().size(), 4U);
  EXPECT_EQ(&pipeline->component("transformer"), &pipeline->denoiser());
  EXPECT_FALSE(pipeline->has_random_weights());
  EXPECT_EQ(pipeline->token_pixels(), 16);
  EXPECT_EQ(pipeline->obstacle_to_images(), "");
  EXPECT_EQ(pipeline->image_use(), ImageUse::kNone);
  EXPECT_EQ(open_pipeline(golden("flux-kontext").string())->image_use(), ImageUse::kReference);
}

TEST_F(FluxPipelineTest, RandomWeightsNeedNoCheckpoints) {
  for (const char* part : {"text_encoder", "text_encoder_2", "transformer", "vae"})
    for (const fs::directory_entry& entry : fs::directory_iterator(folder_ / part))
      if (entry.path().filename() != "config.json") fs::remove(entry.path());
  EXPECT_TRUE(open_pipeline(folder_.string(), {.random_seed = 3})->has_random_weights());
  EXPECT_THAT(error(), HasSubstr("transformer"));
}

TEST_F(FluxPipelineTest, DefaultsAreThoseOfTheField) {
  const auto own = [](const fs::path& folder) { return open_pipeline(folder.string())->resolve({.switches = {}}); };
  const Request dev = own(folder_);
  EXPECT_EQ(dev.steps, 28);
  EXPECT_EQ(dev.guidance_scale, 3.5);
  EXPECT_EQ(dev.text_tokens, 512);
  EXPECT_EQ(dev.token_rows, 64);
  EXPECT_FALSE(dev.classifier_free_guidance);
  const Request schnell = own(golden("flux-schnell"));
  EXPECT_EQ(schnell.steps, 4);
  EXPECT_EQ(schnell.text_tokens, 256);
  EXPECT_FALSE(schnell.classifier_free_guidance);
  write_json(folder_ / "generation_config.json",
             {{"num_inference_steps", 9}, {"guidance_scale", 2.5}, {"max_sequence_length", 77}});
  const Request said = own(folder_);
  EXPECT_EQ(said.steps, 9);
  EXPECT_EQ(said.guidance_scale, 2.5);
  EXPECT_EQ(said.text_tokens, 77);
}

TEST_F(FluxPipelineTest, MissingPartsAreNamed) {
  fs::remove_all(folder_ / "vae");
  EXPECT_THAT(error(),
              HasSubstr(" lacks 1 part of a FluxPipeline: vae (AutoencoderKL or AutoencoderTiny, --part vae="));
  change("model_index.json", "text_encoder_2", nlohmann::json::array({nullptr, nullptr}));
  EXPECT_THAT(error(), HasSubstr(" lacks 2 parts of a FluxPipeline: text_encoder_2 (T5EncoderModel, --part text_enc"));
  fs::copy(golden("flux-dev") / "vae", folder_ / "vae");
  change("model_index.json", "text_encoder_2", {"transformers", "T5EncoderModel"});
  fs::remove(folder_ / "scheduler/scheduler_config.json");
  EXPECT_THAT(error(), HasSubstr("scheduler_config.json"));
  fs::remove_all(folder_ / "tokenizer_2");
  fs::create_directory(folder_ / "tokenizer_2");
  EXPECT_NE(error(), "(no error)");
}

TEST_F(FluxPipelineTest, PartsOfAnotherModelAreRefused) {
  fs::remove_all(folder_ / "tokenizer_2");
  fs::copy(folder_ / "tokenizer", folder_ / "tokenizer_2");
  change("text_encoder_2/config.json", "vocab_size", 8);
  EXPECT_THAT(error(), HasSubstr("text_encoder_2"));
}

TEST_F(FluxPipelineTest, ATokenizerWithMoreIdsThanTheEncoderIsAnotherModels) {
  nlohmann::json vocabulary = read_json(folder_ / "tokenizer/vocab.json");
  vocabulary["moreover</w>"] = 60'000;
  write_json(folder_ / "tokenizer/vocab.json", vocabulary);
  EXPECT_THAT(error(), AllOf(HasSubstr("60001 ids"), HasSubstr("the tokenizer is another model's")));
}

TEST_F(FluxPipelineTest, PartsThatDoNotFitTheTransformerAreRefused) {
  fs::remove_all(folder_ / "text_encoder_2");
  fs::copy(golden("flux-kontext") / "text_encoder_2", folder_ / "text_encoder_2");
  fs::remove_all(folder_ / "tokenizer_2");
  fs::copy(golden("flux-kontext") / "tokenizer_2", folder_ / "tokenizer_2");
  EXPECT_THAT(error(), HasSubstr("last_hidden_state is 22 wide, but the transformer's encoder_hidden_states are 28"));
}

TEST_F(FluxPipelineTest, AnAutoencoderOfOtherLatentsIsRefused) {
  fs::remove_all(folder_ / "vae");
  fs::copy(golden("flux-schnell") / "vae", folder_ / "vae");
  EXPECT_THAT(error(), HasSubstr("2 x 2 latents have 16 channels, but the transformer's tokens have 64"));
}

TEST_F(FluxPipelineTest, OtherPipelinesAndSchedulersAreNamed) {
  change("scheduler/scheduler_config.json", "_class_name", "DDIMScheduler");
  EXPECT_THAT(error(), HasSubstr("_class_name is DDIMScheduler"));
  change("model_index.json", "_class_name", "StableDiffusion3Pipeline");
  EXPECT_THAT(error(),
              HasSubstr("is a StableDiffusion3Pipeline, which is not supported; expected one of FluxPipeline"));
}

}  // namespace
}  // namespace headroom
