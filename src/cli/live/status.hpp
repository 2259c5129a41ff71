#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cli/streams/live_view.hpp"

namespace headroom {

/// All data of the page except images: facts about the stream, counters, percentiles and medians of the times of
/// the last frames (LiveView::kRemembered), the latency curve, and the requested and current controls.
[[nodiscard]] nlohmann::json live_status(const LiveView& view);

/// Applies `text`, a JSON object with some members of StreamControls, to `now`. Throws Error with a sentence that
/// begins with `context` for unknown names, wrong types, and texts that are too long or contain control characters.
/// LiveView::want() checks the ranges of numbers.
[[nodiscard]] StreamControls change_controls(std::string_view text, std::string_view context,
                                             const StreamControls& now);

}  // namespace headroom
