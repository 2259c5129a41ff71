#pragma once

#include <string>
#include <string_view>

#include "report/chart.hpp"
#include "report/render/figure_style.hpp"
#include "report/render/script_engine.hpp"

namespace headroom {

/// Draws charts without a browser: the chart library runs in a ScriptEngine and makes SVG. Loading takes a quarter of a
/// second, so a renderer is to draw many charts; what it draws does not depend on those before. One thread at a time.
/// Throws Error where librsvg or cairo, which measure text, are missing.
class ChartRenderer {
 public:
  ChartRenderer();

  /// The chart with its title above and its notes below, as far as `style` asks for them, on white: a document of its
  /// own.
  [[nodiscard]] std::string to_svg(const Chart& chart, const FigureStyle& style = {});

 private:
  ScriptEngine engine_;
};

/// What an SVG document of a chart measures, in units of its viewBox.
struct SvgSize {
  int width = 0;
  int height = 0;
};
[[nodiscard]] SvgSize size_of_svg(std::string_view svg);

}  // namespace headroom
