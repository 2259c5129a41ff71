#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headroom {

struct Scenario;

/// One chart, ready to be drawn. Every output format draws this option and nothing else.
struct Chart {
  std::string file;      ///< without extension: "speedup_comparison-fashion-flux-32x32-b4", see name_charts()
  std::string title;     ///< content of the chart, as a sentence without a full stop
  std::string subtitle;  ///< the work and the machine
  std::vector<const Scenario*> of = {};  ///< the works that the chart draws
  nlohmann::json
      option;  ///< an ECharts option; {"$fn": name} and {"$color": role} refer to entries of assets/charts.js
  std::vector<std::string> notes;  ///< facts for the reader: how it was made, what is missing
  int width = 960;                 ///< of a PNG or SVG, in CSS pixels; a page uses its own width
  int height = 480;
  std::string kind = {};  ///< "speedup_comparison"
  /// Tells charts of one kind and work apart: "accuracy", or a configuration. Part of the name.
  std::string variant = {};
  /// The only work whose results are drawn, if `of` also lists related works. It names the chart.
  const Scenario* shown = nullptr;
};

/// A chart of the list that could not be drawn.
struct LeftOut {
  std::string file;
  std::string reason;  ///< a sentence: the required data that the results lack
};

/// The charts of one kind that the results allow, or the reason why there is none.
struct Drawn {
  std::vector<Chart> charts;
  std::string left_out;  ///< the reason, if there are no charts
};

}  // namespace headroom
