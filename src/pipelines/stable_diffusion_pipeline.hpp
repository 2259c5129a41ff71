#pragma once

#include <memory>

#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// Stable Diffusion (Rombach et al., 2022) 1.5, 2.1 and Turbo, and SDXL (Podell et al., 2023) and SDXL-Turbo: text to
/// image, and image to image. The pipeline of a U-Net alone.
[[nodiscard]] std::unique_ptr<Pipeline> make_stable_diffusion_pipeline(Component unet);

/// Opens the parts `unet`, `scheduler`, `text_encoder` (CLIP), `tokenizer` and `vae`; for SDXL
/// also `text_encoder_2` and `tokenizer_2`. Other parts (`safety_checker`) are not read. Throws Error if a part is
/// broken or does not fit the U-Net.
[[nodiscard]] std::unique_ptr<Pipeline> open_stable_diffusion_pipeline(const PartsSource& source);

}  // namespace headroom
