#pragma once

#include <string>
#include <string_view>

#include "media/image.hpp"

/// SVG to pixels and to PDF, with librsvg and cairo. Both libraries are opened by soname at the first use, so that
/// all other functions work on a machine without them.
namespace headroom {

/// The font family of all chart text, where it can be chosen.
inline constexpr std::string_view kChartFont = "DejaVu Sans";

/// Throws Error if SVG cannot be drawn on this machine; it names the missing library and the remedy.
void require_rasterizer();

/// Draws `svg` on white, with `scale` pixels for each of its `width` times `height` units: [height*scale,
/// width*scale, 3]. Thread-safe. Throws Error if `svg` is not an SVG.
[[nodiscard]] Image rasterize(std::string_view svg, int width, int height, double scale);

/// `svg` as a PDF of one page; each of its `width` times `height` units is `scale` CSS pixels (1/96 in). Text stays
/// text, in embedded fonts. Equal arguments give equal bytes, because the PDF has no date. Thread-safe. Throws
/// Error if `svg` is not an SVG.
[[nodiscard]] std::string svg_to_pdf(std::string_view svg, int width, int height, double scale,
                                     const std::string& title);

/// Width in units of one line of `text` in a CSS font such as "bold 12px sans-serif". Only size and weight are
/// used.
[[nodiscard]] double text_width(std::string_view text, std::string_view css_font);

}  // namespace headroom
