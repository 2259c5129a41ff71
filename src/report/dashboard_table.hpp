#pragma once

#include <string>
#include <vector>

#include "report/dataset.hpp"
#include "report/view.hpp"

namespace headroom {

/// A table of every measurement, of which a page shows those of one of `views`, with their raw trials.
[[nodiscard]] std::string measurement_table(const Dataset& dataset, const std::vector<View>& views);

}  // namespace headroom
