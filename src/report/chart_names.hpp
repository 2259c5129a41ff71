#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "report/chart.hpp"

/// File names of charts. A name describes the work of the chart, so that it does not change when another result is
/// added: "speedup_comparison-fashion-flux-32x32-b4-28steps". Names come from untrusted text. They hold only
/// lowercase ASCII letters, digits, "-" and "_".
namespace headroom {

/// Reduces `text` to those characters. A run of any others becomes one "-", with none at either end. What is longer
/// than `most` (at least 16) loses whole words at its end and gets six digits that identify it instead, so that two
/// texts with the same beginning differ. May be empty.
[[nodiscard]] std::string file_slug(std::string_view text, std::size_t most = 48);

/// Gives each chart its name: the kind, the parts that all works of the chart share, the variant, and the GPU if it
/// ran on one. The parts are model, size, batch ("b4"), steps and pass. If several charts would get one name, the
/// one with the earliest results keeps it, and six digits of identity are appended to the others.
void name_charts(std::vector<Chart>& charts);

/// Whether a file of this name, without extension, could be a chart of some report: "speedup_comparison-...".
[[nodiscard]] bool may_be_chart_name(std::string_view name);
/// Whether it is a chart of an older report, which numbered charts: "speedup_comparison", "speedup_comparison-2".
[[nodiscard]] bool is_numbered_chart_name(std::string_view name);

}  // namespace headroom
