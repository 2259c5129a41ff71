#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "pipelines/model_index.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// Stable Diffusion (Rombach et al., 2022) 1.5, 2.1 and Turbo, and SDXL (Podell et al., 2023) and SDXL-Turbo: text to
/// image, and image to image. The pipeline of a U-Net alone.
[[nodiscard]] std::unique_ptr<Pipeline> make_stable_diffusion_pipeline(Component unet);

/// Opens a folder in diffusers' layout: `unet`, `scheduler`, `text_encoder` (CLIP), `tokenizer` and `vae`; for SDXL
/// also `text_encoder_2` and `tokenizer_2`. Other parts (`safety_checker`) are not read. Throws Error if a part is
/// missing, broken, or does not fit the U-Net.
[[nodiscard]] std::unique_ptr<Pipeline> open_stable_diffusion_pipeline(const ModelIndex& index,
                                                                       std::optional<std::uint64_t> random_seed);

}  // namespace headroom
