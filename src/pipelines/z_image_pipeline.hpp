#pragma once

#include <memory>

#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// Z-Image and Z-Image-Turbo (Tongyi-MAI, 2025). The pipeline of a transformer alone, which has Turbo's scheduler.
[[nodiscard]] std::unique_ptr<Pipeline> make_z_image_pipeline(Component transformer);

/// Opens the parts `transformer`, `scheduler`, `text_encoder` (Qwen3) and `tokenizer`, and `vae`. Throws Error if a
/// part is broken or does not fit the transformer.
[[nodiscard]] std::unique_ptr<Pipeline> open_z_image_pipeline(const PartsSource& source);

}  // namespace headroom
