#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/chart.hpp"
#include "report/dataset.hpp"
#include "report/view.hpp"

/// Where the time of a profiled request goes, and the least that the machine could do each part in.
namespace headroom {

/// What goes to one op, one kind of module, or one stage.
struct TimeShare {
  std::string name;
  double ms = 0;  ///< of a request
  std::optional<double> floor_ms = {};
  std::size_t launches = 0;
};

/// Of a result with a profile, the most first. A module is its path without the numbers of layers, at most four names:
/// "transformer_blocks.*.attn.to_q".
[[nodiscard]] std::vector<TimeShare> shares_by_op(const Measurement& profiled);
[[nodiscard]] std::vector<TimeShare> shares_by_module(const Measurement& profiled);

/// A chart of every profile: bars over their floors.
[[nodiscard]] Drawn draw_profiles(const Dataset& dataset, const std::string& file, const std::string& what,
                                  std::vector<TimeShare> (*shares_of)(const Measurement& profiled));

/// In a sentence, where the time goes that `deployed` still takes: by a profile of the same precisions and caches, though maybe of another
/// number of steps or images, or by its stages; in each case it says what it is of. Empty where nothing of it was measured.
[[nodiscard]] std::string where_time_goes(const Dataset& dataset, const View& view, const Measurement& deployed);

}  // namespace headroom
