#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "media/image.hpp"
#include "pipelines/request.hpp"

/// Reference images of FLUX.2 and FLUX.3, as diffusers' Flux2ImageProcessor and Flux3ImageProcessor make them.
namespace headroom {

/// A part of an image.
struct ImageRegion {
  std::int64_t left = 0, top = 0, width = 0, height = 0;
  [[nodiscard]] bool is_empty() const { return width == 0 || height == 0; }
  friend bool operator==(const ImageRegion&, const ImageRegion&) = default;
};

/// What a pipeline encodes of given pictures, and what follows for the image that it makes if no size is asked for.
struct PreparedReferences {
  std::vector<Image> images;  ///< in whole tokens
  ImageSize output = {};      ///< {0, 0}: the pipeline's own size
  ImageRegion crop = {};      ///< of that output; the rest is cut off. Empty: all of it is kept
};

/// Where FLUX.3 puts a single picture, which it keeps whole.
struct ReferenceCanvas {
  ImageSize resized;  ///< of the picture: at most 4 megapixels on its canvas, and 4096 pixels along a side
  ImageSize canvas;   ///< that size, rounded up to multiples of 16, and at least 64 along a side
  ImageRegion box;    ///< of the picture in its canvas
};
[[nodiscard]] ReferenceCanvas flux3_canvas(const ImageSize& picture);

/// A picture of which the middle is kept.
struct ReferenceCut {
  ImageSize resized;  ///< at most 1 megapixel
  ImageSize cut;      ///< the largest multiples of 16 within
};
/// Throws a usage Error for a picture of which nothing would be left.
[[nodiscard]] ReferenceCut reference_cut(const ImageSize& picture);

/// The picture in the middle of that size, surrounded by its reflection, which does not repeat the edge unless a side
/// of the picture is at most 16 pixels.
[[nodiscard]] Image reflected_to(const Image& picture, const ImageSize& size);
/// That region of the picture, which must be within.
[[nodiscard]] Image cut_out(const Image& picture, const ImageRegion& region);

/// A single picture on its canvas, to which the output is cut back; or several, each cut, of which the first gives the
/// output its size.
[[nodiscard]] PreparedReferences prepare_flux3_references(std::span<const Image> pictures);
/// Pictures that are cut; the first gives the output its size. Throws a usage Error for one below 64 pixels along a
/// side, or longer than eight times its width.
[[nodiscard]] PreparedReferences prepare_flux2_references(std::span<const Image> pictures);

}  // namespace headroom
