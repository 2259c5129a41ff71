#pragma once

#include <string>
#include <vector>

#include "report/dataset.hpp"
#include "report/view.hpp"

namespace headroom {

/// A table of every measurement with its raw trials. A page shows the rows of one of `views`.
[[nodiscard]] std::string measurement_table(const Dataset& dataset, const std::vector<View>& views);

}  // namespace headroom
