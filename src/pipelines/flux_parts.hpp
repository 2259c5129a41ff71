#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "pipelines/model_index.hpp"
#include "pipelines/pixel_format.hpp"
#include "pipelines/text_reader.hpp"
#include "run/component.hpp"

namespace headroom {

/// What a generation_config.json beside a pipeline says where a request leaves it open. FLUX.1's folders have none.
struct FluxDefaults {
  std::optional<std::int64_t> steps;
  std::optional<double> guidance_scale;
  std::optional<std::int64_t> text_tokens;  ///< max_sequence_length
  std::vector<std::string> prompts;         ///< that it draws where nobody says
  std::optional<PixelFormat> pixels;        ///< of a transformer that works on pixels
};

/// All that a FLUX pipeline is made of.
struct FluxParts {
  std::filesystem::path folder;       ///< empty for a configuration alone
  std::vector<Component> components;  ///< the transformer, then those there are of text encoders and autoencoder
  std::vector<TextReader> readers;
  nlohmann::json
      scheduler;  ///< of scheduler_config.json, of a scheduler of flow matching; without that as FLUX.1-dev's
  FluxDefaults defaults;
  std::vector<std::string> labels;  ///< labels.json: what images show, for a judge
  bool is_kontext = false;          ///< FLUX.1-Kontext, which edits an image
};

/// A transformer alone, with what of scheduler_config.json and generation_config.json lies beside its config.json.
[[nodiscard]] FluxParts flux_parts_of(Component transformer);

/// A folder as diffusers lays it out: `transformer`, `scheduler`, `text_encoder` (CLIP) and `tokenizer`,
/// `text_encoder_2` (T5) and `tokenizer_2`, and `vae` unless it works on pixels. Throws Error where a part is missing,
/// broken, or does not fit the transformer.
[[nodiscard]] FluxParts open_flux_parts(const ModelIndex& index, std::optional<std::uint64_t> random_seed);

}  // namespace headroom
