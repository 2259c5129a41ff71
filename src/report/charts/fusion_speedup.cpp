// What `fuse` gains on top of each configuration that was measured both with and without it.

#include "report/charts/charts.hpp"
#include "report/switch_pairs.hpp"

namespace headroom::charts {

Drawn fusion_speedup(const Dataset& dataset) {
  return {.charts = compare_switch(dataset, "fuse", "fusion_speedup", "What fusing kernels does to time"),
          .left_out = "no configuration was measured both with and without the switch fuse"};
}

}  // namespace headroom::charts
