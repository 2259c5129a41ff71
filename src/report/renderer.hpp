#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "report/chart.hpp"
#include "report/script_engine.hpp"

namespace headroom {

/// Draws charts without a browser: the chart library runs in a ScriptEngine and makes SVG. Loading takes a quarter of a
/// second, so one renderer draws all charts. Throws Error where librsvg or cairo, which measure text, are missing.
class ChartRenderer {
 public:
  ChartRenderer();

  /// The chart with its title above and its notes below, on white: a document of its own.
  [[nodiscard]] std::string to_svg(const Chart& chart);

 private:
  ScriptEngine engine_;
};

/// What an SVG document measures, in its own units.
struct SvgSize {
  int width = 0;
  int height = 0;
};
[[nodiscard]] SvgSize size_of_svg(std::string_view svg);

/// Writes each SVG as PNG, at two pixels a unit, on several threads.
void write_pngs(std::span<const std::pair<std::filesystem::path, std::string>> svgs);

}  // namespace headroom
