#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "media/image.hpp"
#include "pipelines/pipeline.hpp"
#include "pipelines/request.hpp"

namespace headroom {

/// Sets the size of the image to make. A side that is 0 is the pipeline's own; without both nothing is set. Messages
/// name the sides with `prefix` before "height" and "width". Throws a usage Error for sides that do not divide into
/// tokens.
void set_size(const Pipeline& pipeline, const ImageSize& asked, std::string_view prefix, RequestOptions& options);

/// Pictures of a request as its pipeline encodes them: of one that starts from a picture scaled to the asked size,
/// and of one that edits pictures by Pipeline::prepare_references().
struct GivenPictures {
  PreparedReferences prepared;  ///< its crop and output only matter where no size is asked for
  std::vector<TokenSize> sizes;
};
/// Throws a usage Error if the pipeline does not take so many pictures.
void check_pictures(const Pipeline& pipeline, std::size_t count, std::string_view prefix);
/// Throws as check_pictures() does.
[[nodiscard]] GivenPictures prepare_pictures(const Pipeline& pipeline, std::span<const Image> pictures,
                                             const ImageSize& asked, std::string_view prefix);

/// Sets the sizes of the pictures and of the image to make. Returns the region of it to keep; empty: all of it.
ImageRegion set_sizes(const Pipeline& pipeline, const GivenPictures& given, const ImageSize& asked,
                      std::string_view prefix, RequestOptions& options);

}  // namespace headroom
