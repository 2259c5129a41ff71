#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "base/switches.hpp"
#include "passes/pass.hpp"

namespace headroom {

/// The note as one sentence that names up to three of its nodes: "kept a, b, c and 7 more (REASON)", "loss in a
/// (REASON)"; the reason alone if it has none.
[[nodiscard]] std::string sentence_of(const PassNote& note);
/// {"reason": ..., "nodes": [...]}
[[nodiscard]] nlohmann::json to_json(const PassNote& note);

/// Sentences on the nodes that lose accuracy by a pass, and on the switch that keeps it; empty if none do. `switches`
/// are those of the record.
[[nodiscard]] std::vector<std::string> describe_losses(const PassRecord& pass, const SwitchSet& switches);

}  // namespace headroom
