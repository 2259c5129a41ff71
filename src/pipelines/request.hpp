#pragma once

#include <cstdint>

#include "base/switches.hpp"

namespace headroom {

/// What a request is asked for with; what is 0 is left to the pipeline.
struct RequestOptions {
  std::int64_t images = 1;  ///< made by one generation
  std::int64_t token_rows = 0;
  std::int64_t token_columns = 0;
  std::int64_t text_tokens = 0;
  std::int64_t steps = 0;  ///< the switch steps=N overrides it
  double guidance_scale = 0;
  SwitchSet switches;
  bool drops_other_weights = false;  ///< frees what the store holds and this request does not use, before it loads
  bool suggests_what_fits = true;    ///< in the error where it does not fit, which takes time
};

/// A request with nothing left open: how many images, how large, in how many steps, guided how.
struct Request {
  std::int64_t images = 1;
  std::int64_t token_rows = 64;  ///< image tokens down; an image has token_rows * token_columns of them
  std::int64_t token_columns = 64;
  std::int64_t text_tokens = 512;
  std::int64_t steps = 28;
  double guidance_scale = 1;
  /// Two passes a step, unguided and guided, as one batch of twice the images (Ho and Salimans, "Classifier-Free
  /// Diffusion Guidance", 2022).
  bool classifier_free_guidance = false;

  [[nodiscard]] std::int64_t image_tokens() const { return token_rows * token_columns; }
  /// Batch of a forward pass.
  [[nodiscard]] std::int64_t batch() const { return classifier_free_guidance ? 2 * images : images; }
};

/// One image to make: a label of the pipeline's prompts (or, where it has none, the number of a random prompt), and the
/// seed of its noise.
struct ImageRequest {
  std::int64_t label = 0;
  std::uint64_t seed = 0;
};

}  // namespace headroom
