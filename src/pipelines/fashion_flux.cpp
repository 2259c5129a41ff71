#include "pipelines/fashion_flux.hpp"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "io/safetensors.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> read_labels(const fs::path& path) {
  const nlohmann::json labels = read_json(path);
  if (!labels.is_array() || !std::ranges::all_of(labels, [](const auto& label) { return label.is_string(); }))
    fail("{}: expected a list of names", path.string());
  return labels.get<std::vector<std::string>>();
}

PixelFormat read_pixels(const fs::path& path, std::int64_t token_channels) {
  const nlohmann::json generation = read_json(path);
  const std::string context = path.string() + ": pixel_format";
  const PixelFormat pixels = parse_pixel_format(get(generation, "pixel_format", path.string()), context);
  if (pixels.token_channels() != token_channels)
    fail("{}: patches of {} x {} x {} are not the model's {} channels", context, pixels.patch, pixels.patch,
         pixels.channels, token_channels);
  return pixels;
}

}  // namespace

bool FashionFlux::ships_with(const Component& transformer) {
  return !transformer.folder.empty() && fs::exists(transformer.folder / "prompts.safetensors");
}

FashionFlux::FashionFlux(Component transformer)
    : FluxPipeline(std::move(transformer)),
      pixels_(read_pixels(denoiser().folder / "generation_config.json", config().in_channels)),
      labels_(read_labels(denoiser().folder / "labels.json")) {
  read_prompts();
}

void FashionFlux::read_prompts() {
  const fs::path path = denoiser().folder / "prompts.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(path);
  text_ = convert(file.read("encoder_hidden_states"), DType::kF32);
  pooled_ = convert(file.read("pooled_projections"), DType::kF32);
  const std::int64_t prompts = std::ssize(labels_) + 1;
  const Shape& text = text_.shape();
  if (text.rank() != 3 || text[0] != prompts || text[2] != config().joint_attention_dim)
    fail("{}: encoder_hidden_states is {}, expected [{}, tokens, {}]", path.string(), text, prompts,
         config().joint_attention_dim);
  if (!(pooled_.shape() == Shape{prompts, config().pooled_projection_dim}))
    fail("{}: pooled_projections is {}, expected [{}, {}]", path.string(), pooled_.shape(), prompts,
         config().pooled_projection_dim);
}

Request FashionFlux::default_request() const {
  Request request = FluxPipeline::default_request();
  request.token_rows = pixels_.height / pixels_.patch;
  request.token_columns = pixels_.width / pixels_.patch;
  request.text_tokens = text_.shape()[1];
  return request;
}

Request FashionFlux::resolve(const RequestOptions& options) const {
  const Request request = FluxPipeline::resolve(options);
  if (request.text_tokens != text_.shape()[1])
    fail_usage("text tokens are {}, but the model's prompts have {}", request.text_tokens, text_.shape()[1]);
  return request;
}

void FashionFlux::fill_prompt(std::span<float> row, bool is_pooled, std::int64_t label, bool is_empty) const {
  const auto prompt = static_cast<std::size_t>(is_empty ? std::ssize(labels_) : label);
  std::ranges::copy((is_pooled ? pooled_ : text_).as<float>().subspan(prompt * row.size(), row.size()), row.begin());
}

void FashionFlux::require_label(std::int64_t label) const {
  if (label < 0 || label > std::ssize(labels_))
    fail_usage("label {} is not one of the model's 0 to {}", label, std::ssize(labels_) - 1);
}

HostTensor FashionFlux::decode(const HostTensor& latents, const Request& request) const {
  PixelFormat format = pixels_;
  format.height = request.token_rows * format.patch;
  format.width = request.token_columns * format.patch;
  return unpatch(latents, format);
}

std::unique_ptr<ClassifierJudge> FashionFlux::open_judge(Backend& cpu) const {
  if (denoiser().checkpoint.is_random()) return FluxPipeline::open_judge(cpu);
  return ClassifierJudge::open(denoiser().checkpoint.folder(), cpu);
}

}  // namespace headroom
