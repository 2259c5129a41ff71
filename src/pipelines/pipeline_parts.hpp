#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/autoencoders/autoencoder.hpp"
#include "pipelines/model_index.hpp"
#include "pipelines/stages/pixel_format.hpp"
#include "pipelines/stages/text_reader.hpp"
#include "run/component.hpp"

namespace headroom {

/// What a generation_config.json beside a pipeline says where a request leaves it open. Published folders have none.
struct GenerationDefaults {
  std::optional<std::int64_t> steps;
  std::optional<double> guidance_scale;
  std::optional<std::int64_t> text_tokens;  ///< max_sequence_length
  std::vector<std::string> prompts;         ///< that it draws where nobody says
  std::optional<PixelFormat> pixels;        ///< of a denoiser that works on pixels
};

/// All that a pipeline is made of.
struct PipelineParts {
  std::filesystem::path folder = {};       ///< empty for a configuration alone
  std::vector<Component> components = {};  ///< the denoiser, then those there are of text encoders and autoencoder
  std::vector<TextReader> readers = {};
  nlohmann::json scheduler = {};  ///< of scheduler_config.json
  GenerationDefaults defaults = {};
  std::vector<std::string> labels = {};  ///< labels.json: what images show, for a judge

  /// The component of that part; null where there is none.
  [[nodiscard]] const Component* find(std::string_view part) const;
};

/// The pipeline of a denoiser alone, with what of scheduler_config.json and generation_config.json lies beside its
/// config.json; `scheduler` where there is none.
[[nodiscard]] PipelineParts parts_of(Component denoiser, nlohmann::json scheduler);

/// What each folder in diffusers' layout has: the denoiser, which lies in the part of that name and is of that class, a
/// scheduler, defaults and labels. Throws Error, as those below, where something is missing or broken.
[[nodiscard]] PipelineParts open_parts(const ModelIndex& index, std::string_view denoiser, std::string_view class_name,
                                       std::optional<std::uint64_t> random_seed);

/// The part `vae`, an autoencoder of any class that can be run.
Autoencoder add_autoencoder(PipelineParts& parts, const ModelIndex& index, std::optional<std::uint64_t> random_seed);

/// A text encoder, its tokenizer, and what a denoiser reads of it.
struct EncoderPart {
  std::string_view part;        ///< "text_encoder"
  std::string_view class_name;  ///< "CLIPTextModel"
  std::string_view tokenizer;   ///< the part
  std::string_view pass = "encode";
  struct Read {
    TextReading reading;
    std::int64_t width = 0;  ///< that the denoiser's input has; 0 for any
  };
  std::vector<Read> readings;
  bool has_request_tokens = false;  ///< it reads as many tokens as a request says, not as many as it has places for
};
/// Throws Error where it does not fit the denoiser.
TextReader& add_reader(PipelineParts& parts, const ModelIndex& index, const EncoderPart& encoder,
                       std::optional<std::uint64_t> random_seed);

/// How wide an output of a pass of a text encoder is.
[[nodiscard]] std::int64_t output_width(const Component& encoder, std::string_view pass, std::string_view output);

}  // namespace headroom
