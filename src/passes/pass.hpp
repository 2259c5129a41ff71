#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/switches.hpp"
#include "base/target.hpp"
#include "ir/graph.hpp"

namespace headroom {

/// What a pass left as it is, though its switch might be thought to change it, and why; or what else there is to say of it.
struct PassNote {
  std::string reason;
  /// Paths of the modules, or an op's name for what no module makes; none where it is about the whole.
  std::vector<std::string> nodes;
};

/// Puts a node into the note of that reason, once for each module. What no module makes is named by its op.
void note(std::vector<PassNote>& notes, std::string_view reason, const Node& node);

/// What one pass did: how many places it rewrote, or why it could do nothing at all on this target.
struct PassOutcome {
  int rewrites = 0;
  std::optional<std::string> declined = {};
  std::vector<PassNote> notes = {};
};

/// What a pass did that declines with `reason` where there is nothing to rewrite.
[[nodiscard]] PassOutcome outcome_of(int rewrites, std::string reason);

/// One optimization: Graph -> Graph. Passes of the switch "" always run: they change no result and cost nothing to
/// keep.
struct Pass {
  std::string_view name;         ///< "fuse-activation"
  std::string_view switch_name;  ///< the switch it belongs to, or ""
  PassOutcome (*rewrite)(Graph& graph, const Target& target);
  std::optional<Capability> needs = {};  ///< of the target; without, it is declined
  /// In place of `rewrite`, of a pass that does what the argument of its switch says. Throws a usage Error for one that
  /// says nothing.
  PassOutcome (*rewrite_as)(Graph& graph, std::string_view argument) = nullptr;

  PassOutcome run(Graph& graph, const Target& target, std::string_view argument = {}) const;
};

/// The passes in the order they run; pipeline.cpp justifies the order.
[[nodiscard]] std::span<const Pass> pipeline();

/// What the runner saw of one pass.
struct PassRecord {
  std::string_view name;
  std::string_view switch_name;
  int rewrites = 0;
  double milliseconds = 0;
  std::optional<std::string> declined;
  std::vector<PassNote> notes;
};

struct Declined {
  std::string switch_name;
  std::string reason;
};

struct OptimizeReport {
  std::vector<PassRecord> passes;  ///< those that ran
  std::vector<Declined> declined;  ///< switches asked for whose passes rewrote nothing, with the reason
};

struct OptimizeOptions {
  std::vector<std::string> disabled;  ///< passes to leave out, by name; unknown names are a usage Error
  /// verify() before the first and after every pass; always on where HEADROOM_VERIFY_PASSES is defined.
  bool verify = false;
};

/// Runs the pipeline's passes whose switch is on (and those that always run) over `graph`, in place.
OptimizeReport optimize(Graph& graph, const SwitchSet& switches, const Target& target,
                        const OptimizeOptions& options = {});

}  // namespace headroom
