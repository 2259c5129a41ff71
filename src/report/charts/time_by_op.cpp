// Time of a profiled request by op, over the floor of each.

#include "report/charts/charts.hpp"
#include "report/plots/time_shares.hpp"

namespace headroom::charts {

Drawn time_by_op(const Dataset& dataset) { return draw_profiles(dataset, "time_by_op", "op", shares_by_op); }

}  // namespace headroom::charts
