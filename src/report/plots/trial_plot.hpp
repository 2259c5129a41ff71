#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "report/dataset.hpp"

namespace headroom {

/// Trials of a series in the order they ran, drawn over those of an earlier measurement. Without data it is a
/// template that a page fills with any series (assets/page.js).
[[nodiscard]] nlohmann::json trial_plot(std::string_view what, const std::vector<double>& trials_ms,
                                        const std::vector<double>& base_ms);

/// The previous measurement of the same configuration and work; null for the first.
[[nodiscard]] const Measurement* measured_before(const Scenario& scenario, const Measurement& m);

}  // namespace headroom
