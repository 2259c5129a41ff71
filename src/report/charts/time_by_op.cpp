// Where the time of a profiled request goes, op by op, over what the machine could do each in.

#include "report/charts/charts.hpp"
#include "report/plots/time_shares.hpp"

namespace headroom::charts {

Drawn time_by_op(const Dataset& dataset) { return draw_profiles(dataset, "time_by_op", "op", shares_by_op); }

}  // namespace headroom::charts
