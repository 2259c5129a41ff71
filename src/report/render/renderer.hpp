#pragma once

#include <string>
#include <string_view>

#include "report/chart.hpp"
#include "report/render/figure_style.hpp"
#include "report/render/script_engine.hpp"

namespace headroom {

/// Draws charts without a browser: the chart library runs in a ScriptEngine and produces SVG. Loading takes a
/// quarter of a second, so reuse a renderer for many charts; its output does not depend on earlier charts. Not
/// thread-safe. Throws Error if librsvg or cairo, which measure text, are missing.
class ChartRenderer {
 public:
  ChartRenderer();

  /// The chart on white as a document of its own, with the title above and the notes below if `style` asks for
  /// them.
  [[nodiscard]] std::string to_svg(const Chart& chart, const FigureStyle& style = {});

 private:
  ScriptEngine engine_;
};

/// Size of an SVG document of a chart, in units of its viewBox.
struct SvgSize {
  int width = 0;
  int height = 0;
};
[[nodiscard]] SvgSize size_of_svg(std::string_view svg);

}  // namespace headroom
