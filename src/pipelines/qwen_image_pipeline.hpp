#pragma once

#include <memory>

#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// Qwen-Image (Wu et al., "Qwen-Image technical report", 2025). The pipeline of a transformer alone.
[[nodiscard]] std::unique_ptr<Pipeline> make_qwen_image_pipeline(Component transformer);

/// Opens the parts `transformer`, `scheduler`, `text_encoder` (the language half of Qwen2.5-VL)
/// and `tokenizer`, and `vae`. Throws Error if a part is broken or does not fit the transformer.
[[nodiscard]] std::unique_ptr<Pipeline> open_qwen_image_pipeline(const PartsSource& source);

}  // namespace headroom
