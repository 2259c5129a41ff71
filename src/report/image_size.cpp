#include "report/image_size.hpp"

#include <cmath>

#include "report/work.hpp"

namespace headroom {

namespace {

constexpr double kLongestSide = 1e6;  // pixels; limits untrusted values

std::optional<ImageSize> make_size(const std::optional<double>& width, const std::optional<double>& height,
                                   double side) {
  if (!width || !height) return {};
  const double wide = *width * side, high = *height * side;
  if (!(wide >= 1 && wide <= kLongestSide && high >= 1 && high <= kLongestSide)) return {};
  return ImageSize{.height = std::llround(high), .width = std::llround(wide)};
}

}  // namespace

std::optional<ImageSize> image_size_of(const Subject& subject) {
  const auto number = [&](const char* key) { return request_number(subject, key); };
  if (const auto size = make_size(number("width"), number("height"), 1)) return size;
  if (!subject.token_pixels) return {};
  return make_size(number("token_columns"), number("token_rows"), static_cast<double>(*subject.token_pixels));
}

std::optional<double> pixels_of(const Subject& subject) {
  if (const std::optional<ImageSize> size = image_size_of(subject))
    return static_cast<double>(size->height) * static_cast<double>(size->width);
  const std::optional<double> tokens = request_number(subject, "image_tokens");
  if (!tokens || !subject.token_pixels) return {};
  const auto side = static_cast<double>(*subject.token_pixels);
  const double pixels = *tokens * side * side;
  return pixels >= 1 && pixels <= kLongestSide * kLongestSide ? std::optional(pixels) : std::nullopt;
}

}  // namespace headroom
