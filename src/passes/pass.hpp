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

enum class NoteKind {
  kKept,  ///< nodes that a pass left unchanged although its switch might be expected to change them
  kLossy  ///< nodes that it rewrote, and that lose accuracy that an argument of the switch would keep
};

/// A remark of a pass: nodes of that kind, with the reason; or a remark about the whole graph.
struct PassNote {
  std::string reason;
  /// Paths of the modules, or the op's name for nodes outside modules; empty if the remark concerns the whole graph.
  std::vector<std::string> nodes;
  NoteKind kind = NoteKind::kKept;
};

/// Adds a node to the note of that reason, once per module. A node outside modules is named by its op. `kind` is that
/// of a new note.
void note(std::vector<PassNote>& notes, std::string_view reason, const Node& node, NoteKind kind = NoteKind::kKept);

/// The result of one pass: the number of places rewritten, or the reason why it cannot apply to this target at all.
struct PassOutcome {
  int rewrites = 0;
  std::optional<std::string> declined = {};
  std::vector<PassNote> notes = {};
};

/// The outcome of a pass that declines with `reason` if it rewrote nothing.
[[nodiscard]] PassOutcome outcome_of(int rewrites, std::string reason);

/// One optimization: Graph -> Graph. Passes of the switch "" always run: they change no result and have no cost.
struct Pass {
  std::string_view name;         ///< "fuse-epilogue"
  std::string_view switch_name;  ///< the switch it belongs to, or ""
  PassOutcome (*rewrite)(Graph& graph, const Target& target);
  std::optional<Capability> needs = {};  ///< of the target; a target without it declines the pass
  /// Used instead of `rewrite` by a pass that depends on the argument of its switch. Throws a usage Error for an
  /// invalid argument.
  PassOutcome (*rewrite_as)(Graph& graph, const Target& target, std::string_view argument) = nullptr;

  /// `assume_capable`: whether or not the target has what it needs.
  PassOutcome run(Graph& graph, const Target& target, std::string_view argument = {},
                  bool assume_capable = false) const;
};

/// The passes in the order they run; pipeline.cpp justifies the order.
[[nodiscard]] std::span<const Pass> pipeline();

/// The runner's record of one pass.
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
  std::vector<PassRecord> passes;  ///< passes that ran
  std::vector<Declined> declined;  ///< requested switches whose passes rewrote nothing, with the reason
};

struct OptimizeOptions {
  std::vector<std::string> disabled;  ///< passes to skip, by name; unknown names are a usage Error
  /// Passes run even if the target lacks what they need, to show what they would change.
  bool assume_capable = false;
  /// verify() before the first and after every pass; always on if HEADROOM_VERIFY_PASSES is defined.
  bool verify = false;
};

/// Runs the pipeline's passes whose switch is on, and those that always run, over `graph`, in place.
OptimizeReport optimize(Graph& graph, const SwitchSet& switches, const Target& target,
                        const OptimizeOptions& options = {});

}  // namespace headroom
