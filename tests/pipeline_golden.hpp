#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "measure/quality/quality.hpp"
#include "pipelines/generator.hpp"
#include "pipelines/stages/images.hpp"
#include "pipelines/stages/stacks.hpp"

/// Whole pipelines compared with diffusers on the same requests in double precision (tests/goldens/pipelines).
namespace headroom {

inline constexpr double kTextError = 5e-6;  // relative L2, as the next one
inline constexpr double kLatentsError = 1e-5;
inline constexpr double kImagePsnr = 60;  // dB, for values from -1 to 1

inline std::filesystem::path golden_folder(const std::string& name) {
  return source_dir(kSourceDir) / "tests/goldens/pipelines" / name;
}

/// One element [1, ...] of a stack.
inline HostTensor sample(const HostTensor& all, std::size_t index) { return unstack(all)[index]; }

inline HostTensor without_first_axis(const HostTensor& tensor) {
  HostTensor squeezed(tensor.dtype(), Shape(tensor.shape().dims().subspan(1)));
  std::ranges::copy(tensor.bytes(), squeezed.bytes().begin());
  return squeezed;
}

/// One of a folder's requests, and the result of diffusers for it.
class PipelineGolden {
 public:
  PipelineGolden(const std::string& folder, const std::string& name, const Pipeline& pipeline)
      : name_(name),
        asked_(read_json(golden_folder(folder) / "requests.json").at(name)),
        expected_(SafetensorsFile::open(golden_folder(folder) / "expected.safetensors")) {
    const Shape& pixels = expected_.entry(name + ".image").shape;
    options_ = {.images = pixels[0],
                .token_rows = pixels[2] / pipeline.token_pixels(),
                .token_columns = pixels[3] / pipeline.token_pixels(),
                .text_tokens = asked_.value("max_sequence_length", std::int64_t{0}),
                .steps = asked_.at("num_inference_steps"),
                .guidance_scale = number("guidance_scale"),
                .true_cfg_scale = number("true_cfg_scale"),
                .has_negative_prompt = asked_.contains("negative_prompt"),
                .strength = number("strength"),
                .switches = {}};
    for (const std::string& reference : references()) {
      const Shape& size = expected_.entry(name + "." + reference).shape;  // [height, width, 3]
      options_.references.push_back({size[0] / pipeline.token_pixels(), size[1] / pipeline.token_pixels()});
    }
    for (std::int64_t i = 0; i < pixels[0]; ++i) images_.push_back(image(static_cast<std::size_t>(i)));
  }

  [[nodiscard]] const nlohmann::json& asked() const { return asked_; }
  [[nodiscard]] bool has(const std::string& what) const { return expected_.entries().contains(name_ + "." + what); }
  [[nodiscard]] HostTensor expected(const std::string& what) const { return expected_.read(name_ + "." + what); }
  /// U8 [height, width, 3] as an image.
  [[nodiscard]] Image picture(const std::string& what) const {
    const HostTensor bytes = expected(what);
    Image made = make_image(static_cast<int>(bytes.shape()[1]), static_cast<int>(bytes.shape()[0]), 3);
    std::ranges::copy(bytes.as<std::uint8_t>(), made.pixels.begin());
    return made;
  }
  [[nodiscard]] const RequestOptions& options() const { return options_; }
  [[nodiscard]] const std::vector<ImageRequest>& images() const { return images_; }

 private:
  [[nodiscard]] std::optional<double> number(const char* key) const {
    return asked_.contains(key) ? std::optional(asked_.at(key).get<double>()) : std::nullopt;
  }
  /// A text of every image, or one of all.
  [[nodiscard]] std::optional<std::string> text(const char* key, std::size_t index) const {
    if (!asked_.contains(key)) return std::nullopt;
    const nlohmann::json& given = asked_.at(key);
    return (given.is_string() ? given : given.at(index)).get<std::string>();
  }
  /// The names of the pictures that are encoded.
  [[nodiscard]] std::vector<std::string> references() const {
    if (has("reference")) return {"reference_resized"};
    std::vector<std::string> names;
    while (has("prepared_" + std::to_string(names.size()))) names.push_back("prepared_" + std::to_string(names.size()));
    return names;
  }
  [[nodiscard]] ImageRequest image(std::size_t index) const {
    ImageRequest request{.prompt = text("prompt", index),
                         .prompt_2 = text("prompt_2", index),
                         .negative_prompt = text("negative_prompt", index),
                         .negative_prompt_2 = text("negative_prompt_2", index),
                         .noise = without_first_axis(sample(expected("noise"), index))};
    for (const std::string& reference : references()) request.references.push_back(to_pixels(picture(reference)));
    return request;
  }

  std::string name_;
  nlohmann::json asked_;
  SafetensorsFile expected_;
  RequestOptions options_;
  std::vector<ImageRequest> images_;
};

inline std::vector<std::string> golden_requests(const std::string& folder) {
  std::vector<std::string> names;
  const nlohmann::json requests = read_json(golden_folder(folder) / "requests.json");
  for (const auto& [name, request] : requests.items()) names.push_back(name);
  return names;
}

/// A folder on a device, with random weights if a seed is given.
struct OpenedPipeline {
  std::unique_ptr<Pipeline> pipeline;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<WeightStore> weights;

  OpenedPipeline(const std::filesystem::path& folder, DeviceKind device,
                 std::optional<std::uint64_t> random_seed = std::nullopt,
                 const std::map<std::string, std::string, std::less<>>& parts = {})
      : pipeline(open_pipeline(folder.string(), {.random_seed = random_seed, .parts = parts})),
        backend(make_backend(device)),
        weights(std::make_unique<WeightStore>(*backend, pipeline->components())) {}
};

/// Compares a pipeline's result for a request, under those switches, with latents and with the golden pixels.
inline void expect_golden(const OpenedPipeline& opened, const PipelineGolden& request, const std::string& switches,
                          const HostTensor& latents) {
  RequestOptions options = request.options();
  options.switches = SwitchSet::parse(switches);
  Generator generator(*opened.pipeline, *opened.backend, *opened.weights, options);
  const HostTensor made = generator.generate(request.images());
  ASSERT_EQ(made.shape(), latents.shape());
  EXPECT_LE(relative_l2(made, latents), kLatentsError);
  const HostTensor pixels = generator.decode(made);
  const HostTensor image = request.expected("image");
  ASSERT_EQ(pixels.shape(), image.shape());
  EXPECT_GE(psnr_db(image.as<float>(), pixels.as<float>()).value_or(1000), kImagePsnr);
}

}  // namespace headroom
