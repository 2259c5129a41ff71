#include "pipelines/given_pictures.hpp"

#include <fmt/format.h>

#include <vector>

#include "base/error.hpp"
#include "media/resize.hpp"

namespace headroom {
namespace {

std::int64_t tokens_of_side(const Pipeline& pipeline, std::string_view prefix, std::string_view side,
                            std::int64_t pixels) {
  return tokens_along(pipeline, fmt::format("{}{}", prefix, side), pixels);
}

}  // namespace

void set_size(const Pipeline& pipeline, const ImageSize& asked, std::string_view prefix, RequestOptions& options) {
  if (asked == ImageSize{}) return;
  const Request own = pipeline.resolve({.switches = options.switches});
  const std::int64_t side = pipeline.token_pixels();
  const ImageSize whole{.height = asked.height != 0 ? asked.height : own.token_rows * side,
                        .width = asked.width != 0 ? asked.width : own.token_columns * side};
  const ImageSize size = pipeline.output_size(whole);
  options.token_rows = tokens_of_side(pipeline, prefix, "height", size.height);
  options.token_columns = tokens_of_side(pipeline, prefix, "width", size.width);
}

void check_pictures(const Pipeline& pipeline, std::size_t count, std::string_view prefix) {
  if (pipeline.image_use() == ImageUse::kNone)
    fail_usage("{} edits no images: {}image is for a model that does", pipeline.name(), prefix);
  if (count > pipeline.most_references())
    fail_usage("{}image is given {} times, expected at most {} for {}", prefix, count, pipeline.most_references(),
               pipeline.name());
}

GivenPictures prepare_pictures(const Pipeline& pipeline, std::span<const Image> pictures, const ImageSize& asked,
                               std::string_view prefix) {
  check_pictures(pipeline, pictures.size(), prefix);
  GivenPictures given;
  if (pipeline.image_use() == ImageUse::kStart) {
    const Image& picture = pictures.front();
    ImageSize size = pipeline.reference_size({.height = picture.height, .width = picture.width});
    if (asked.height != 0) size.height = asked.height;
    if (asked.width != 0) size.width = asked.width;
    given.prepared.images = {resize_lanczos(picture, static_cast<int>(size.width), static_cast<int>(size.height))};
  } else {
    given.prepared = pipeline.prepare_references(pictures);
  }
  for (const Image& image : given.prepared.images)
    given.sizes.push_back({tokens_of_side(pipeline, prefix, "height", image.height),
                           tokens_of_side(pipeline, prefix, "width", image.width)});
  return given;
}

ImageRegion set_sizes(const Pipeline& pipeline, const GivenPictures& given, const ImageSize& asked,
                      std::string_view prefix, RequestOptions& options) {
  options.references = given.sizes;
  if (pipeline.image_use() == ImageUse::kStart) return {};  // the image to make has the picture's size
  const bool is_open = asked == ImageSize{};
  set_size(pipeline, is_open ? given.prepared.output : asked, prefix, options);
  return is_open ? given.prepared.crop : ImageRegion{};
}

}  // namespace headroom
