// Whole FLUX pipelines against diffusers in double precision (tests/goldens/make_flux_pipelines.py): small folders of dev,
// schnell and Kontext as it writes them, from prompts and noise to pixels.

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/test_util.hpp"
#include "io/safetensors.hpp"
#include "measure/quality.hpp"
#include "pipelines/generator.hpp"
#include "pipelines/images.hpp"
#include "pipelines/kontext_sizes.hpp"
#include "pipelines/stacks.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr double kTextError = 5e-6;  // relative L2, as those below
constexpr double kLatentsError = 1e-5;
constexpr double kImagePsnr = 60;  // dB of values from -1 to 1

constexpr const char* kFolders[] = {"flux-dev", "flux-schnell", "flux-kontext"};

fs::path golden(const std::string& name) { return source_dir(HEADROOM_SOURCE_DIR) / "tests/goldens/pipelines" / name; }

/// One [1, ...] of several.
HostTensor sample(const HostTensor& all, std::size_t index) { return unstack(all)[index]; }

HostTensor without_first_axis(const HostTensor& tensor) {
  HostTensor squeezed(tensor.dtype(), Shape(tensor.shape().dims().subspan(1)));
  std::ranges::copy(tensor.bytes(), squeezed.bytes().begin());
  return squeezed;
}

/// One of a folder's requests, and what diffusers makes of it.
class FluxGolden {
 public:
  FluxGolden(const std::string& folder, const std::string& name, const Pipeline& pipeline)
      : name_(name),
        asked_(read_json(golden(folder) / "requests.json").at(name)),
        expected_(SafetensorsFile::open(golden(folder) / "expected.safetensors")) {
    const Shape& pixels = expected_.entry(name + ".image").shape;
    options_ = {.images = pixels[0],
                .token_rows = pixels[2] / pipeline.token_pixels(),
                .token_columns = pixels[3] / pipeline.token_pixels(),
                .text_tokens = asked_.at("max_sequence_length"),
                .steps = asked_.at("num_inference_steps"),
                .guidance_scale = asked_.at("guidance_scale"),
                .true_cfg_scale = asked_.value("true_cfg_scale", 0.0),
                .switches = {}};
    if (has("reference")) {
      const Shape& reference = expected_.entry(name + ".reference_resized").shape;  // [height, width, 3]
      options_.reference_rows = reference[0] / pipeline.token_pixels();
      options_.reference_columns = reference[1] / pipeline.token_pixels();
    }
    for (std::int64_t i = 0; i < pixels[0]; ++i) images_.push_back(image(static_cast<std::size_t>(i)));
  }

  [[nodiscard]] bool has(const std::string& what) const { return expected_.entries().contains(name_ + "." + what); }
  [[nodiscard]] HostTensor expected(const std::string& what) const { return expected_.read(name_ + "." + what); }
  [[nodiscard]] HostTensor final_latents() const { return without_first_axis(unstack(expected("latents")).back()); }
  [[nodiscard]] const RequestOptions& options() const { return options_; }
  [[nodiscard]] const std::vector<ImageRequest>& images() const { return images_; }
  [[nodiscard]] double bf16_error(const std::string& what) const { return expected(what + "_bf16_error").at(0); }

 private:
  [[nodiscard]] std::string text(const char* key, std::size_t index) const {
    return asked_.contains(key) ? asked_.at(key).at(index).get<std::string>() : "";
  }
  [[nodiscard]] ImageRequest image(std::size_t index) const {
    ImageRequest request{.prompt = text("prompt", index),
                         .prompt_2 = text("prompt_2", index),
                         .negative_prompt = text("negative_prompt", index),
                         .noise = without_first_axis(sample(expected("noise"), index))};
    if (!has("reference")) return request;
    const HostTensor bytes = expected("reference_resized");
    Image picture = make_image(static_cast<int>(bytes.shape()[1]), static_cast<int>(bytes.shape()[0]), 3);
    std::ranges::copy(bytes.as<std::uint8_t>(), picture.pixels.begin());
    request.reference = to_pixels(picture);
    return request;
  }

  std::string name_;
  nlohmann::json asked_;
  SafetensorsFile expected_;
  RequestOptions options_;
  std::vector<ImageRequest> images_;
};

std::vector<std::string> requests_of(const std::string& folder) {
  std::vector<std::string> names;
  const nlohmann::json requests = read_json(golden(folder) / "requests.json");
  for (const auto& [name, request] : requests.items()) names.push_back(name);
  return names;
}

/// A folder on a device.
struct Opened {
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<WeightStore> weights;

  Opened(const std::string& folder, DeviceKind device)
      : pipeline(open_pipeline(golden(folder).string())),
        backend(make_backend(device)),
        weights(std::make_unique<WeightStore>(*backend, pipeline->components())) {}
};

void expect_whole_pipelines(DeviceKind device, const std::vector<std::string>& sets) {
  for (const std::string folder : kFolders) {
    const Opened opened(folder, device);
    for (const std::string& name : requests_of(folder)) {
      const FluxGolden request(folder, name, *opened.pipeline);
      for (const std::string& switches : sets) {
        SCOPED_TRACE(fmt::format("{} {} {}", folder, name, switches));
        RequestOptions options = request.options();
        options.switches = SwitchSet::parse(switches);
        Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
        const HostTensor latents = generator.generate(request.images());
        EXPECT_LE(relative_l2(latents, request.final_latents()), kLatentsError);
        const HostTensor pixels = generator.decode(latents);
        const HostTensor image = request.expected("image");
        ASSERT_EQ(pixels.shape(), image.shape());
        EXPECT_GE(psnr_db(image.as<float>(), pixels.as<float>()).value_or(1000), kImagePsnr);
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
    const Opened opened(folder, DeviceKind::kCpu);
    double ours = 0, diffusers = 0;
    for (const std::string& name : requests_of(folder)) {
      const FluxGolden request(folder, name, *opened.pipeline);
      RequestOptions options = request.options();
      options.switches = SwitchSet::parse("lossless,bf16");
      Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
      ours += std::pow(relative_l2(generator.generate(request.images()), request.final_latents()), 2);
      diffusers += std::pow(request.bf16_error("latents"), 2);
    }
    EXPECT_LE(std::sqrt(ours), 1.1 * std::sqrt(diffusers)) << folder;
  }
}

TEST(FluxPipelines, PromptsBecomeTheIdsAndStatesOfTransformers) {
  for (const std::string folder : kFolders) {
    const Opened opened(folder, DeviceKind::kCpu);
    const Pipeline& pipeline = *opened.pipeline;
    for (const std::string& name : requests_of(folder)) {
      const FluxGolden request(folder, name, pipeline);
      PromptReader reader(pipeline, request.options().text_tokens, {}, opened.backend->properties().target);
      reader.load(std::make_shared<Turns>(*opened.backend, *opened.weights, 0));
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
          const std::string texts[] = {text};
          const HostTensor made = to_host(*reader.read(r, texts, took).front(), *opened.backend);
          EXPECT_LE(relative_l2(made, sample(request.expected(states[r]), i)), kTextError);
        }
    }
  }
}

TEST(FluxPipelines, KontextChoosesTheSizesOfDiffusers) {
  const nlohmann::json sizes = read_json(golden("flux-kontext") / "sizes.json");
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
  const Opened opened("flux-schnell", DeviceKind::kCpu);
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
