#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "report/advice/deploy.hpp"

namespace headroom {

/// What to deploy for a view, as the dashboard opens with it: the configuration, its time, memory, quality and cost, its images beside the
/// baseline's, what would be faster and why it is not taken, where the time goes that is left, and the order in which to adopt switches.
[[nodiscard]] std::string decision_html(const Dataset& dataset, const View& view, const Decision& decision,
                                        double max_quality_loss);
/// A row of the table of all views, of which each is numbered from 1.
[[nodiscard]] std::string decision_row(const Dataset& dataset, const View& view, std::size_t number,
                                       const Decision& decision);

/// A table that is as wide as its text needs; `head` and `rows` are HTML.
[[nodiscard]] std::string scrolled_table(std::string_view label, std::string_view head, std::string_view rows);

}  // namespace headroom
