#pragma once

#include <string_view>
#include <vector>

#include "report/chart.hpp"
#include "report/ladder_view.hpp"

namespace headroom {

/// Two configurations that differ in exactly one switch.
struct SwitchPair {
  const Measurement* without = nullptr;
  const Measurement* with = nullptr;
};
/// The pairs of a ladder for a switch, by name without argument.
[[nodiscard]] std::vector<SwitchPair> pairs_of(const LadderView& ladder, std::string_view switch_name);

/// Bar charts of the effect of a switch on each configuration that it was added to. There is one chart for each
/// ladder that has such a pair, numbered as `file`.
[[nodiscard]] std::vector<Chart> compare_switch(const Dataset& dataset, std::string_view switch_name,
                                                std::string_view file, std::string_view title);

}  // namespace headroom
