#pragma once

#include <string>

#include "report/dataset.hpp"

namespace headroom {

/// The section with a table of every measurement, which page.js sorts and filters, and the raw trials of each.
[[nodiscard]] std::string measurement_table(const Dataset& dataset);

}  // namespace headroom
