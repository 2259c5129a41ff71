#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/chart.hpp"

namespace headroom {

/// How wide a figure is printed or shown.
struct FigureWidth {
  double value = 0;
  std::string unit;  ///< "cm", "mm", "in" or "px" (1/96 in)

  /// Reads "8.5cm". Throws a usage Error for anything else, and beyond 2 cm to 1 m.
  [[nodiscard]] static FigureWidth parse(std::string_view text);
  [[nodiscard]] double pixels() const;  ///< CSS pixels, 96 an inch
};

/// How charts are drawn outside pages: as PNG, SVG and PDF.
struct FigureStyle {
  std::optional<FigureWidth> width = {};
  bool titles = true;  ///< title and subtitle above
  bool notes = true;   ///< below
};

/// How large a figure is laid out, in units of which a text has 12, and printed.
struct FigureLayout {
  int width = 0;        ///< units
  int plot_height = 0;  ///< units, of the chart between titles and notes
  double scale = 1;     ///< CSS pixels a unit
};

/// Without a width a unit is a pixel. With one, a narrow figure is laid out narrow, instead of shrunk: its texts are 9
/// pixels (6.75 pt) high, unless it is narrower than 7.1 cm, and a wide one is enlarged.
[[nodiscard]] FigureLayout layout_of(const Chart& chart, const FigureStyle& style);

/// Pixels of a PNG for each CSS pixel: 300 an inch where the width is in cm, mm or in, one where it is in pixels, else 2.
[[nodiscard]] double png_scale(const FigureStyle& style);

}  // namespace headroom
