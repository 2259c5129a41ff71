// The same, by kind of module.

#include "report/charts/charts.hpp"
#include "report/plots/time_shares.hpp"

namespace headroom::charts {

Drawn time_by_module(const Dataset& dataset) {
  return draw_profiles(dataset, "time_by_module", "module", shares_by_module);
}

}  // namespace headroom::charts
