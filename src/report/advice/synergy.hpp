#pragma once

#include <vector>

#include "report/ladder_view.hpp"

namespace headroom {

/// What a switch gains on top of others, against what it gains alone.
struct Interaction {
  const RungView* alone = nullptr;   ///< the switch by itself
  const RungView* before = nullptr;  ///< the switches that it is added to
  const RungView* together = nullptr;
  bool is_pair = false;  ///< `before` is one switch too
  Estimate quotient;     ///< factor together / (factor before * factor alone), with its 95% interval
};

/// Those of a ladder whose four configurations were all measured and settled, each once; switches that declined do not
/// count. Two switches make one interaction. Between rungs of one ladder, quotient and interval are those of their rounds;
/// else medians, and a bootstrap of all four series.
[[nodiscard]] std::vector<Interaction> interactions_of(const LadderView& ladder);

}  // namespace headroom
