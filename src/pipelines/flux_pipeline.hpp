#pragma once

#include <memory>

#include "pipelines/parts_source.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// FLUX.1 (Black Forest Labs, 2024): dev, schnell, Kontext, and transformers that work on pixels. The pipeline of a
/// transformer alone.
[[nodiscard]] std::unique_ptr<Pipeline> make_flux_pipeline(Component transformer);

/// Opens the parts `transformer`, `scheduler`, `text_encoder` (CLIP) and `tokenizer`,
/// `text_encoder_2` (T5) and `tokenizer_2`, and `vae` unless it works on pixels. Throws Error if a part is broken or
/// does not fit the transformer.
[[nodiscard]] std::unique_ptr<Pipeline> open_flux_pipeline(const PartsSource& source);

}  // namespace headroom
