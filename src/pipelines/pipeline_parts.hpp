#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "models/autoencoders/autoencoder.hpp"
#include "pipelines/parts_source.hpp"
#include "pipelines/stages/pixel_format.hpp"
#include "pipelines/stages/text_reader.hpp"
#include "run/component.hpp"

namespace headroom {

/// Defaults of a generation_config.json in the pipeline's folder. Published folders have none.
struct GenerationDefaults {
  std::optional<std::int64_t> steps;
  std::optional<double> guidance_scale;
  std::optional<std::int64_t> text_tokens;  ///< max_sequence_length
  std::vector<std::string> prompts;         ///< the default prompts
  std::optional<PixelFormat> pixels;        ///< for a denoiser that works on pixels
};

/// All parts of a pipeline.
struct PipelineParts {
  std::filesystem::path folder = {};       ///< of the pipeline's own files; empty for a configuration and a file
  std::string place = {};                  ///< of the pipeline, in messages
  std::vector<Component> components = {};  ///< the denoiser, then text encoders and autoencoder if present
  std::vector<TextReader> readers = {};
  nlohmann::json scheduler = {};  ///< of scheduler_config.json
  GenerationDefaults defaults = {};
  std::vector<std::string> labels = {};  ///< labels.json: the classes of images, for a judge

  /// The component of that part; null if there is none.
  [[nodiscard]] const Component* find(std::string_view part) const;
};

/// The parts for a denoiser alone, with the scheduler_config.json and generation_config.json of its folder, if
/// present. `scheduler` is the default scheduler config.
[[nodiscard]] PipelineParts parts_of(Component denoiser, nlohmann::json scheduler);

/// The parts common to all sources: the denoiser, scheduler, defaults and labels. Throws Error, like the functions
/// below, if a part is missing or broken.
[[nodiscard]] PipelineParts open_parts(const PartsSource& source, const PartNeed& denoiser);

/// The defaults of a pipeline's folder; none if it is empty.
[[nodiscard]] GenerationDefaults read_defaults(const std::filesystem::path& folder);
/// The guidance of a modular pipeline's part `guider`, if it has one: the default where generation_config.json states
/// none. Throws Error for a guider that is elsewhere, or that does anything but classifier-free guidance in all steps.
void read_guider(PipelineParts& parts, const PartsSource& source);

/// Throws Error unless the parts' scheduler is one of flow matching.
void require_flow_matching(const PipelineParts& parts);

/// Adds the part `vae`, an autoencoder of any supported class.
Autoencoder add_autoencoder(PipelineParts& parts, const PartsSource& source);
/// Likewise, for a denoiser whose tokens are 2 x 2 latents. Throws Error unless those have `token_channels`.
void add_autoencoder_of_tokens(PipelineParts& parts, const PartsSource& source, std::int64_t token_channels);

/// A text encoder, its tokenizer, and the outputs that a denoiser reads.
struct EncoderPart {
  std::string_view part;        ///< "text_encoder"
  std::string_view class_name;  ///< "CLIPTextModel"
  std::string_view tokenizer;   ///< the tokenizer's part
  std::string_view pass = "encode";
  struct Read {
    TextReading reading;
    std::int64_t width = 0;  ///< of the denoiser's input; 0 for any
  };
  std::vector<Read> readings;
  /// Reads the text tokens of the request, instead of its maximum number of positions.
  bool has_request_tokens = false;
  std::string_view before = {}, after = {};  ///< as in TextReader
  std::int64_t dropped_tokens = 0;
  bool pads = true;
  std::int64_t pad_multiple = 0;
  /// The layers whose input states its pass gives, if it chooses; below 0, from the end of the states of all layers, of
  /// which -1 is the result.
  std::vector<std::int64_t> stacked_layers = {};
};
/// Throws Error if it does not fit the denoiser.
TextReader& add_reader(PipelineParts& parts, const PartsSource& source, const EncoderPart& encoder);

/// The width of an output of a pass of a text encoder.
[[nodiscard]] std::int64_t output_width(const Component& encoder, std::string_view pass, std::string_view output);

}  // namespace headroom
