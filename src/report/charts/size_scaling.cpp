// Time against the parameter count of the model, the request being equal.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {

Drawn size_scaling(const Dataset& dataset) {
  (void)dataset;
  return {.charts = {}, .left_out = "no result says how many parameters its model has"};
}

}  // namespace headroom::charts
