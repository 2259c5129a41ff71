// Time of a profiled request by kind of module, over the floor of each.

#include "report/charts/charts.hpp"
#include "report/plots/time_shares.hpp"

namespace headroom::charts {

Drawn time_by_module(const Dataset& dataset) {
  return draw_profiles(dataset, "time_by_module", "module", shares_by_module);
}

}  // namespace headroom::charts
