#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "cli/streams/live_view.hpp"

namespace headroom {

/// All that the page shows of a stream but its pictures: what it is, counters, percentiles and medians of the times of
/// the last frames (LiveView::kRemembered), latencies to be drawn, what is wished for and what goes on.
[[nodiscard]] nlohmann::json live_status(const LiveView& view);

/// What `text`, a JSON object that holds some of StreamControls by their names, makes of `now`. Throws Error in a sentence
/// that begins with `context` for another name, another type, or a text that is too long or holds control characters; what numbers make sense is the
/// view's matter (LiveView::want()).
[[nodiscard]] StreamControls change_controls(std::string_view text, std::string_view context,
                                             const StreamControls& now);

}  // namespace headroom
