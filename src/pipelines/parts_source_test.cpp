#include "pipelines/parts_source.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

constexpr PartNeed kNeeds[] = {{"unet", "UNet2DConditionModel"},
                               {"scheduler", "scheduler_config.json"},
                               {"tokenizer", "CLIPTokenizer"},
                               {"vae", "AutoencoderKL or AutoencoderTiny"}};

class PartsFolder : public testing::Test {
 protected:
  std::unique_ptr<PartsSource> write(const std::string& text) {
    write_file_atomically(folder_ / "model_index.json", text);
    return open_parts_folder(folder_.path());
  }
  std::string error_in(const std::string& text) {
    return error_of([&] { static_cast<void>(write(text)); });
  }
  TempFolder folder_;
};

TEST_F(PartsFolder, HasThePartsThatItsIndexNames) {
  EXPECT_FALSE(is_pipeline_folder(folder_.path()));
  fs::create_directory(folder_ / "vae");
  fs::create_directory(folder_ / "unet");
  const std::unique_ptr<PartsSource> parts = write(
      R"({"_class_name": "FluxPipeline", "_diffusers_version": "0.35", "vae": ["diffusers", "AutoencoderKL"],
          "image_encoder": [null, null], "tokenizer": ["transformers", "CLIPTokenizer"], "zeros": true})");
  EXPECT_TRUE(is_pipeline_folder(folder_.path()));
  EXPECT_EQ(parts->class_name(), "FluxPipeline");
  EXPECT_EQ(parts->folder(), folder_.path());
  EXPECT_TRUE(parts->has("vae"));
  EXPECT_FALSE(parts->has("image_encoder")) << "which the pipeline does without";
  EXPECT_FALSE(parts->has("_class_name"));
  EXPECT_FALSE(parts->has("tokenizer")) << "whose folder is missing";
  EXPECT_FALSE(parts->has("unet")) << "which the index does not name";
  EXPECT_EQ(parts->class_of("vae"), "AutoencoderKL");
  EXPECT_EQ(parts->class_of("unet"), "");
  EXPECT_TRUE(parts->flag("zeros", false));
  EXPECT_TRUE(parts->flag("ones", true));
}

TEST_F(PartsFolder, SaysWhatIsWrong) {
  const std::unique_ptr<PartsSource> parts = write(R"({"_class_name": "FluxPipeline"})");
  EXPECT_THAT(error_of([&] { static_cast<void>(parts->open_network("vae")); }),
              HasSubstr("has no part 'vae', which FluxPipeline needs: give --part vae=PATH"));
  EXPECT_THAT(error_of([&] { static_cast<void>(parts->scheduler()); }), HasSubstr("has no part 'scheduler'"));
  EXPECT_THAT(error_in("{"), HasSubstr("model_index.json"));
  EXPECT_THAT(error_in("[]"), HasSubstr("not a JSON object"));
  EXPECT_THAT(error_in("{}"), HasSubstr("_class_name"));
  EXPECT_THAT(error_in(R"({"_class_name": 3})"), HasSubstr("_class_name"));
}

TEST_F(PartsFolder, MissingPartsAreNamedTogetherWithTheirOptions) {
  fs::create_directory(folder_ / "unet");
  const std::unique_ptr<PartsSource> parts =
      write(R"({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"],
                "vae": ["diffusers", "AutoencoderKL"]})");
  EXPECT_EQ(
      error_of([&] { require_parts(*parts, kNeeds); }),
      folder_.path().string() +
          " lacks 3 parts of a StableDiffusionPipeline: scheduler (scheduler_config.json, --part scheduler=PATH), "
          "tokenizer (CLIPTokenizer, --part tokenizer=FOLDER), vae (AutoencoderKL or AutoencoderTiny, --part "
          "vae=PATH)");
}

TEST_F(PartsFolder, PartsOfAnotherClassAreRefused) {
  for (const char* const part : {"unet", "scheduler", "tokenizer", "vae"}) fs::create_directory(folder_ / part);
  const std::unique_ptr<PartsSource> parts =
      write(R"({"_class_name": "StableDiffusionPipeline", "unet": ["diffusers", "UNet2DConditionModel"],
                "scheduler": ["diffusers", "AnyScheduler"], "tokenizer": ["transformers", "CLIPTokenizerFast"],
                "vae": ["diffusers", "VQModel"]})");
  EXPECT_THAT(error_of([&] { require_parts(*parts, kNeeds); }),
              EndsWith(": vae is VQModel, expected AutoencoderKL or AutoencoderTiny"));
}

