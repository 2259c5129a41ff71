#pragma once

#include <vector>

#include "report/ladder_view.hpp"

namespace headroom {

/// The gain of a switch on top of others, against its gain alone.
struct Interaction {
  const RungView* alone = nullptr;   ///< the switch by itself
  const RungView* before = nullptr;  ///< the switches that it was added to
  const RungView* together = nullptr;
  bool is_pair = false;  ///< `before` is a single switch
  Estimate quotient;     ///< factor together / (factor before * factor alone), with its 95% interval
};

/// Interactions of a ladder: those whose four configurations were all measured and settled, each once. Declined
/// switches do not count. Two switches make one interaction. Between rungs of one ladder, quotient and interval
/// come from their rounds; otherwise from medians, whose intervals are combined as in ratio_of().
[[nodiscard]] std::vector<Interaction> interactions_of(const LadderView& ladder);

}  // namespace headroom
