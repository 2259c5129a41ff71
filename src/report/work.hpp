#pragma once

#include <optional>
#include <string>

#include "measure/results/result.hpp"
#include "measure/suites/token_sizes.hpp"

/// Requested work, in the user's words.
namespace headroom {

/// "flux-dev, 512x512, 2 images at once, 10 steps". The image size is in pixels if the subject gives the pixels of
/// a token, else in image tokens. A kernel is described by its name.
[[nodiscard]] std::string describe_work(const Subject& subject);
/// The rest of the request: "32x32 image tokens, 512 text tokens, guidance 3.5". May be empty.
[[nodiscard]] std::string describe_details(const Subject& subject);

/// The image size of a request: "512x512" in pixels if known, else "32x32 tokens" or "1024 tokens"; empty if it has
/// none.
[[nodiscard]] std::string describe_size(const Subject& subject);
/// Whether describe_size() is in pixels.
[[nodiscard]] bool is_size_in_pixels(const Subject& subject);

/// The date of a timestamp such as "2026-11-21T20:46:38Z".
[[nodiscard]] std::string day_of(const std::string& created);

/// Images per batch: "images", or the "batch" of a forward pass.
[[nodiscard]] std::optional<double> batch_of(const Subject& subject);
/// The sort key of image sizes: image tokens, or the area of a request without tokens.
[[nodiscard]] std::optional<double> image_area_of(const Subject& subject);

}  // namespace headroom