fs::path golden(const std::string& name) { return source_dir(kSourceDir) / "tests/goldens/pipelines" / name; }

/// Copies without some parts; the originals' replace them.
/// Values that a file of a stranger may have anywhere.
std::vector<nlohmann::json> hostile_values() {
  nlohmann::json deep = 1;
  for (int i = 0; i < 200; ++i) deep = nlohmann::json::array({std::move(deep)});
  return {nullptr,
          -1,
          1e308,
          true,
          "",
          "..",
          "/etc",
          std::string(10'000, 'x'),
          "a\nb\x1b[31m",
          nlohmann::json::array(),
          {nullptr, nullptr},
          {"a\nb", "c\nd"},
          {"diffusers", "a\nb", {{"pretrained_model_name_or_path", "a\nb"}}},
          {"diffusers", "AutoencoderKL", 1, 2},
          nlohmann::json::object(),
          std::move(deep)};
}

/// An index is read, or is an Error of one line that can be printed. Its parts are empty folders.
TEST_F(PartsFolder, HostileIndicesAreReadOrRefused) {
  const auto expect_line = [](const std::string& error, const nlohmann::json& index) {
    const bool is_printable = std::ranges::all_of(error, [](char c) { return static_cast<unsigned char>(c) >= ' '; });
    EXPECT_TRUE(is_printable && !error.empty()) << index.dump().substr(0, 500) << ": " << error;
  };
  const nlohmann::json whole = {
      {"_class_name", "Flux2KleinPipeline"},
      {"_blocks_class_name", "Flux2KleinAutoBlocks"},
      {"is_distilled", false},
      {"guider", {"diffusers", "ClassifierFreeGuidance"}},
      {"scheduler", {"diffusers", "FlowMatchEulerDiscreteScheduler"}},
      {"text_encoder", {"transformers", "Qwen3ForCausalLM"}},
      {"tokenizer", {"transformers", "Qwen2TokenizerFast"}},
      {"transformer", {"diffusers", "Flux2Transformer2DModel", {{"pretrained_model_name_or_path", "a/b"}}}},
      {"vae", {"diffusers", "AutoencoderKLFlux2"}}};
  int read = 0, refused = 0;
  for (const bool has_folders : {false, true}) {
    if (has_folders)
      for (const auto& [role, value] : whole.items())
        if (value.is_array()) fs::create_directory(folder_ / role);
    for (const auto& [key, unused] : whole.items()) {
      for (const nlohmann::json& value : hostile_values()) {
        nlohmann::json index = whole;
        index[key] = value;
        write_json(folder_ / "modular_model_index.json", index);
        expect_line(error_of([&] { static_cast<void>(open_pipeline(folder_.path().string())); }), index);
        try {
          const std::unique_ptr<PartsSource> parts = open_parts_folder(folder_.path());
          for (const auto& [role, also_unused] : whole.items()) {
            static_cast<void>(parts->class_of(role));
            static_cast<void>(parts->repository_of(role));
          }
          ++read;
        } catch (const Error& error) {
          expect_line(error.what(), index);
          ++refused;
        }
      }
    }
  }
  EXPECT_GT(read, 100);
  EXPECT_GT(refused, 10);
}

class GivenParts : public testing::Test {
 protected:
  GivenParts() {
    fs::copy(golden("sd-1.5"), folder_, fs::copy_options::recursive);
    for (const char* const part : {"text_encoder", "tokenizer", "vae", "scheduler"}) fs::remove_all(folder_ / part);
  }
  static OpenOptions all_parts() {
    OpenOptions options;
    for (const char* const part : {"text_encoder", "tokenizer", "vae", "scheduler"})
      options.parts.emplace(part, (golden("sd-1.5") / part).string());
    return options;
  }
  [[nodiscard]] std::string error(const OpenOptions& options) const {
    return error_of([&] { static_cast<void>(open_pipeline(folder_.string(), options)); });
  }

  TempFolder temporary_;
  fs::path folder_ = temporary_ / "sd";
};

TEST_F(GivenParts, CompleteAFolder) {
  EXPECT_THAT(error({}), AllOf(HasSubstr(" lacks 4 parts "), HasSubstr("--part vae=PATH")));
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(folder_.string(), all_parts());
  EXPECT_EQ(pipeline->name(), "sd");
  EXPECT_EQ(pipeline->components().size(), 3U);
  EXPECT_EQ(pipeline->component("vae").folder, golden("sd-1.5") / "vae");
  EXPECT_EQ(pipeline->component("unet").folder, folder_ / "unet");
  OpenOptions file = all_parts();
  file.parts["scheduler"] += "/scheduler_config.json";
  EXPECT_EQ(open_pipeline(folder_.string(), file)->components().size(), 3U);
}

TEST_F(GivenParts, CompleteADenoiserAlone) {
  const std::string unet = (golden("sd-1.5") / "unet").string();
  EXPECT_FALSE(is_pipeline(unet));
  EXPECT_TRUE(is_pipeline(unet, all_parts()));
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(unet, all_parts());
  EXPECT_EQ(pipeline->obstacle_to_images(), "");
  EXPECT_EQ(pipeline->components().size(), 3U);
  EXPECT_THAT(error_of([&] { require_whole_pipeline(unet, {}); }), HasSubstr(" lacks 4 parts of a StableDiffusionPi"));
  EXPECT_THAT(error_of([&] { static_cast<void>(open_pipeline((golden("sd-1.5") / "vae").string(), all_parts())); }),
              HasSubstr("is no denoiser of a pipeline"));
}

TEST_F(GivenParts, ReplaceThoseOfAFolderAndValuesOfConfigurations) {
  const fs::path whole = golden("sd-1.5");
  OpenOptions options{.parts = {{"vae", (golden("sd-2.1") / "vae").string()}},
                      .config = {{"vae.scaling_factor", 0.5}, {"sample_size", 12}}};
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(whole.string(), options);
  EXPECT_EQ(pipeline->component("vae").folder, golden("sd-2.1") / "vae");
  EXPECT_EQ(pipeline->component("vae").config.at("scaling_factor"), 0.5);
  EXPECT_EQ(pipeline->denoiser().config.at("sample_size"), 12);
  EXPECT_EQ(pipeline->resolve({.switches = {}}).token_rows, 12);
}

TEST_F(GivenParts, ThatAPipelineDoesNotHaveAreRefused) {
  OpenOptions options = all_parts();
  options.parts.emplace("vea", "x");
  EXPECT_THAT(error(options), StartsWith("--part vea: a StableDiffusionPipeline has no such part; it has unet, sched"));
  options = all_parts();
  options.config.emplace("vea.scaling_factor", 1);
  EXPECT_THAT(error(options), StartsWith("--config vea: a StableDiffusionPipeline has no such part"));
  options = all_parts();
  options.config.emplace("vae.scaling", 1);
  EXPECT_EQ(error(options), (golden("sd-1.5") / "vae").string() +
                                ": --config scaling: AutoencoderKL has no such value; did you mean 'scaling_factor'?");
  options = all_parts();
  options.config.emplace("scheduler.timestep_spacin", "trailing");
  EXPECT_EQ(error(options),
            "--config scheduler.timestep_spacin: a scheduler has no such value; did you mean 'timestep_spacing'?");
  options = all_parts();
  options.parts["text_encoder"] = (golden("sdxl") / "text_encoder_2").string();
  EXPECT_THAT(error(options),
              HasSubstr("is a CLIPTextModelWithProjection, expected a CLIPTextModel for the part text_"));
  options.parts["text_encoder"] = (folder_ / "none").string();
  EXPECT_THAT(error(options), HasSubstr("there is no such folder"));
  options = all_parts();
  options.parts["tokenizer"] = (folder_ / "none").string();
  EXPECT_THAT(error(options), EndsWith("there is no such folder of a tokenizer, nor a GGUF file with one"));
}

}  // namespace
}  // namespace headroom
