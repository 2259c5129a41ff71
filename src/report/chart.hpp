#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace headroom {

struct Scenario;

/// One chart, ready to be drawn: every output shows this option and nothing else.
struct Chart {
  std::string file;      ///< without extension: "speedup_comparison-fashion-flux-32x32-b4", see name_charts()
  std::string title;     ///< what it shows, as a sentence without a full stop
  std::string subtitle;  ///< of what work, on what machine
  std::vector<const Scenario*> of = {};  ///< the works that it draws something of
  nlohmann::json
      option;  ///< of ECharts; {"$fn": name} and {"$color": role} stand for what assets/charts.js has under it
  std::vector<std::string> notes;  ///< what a reader must know: how it was made, what is missing
  int width = 960;                 ///< of a PNG or SVG, in CSS pixels; a page takes the width it has
  int height = 480;
  std::string kind = {};  ///< "speedup_comparison"
  /// What it shows, where there are several of its kind of one work: "accuracy", or a configuration. Part of its name.
  std::string variant = {};
  /// The only work that it has results of, where `of` has others akin to it; it names the chart.
  const Scenario* shown = nullptr;
};

/// A chart of the list that could not be drawn.
struct LeftOut {
  std::string file;
  std::string reason;  ///< a sentence: which data it needs that the results do not have
};

/// What the results allow to draw of one kind of chart: charts, or the reason why there is none.
struct Drawn {
  std::vector<Chart> charts;
  std::string left_out;  ///< where there are no charts
};

}  // namespace headroom
