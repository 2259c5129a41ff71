#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.hpp"

/// Names of charts' files. They carry what a chart is of, so that a chart keeps its name when another result is added:
/// "speedup_comparison-fashion-flux-32x32-b4-28steps". They come from strangers' texts and hold nothing but lowercase
/// letters of ASCII, digits, "-" and "_".
namespace headroom {

/// `text` in those characters, of at most `most`: runs of all others become one "-", none at an end. May be empty.
[[nodiscard]] std::string file_slug(std::string_view text, std::size_t most = 48);

/// Gives each chart its name: kind, then as far as all works of the chart share them model, size, batch ("b4"), steps and
/// pass, then its variant, and the GPU where it ran on one. Of several charts that would have one name, that of the
/// earliest results keeps it, and the others have six digits of their identity behind it.
void name_charts(std::vector<Chart>& charts);

/// Whether a file of this name, without extension, could be a chart of some report: "speedup_comparison-...".
[[nodiscard]] bool may_be_chart_name(std::string_view name);
/// Whether it is one of reports that numbered charts: "speedup_comparison", "speedup_comparison-2".
[[nodiscard]] bool is_numbered_chart_name(std::string_view name);

}  // namespace headroom
