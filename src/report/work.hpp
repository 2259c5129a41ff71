#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "measure/results/result.hpp"

/// What was asked for, in the words of those who ask.
namespace headroom {

/// "flux-dev, 512x512, 2 images at once, 10 steps": the size of images is in pixels where the subject tells that of its tokens,
/// else in image tokens. A kernel is its name.
[[nodiscard]] std::string describe_work(const Subject& subject);
/// What else the request says: "32x32 image tokens, 512 text tokens, guidance 3.5". May be empty.
[[nodiscard]] std::string describe_details(const Subject& subject);

/// The size of a request's images: "512x512" in pixels where they are known, else "32x32 tokens" or "1024 tokens"; empty
/// where it has none.
[[nodiscard]] std::string describe_size(const Subject& subject);
/// Whether that is in pixels.
[[nodiscard]] bool is_size_in_pixels(const Subject& subject);

/// The day of a time such as "2026-11-21T20:46:38Z".
[[nodiscard]] std::string day_of(const std::string& created);

/// A request's number under `key`; nothing where it has none.
[[nodiscard]] std::optional<double> request_number(const Subject& subject, const std::string& key);
/// Images made at once: "images", or the "batch" of a forward pass.
[[nodiscard]] std::optional<double> batch_of(const Subject& subject);
/// Image tokens of a request: "image_tokens", or rows times columns.
[[nodiscard]] std::optional<double> image_tokens_of(const Subject& subject);
/// What sizes of images are ordered by: image tokens, or the area of a request that has none.
[[nodiscard]] std::optional<double> image_area_of(const Subject& subject);

/// How many pixels wide an image token of each model is. Results of peers and of forward passes do not say so, and old ones say it
/// nowhere: then another result of the model does, or the models that this program knows (`headroom models`).
class TokenSizes {
 public:
  explicit TokenSizes(const std::deque<std::pair<std::string, ResultFile>>& files);
  [[nodiscard]] std::optional<std::int64_t> of(const Subject& subject);

 private:
  std::map<std::string, std::optional<std::int64_t>> by_name_;
  std::map<std::string, std::int64_t> parameters_;  ///< by name
};

}  // namespace headroom
