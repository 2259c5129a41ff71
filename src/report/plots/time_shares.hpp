#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/chart.hpp"
#include "report/dataset.hpp"
#include "report/view.hpp"

/// The distribution of a profiled request's time, with the floor of each part on this machine.
namespace headroom {

/// The time of one op, one kind of module, or one stage.
struct TimeShare {
  std::string name;
  double ms = 0;  ///< in one request
  std::optional<double> floor_ms = {};
  std::size_t launches = 0;
};

/// Shares of a result with a profile, the largest first. A module is its path without layer numbers, at most four
/// names: "transformer_blocks.*.attn.to_q".
[[nodiscard]] std::vector<TimeShare> shares_by_op(const Measurement& profiled);
[[nodiscard]] std::vector<TimeShare> shares_by_module(const Measurement& profiled);

/// A chart of every profile: bars over their floors.
[[nodiscard]] Drawn draw_profiles(const Dataset& dataset, const std::string& file, const std::string& what,
                                  std::vector<TimeShare> (*shares_of)(const Measurement& profiled));

/// A sentence about where the remaining time of `deployed` goes. It uses a profile of the same precisions and
/// caches, or the configuration's stages, and names its source. The profile may be of another number of steps or
/// images. Empty if nothing was measured.
[[nodiscard]] std::string where_time_goes(const Dataset& dataset, const View& view, const Measurement& deployed);

}  // namespace headroom
