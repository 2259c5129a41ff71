#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/chart.hpp"

namespace headroom {

/// Width of a figure in print or on a screen.
struct FigureWidth {
  double value = 0;
  std::string unit;  ///< "cm", "mm", "in" or "px" (1/96 in)

  /// Parses "8.5cm". Throws a usage Error for anything else, and for widths outside 2 cm to 1 m.
  [[nodiscard]] static FigureWidth parse(std::string_view text);
  [[nodiscard]] double pixels() const;  ///< CSS pixels, 96 per inch
};

/// Style of charts outside pages: as PNG, SVG and PDF.
struct FigureStyle {
  std::optional<FigureWidth> width = {};
  bool titles = true;  ///< title and subtitle above the chart
  bool notes = true;   ///< below the chart
};

/// Layout size of a figure, in units (text is 12 units high), and its printed scale.
struct FigureLayout {
  int width = 0;        ///< units
  int plot_height = 0;  ///< units, the chart between titles and notes
  double scale = 1;     ///< CSS pixels per unit
};

/// Without a width, a unit is a pixel. With one, a narrow figure gets a narrow layout instead of being shrunk. Its
/// text is 9 pixels (6.75 pt) high, unless it is narrower than 7.1 cm; a wide figure is enlarged.
[[nodiscard]] FigureLayout layout_of(const Chart& chart, const FigureStyle& style);

/// Pixels of a PNG per CSS pixel: 300 per inch if the width is in cm, mm or in; 1 if it is in pixels; else 2.
[[nodiscard]] double png_scale(const FigureStyle& style);

}  // namespace headroom
