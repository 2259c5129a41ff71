#include "pipelines/stages/reference_images.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/tensors/divide_up.hpp"
#include "media/resize.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kTokenPixels = 16;
constexpr double kMegapixel = 1024.0 * 1024.0;

std::int64_t area_of(const ImageSize& size) { return size.height * size.width; }

Image resized_to(const Image& picture, const ImageSize& size) {
  if (picture.height == size.height && picture.width == size.width) return picture;
  return resize_lanczos(picture, static_cast<int>(size.width), static_cast<int>(size.height));
}

ImageSize size_of(const Image& picture) { return {.height = picture.height, .width = picture.width}; }

/// The region of that size in the middle.
ImageRegion middle(const ImageSize& of, const ImageSize& size) {
  return {.left = (of.width - size.width) / 2,
          .top = (of.height - size.height) / 2,
          .width = size.width,
          .height = size.height};
}

/// The place in `size` pixels that lies at `place` before, within or behind them in their reflection.
std::int64_t reflected(std::int64_t place, std::int64_t size, bool repeats_edge) {
  if (size == 1) return 0;
  const std::int64_t period = repeats_edge ? 2 * size : 2 * (size - 1);
  const std::int64_t within = ((place % period) + period) % period;
  return within < size ? within : period - within - (repeats_edge ? 1 : 0);
}

PreparedReferences cut_references(std::span<const Image> pictures) {
  PreparedReferences prepared;
  for (const Image& picture : pictures) {
    const ReferenceCut cut = reference_cut(size_of(picture));
    prepared.images.push_back(cut_out(resized_to(picture, cut.resized), middle(cut.resized, cut.cut)));
  }
  prepared.output = size_of(prepared.images.front());
  return prepared;
}

}  // namespace

ReferenceCanvas flux3_canvas(const ImageSize& picture) {
  constexpr double kMostArea = 4 * kMegapixel;
  static constexpr std::int64_t kMostSide = 4096, kLeastSide = 64;
  const auto canvas_side = [](std::int64_t side) {
    return std::min(kMostSide, std::max(kLeastSide, round_up(side, kTokenPixels)));
  };
  double scale =
      std::min({1.0, std::sqrt(kMostArea / static_cast<double>(area_of(picture))),
                static_cast<double>(kMostSide) / static_cast<double>(std::max(picture.height, picture.width))});
  while (true) {
    const auto along = [&](std::int64_t side) {  // rounds half to even, like Python
      return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::nearbyint(static_cast<double>(side) * scale)));
    };
    const ImageSize resized{.height = along(picture.height), .width = along(picture.width)};
    const ImageSize canvas{.height = canvas_side(resized.height), .width = canvas_side(resized.width)};
    if (static_cast<double>(area_of(canvas)) <= kMostArea)
      return {.resized = resized, .canvas = canvas, .box = middle(canvas, resized)};
    scale *= 0.995;
  }
}

ReferenceCut reference_cut(const ImageSize& picture) {
  ImageSize resized = picture;
  if (static_cast<double>(area_of(picture)) > kMegapixel) {
    const double scale = std::sqrt(kMegapixel / static_cast<double>(area_of(picture)));
    const auto along = [&](std::int64_t side) { return static_cast<std::int64_t>(static_cast<double>(side) * scale); };
    resized = {.height = along(picture.height), .width = along(picture.width)};
  }
  const ImageSize cut{.height = resized.height / kTokenPixels * kTokenPixels,
                      .width = resized.width / kTokenPixels * kTokenPixels};
  if (area_of(cut) == 0)
    fail_usage("a reference image is {} x {} pixels, expected at least {} along each side of at most a megapixel",
               picture.width, picture.height, kTokenPixels);
  return {.resized = resized, .cut = cut};
}

Image reflected_to(const Image& picture, const ImageSize& size) {
  const bool repeats_edge = std::min(picture.width, picture.height) <= kTokenPixels;
  const ImageRegion box = middle(size, size_of(picture));
  Image made = make_image(static_cast<int>(size.width), static_cast<int>(size.height), picture.channels);
  const auto channels = static_cast<std::size_t>(picture.channels);
  for (std::int64_t y = 0; y < size.height; ++y)
    for (std::int64_t x = 0; x < size.width; ++x) {
      const std::int64_t from = reflected(y - box.top, picture.height, repeats_edge) * picture.width +
                                reflected(x - box.left, picture.width, repeats_edge);
      std::copy_n(
          picture.pixels.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(from) * channels), channels,
          made.pixels.begin() + static_cast<std::ptrdiff_t>(static_cast<std::size_t>(y * size.width + x) * channels));
    }
  return made;
}

Image cut_out(const Image& picture, const ImageRegion& region) {
  HR_CHECK(region.left >= 0 && region.top >= 0 && region.left + region.width <= picture.width &&
           region.top + region.height <= picture.height);
  Image made = make_image(static_cast<int>(region.width), static_cast<int>(region.height), picture.channels);
  for (std::int64_t y = 0; y < region.height; ++y) {
    const std::int64_t from = ((region.top + y) * picture.width + region.left) * picture.channels;
    std::copy_n(picture.pixels.begin() + from, region.width * picture.channels,
                made.pixels.begin() + y * region.width * picture.channels);
  }
  return made;
}

PreparedReferences prepare_flux3_references(std::span<const Image> pictures) {
  if (pictures.size() != 1) return cut_references(pictures);
  const ReferenceCanvas canvas = flux3_canvas(size_of(pictures.front()));
  return {.images = {reflected_to(resized_to(pictures.front(), canvas.resized), canvas.canvas)},
          .output = canvas.canvas,
          .crop = canvas.box};
}

PreparedReferences prepare_flux2_references(std::span<const Image> pictures) {
  constexpr int kLeastSide = 64, kMostAspect = 8;
  for (const Image& picture : pictures) {
    const int shorter = std::min(picture.width, picture.height), longer = std::max(picture.width, picture.height);
    if (shorter < kLeastSide || longer > kMostAspect * shorter)
      fail_usage("a reference image is {} x {} pixels, expected at least {} along each side, and sides of at most {}:1",
                 picture.width, picture.height, kLeastSide, kMostAspect);
  }
  return cut_references(pictures);
}

}  // namespace headroom
