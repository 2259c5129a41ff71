#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "base/log.hpp"
#include "base/switches.hpp"
#include "cli/common.hpp"
#include "measure/protocol/auto_request.hpp"
#include "measure/results/result.hpp"

namespace headroom {

/// --opt, --cache-schedule, and the limits for `auto`.
struct SwitchArguments : SwitchList {
  std::string schedule;  ///< of the step caches in the list; empty if not given
  AutoLimits limits;
  bool refresh = false;
  std::vector<std::string> given_for_auto = {};  ///< given options that only apply to `auto`

  /// The requested switches of both options. Throws a usage Error as SwitchRequest::parse() does, and for a
  /// schedule without a step cache.
  [[nodiscard]] SwitchRequest request() const;
};
/// Adds --opt, --cache-schedule, --auto-seconds, --max-error, --max-request-error and --auto-refresh.
void add_auto_switches(CLI::App& command, SwitchArguments& arguments, std::string_view fallback);

/// The switches for a request, what was requested ("auto", "steps=8"), and what `auto` tried, if it was requested.
struct ChosenSwitches {
  SwitchSet set;
  std::vector<std::string> asked;
  std::vector<AutoTrial> trials = {};

  /// Writes both into a result's configuration.
  void describe(Configuration& configuration) const;
};
/// The requested switches, as far as they apply to the device (SwitchSet::for_target). With `auto` among them, its
/// choice: it comes from the user's cache, or is measured and cached, and its table goes to the log. The switches
/// of `request.denoise` need not be set. A note names given options that only apply to `auto` if it was not
/// requested.
[[nodiscard]] ChosenSwitches choose_switches(SwitchRequest asked, const SwitchArguments& arguments, Backend& backend,
                                             AutoRequest request, const Log& log);

}  // namespace headroom
