#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/advice/deploy.hpp"

namespace headroom {

/// The recommendation for a view, at the top of the dashboard: the configuration, its time, memory, quality and
/// cost. It is followed by its images next to the baseline's, faster configurations and why they are not taken,
/// where the remaining time goes, and the order in which to adopt switches.
[[nodiscard]] std::string decision_html(const Dataset& dataset, const View& view, const Decision& decision,
                                        double max_quality_loss);
/// A row of the table of all views. Views are numbered from 1.
[[nodiscard]] std::string decision_row(const Dataset& dataset, const View& view, std::size_t number,
                                       const Decision& decision);

/// A table that is as wide as its text needs; `head` and `rows` are HTML.
[[nodiscard]] std::string scrolled_table(std::string_view label, std::string_view head, std::string_view rows);

}  // namespace headroom
