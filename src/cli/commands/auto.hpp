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

/// --opt, --cache-schedule, and what bounds the choice of `auto`.
struct SwitchArguments : SwitchList {
  std::string schedule;  ///< of step caches in the list; empty where none is given
  AutoLimits limits;
  bool refresh = false;
  std::vector<std::string> given_for_auto = {};  ///< options that were given and are for `auto` alone

  /// The switches that both ask for. Throws a usage Error as SwitchRequest::parse(), and for a schedule of no step cache.
  [[nodiscard]] SwitchRequest request() const;
};
/// Adds --opt, --cache-schedule, --auto-seconds, --max-error, --max-request-error and --auto-refresh.
void add_auto_switches(CLI::App& command, SwitchArguments& arguments, std::string_view fallback);

/// Switches for a request, what was asked for ("auto", "steps=8"), and what `auto` tried, where it was among that.
struct ChosenSwitches {
  SwitchSet set;
  std::vector<std::string> asked;
  std::vector<AutoTrial> trials = {};

  /// Says both in a result's configuration.
  void describe(Configuration& configuration) const;
};
/// What was asked for, as far as it is for the device (SwitchSet::for_target), or where `auto` is in it, the
/// choice: it comes from the user's cache or is measured and kept there, and its table goes to the log. The switches of
/// `request.denoise` need not be set. A note names options that are for `auto` alone where it is not asked for.
[[nodiscard]] ChosenSwitches choose_switches(SwitchRequest asked, const SwitchArguments& arguments, Backend& backend,
                                             AutoRequest request, const Log& log);

}  // namespace headroom
