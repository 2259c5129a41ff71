#pragma once

#include <string>
#include <string_view>

#include "media/image.hpp"

/// SVG to pixels and to PDF, by librsvg and cairo. Both are opened by their soname at the first use, so that a machine
/// without them can do all else.
namespace headroom {

/// The family that every text of a chart is drawn in, where there is a choice.
inline constexpr std::string_view kChartFont = "DejaVu Sans";

/// Throws Error, naming the library that is missing and what to do, where SVG cannot be drawn on this machine.
void require_rasterizer();

/// `svg` on white, drawn at `scale` pixels for each of its `width` times `height` units: [height*scale, width*scale,
/// 3]. Several threads may call it at once. Throws Error where `svg` is no SVG.
[[nodiscard]] Image rasterize(std::string_view svg, int width, int height, double scale);

/// `svg` as a PDF of one page, whose `width` times `height` units are `scale` CSS pixels (1/96 in) each; texts are
/// texts, in fonts that are part of it. Equal arguments give equal bytes: it has no date. Several threads may call it at once.
/// Throws Error where `svg` is no SVG.
[[nodiscard]] std::string svg_to_pdf(std::string_view svg, int width, int height, double scale,
                                     const std::string& title);

/// Width in units of one line of `text` in a CSS font such as "bold 12px sans-serif", of which size and weight count.
[[nodiscard]] double text_width(std::string_view text, std::string_view css_font);

}  // namespace headroom
