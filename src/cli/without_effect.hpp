#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.hpp"
#include "measure/results/result.hpp"
#include "passes/pass.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// --opt and --strict of a command.
struct SwitchList {
  std::string list;       ///< as given, or the command's default
  bool is_given = false;  ///< --opt was given
  bool is_strict = false;
};

/// Reports requests without effect: switches that declined, and options that change nothing. Explicitly named ones
/// are warnings, which --quiet keeps. Other switches of a given preset are a note. The default switches of a
/// command are not reported. With --strict, an explicitly named one throws an Error instead of the warning.
class WithoutEffect {
 public:
  WithoutEffect(const Log& log, const SwitchList& switches) : log_(log), switches_(switches) {}

  void say(const std::vector<Declined>& declined) const;
  void say(std::span<const IdleOption> idle) const;
  /// Reports a named option without effect: "--seed changes nothing: the noise is given".
  void say(std::string sentence) const;
  /// Reports on results: a line for each name, switch and reason, and the notes of passes about the whole program.
  /// Configurations have the names of tables: presets by their names, rungs by their switches.
  /// Here the command's default switches are reported as well, since they are what it measures. A named switch
  /// counts as without effect if no result of the same work applied it: alone, on a rung of a ladder, it may depend
  /// on another switch.
  void say(const ResultFile& file) const;

  /// Whether --opt names the switch itself, rather than a preset with it.
  [[nodiscard]] bool is_named(std::string_view switch_name) const;
  [[nodiscard]] bool is_strict() const noexcept { return switches_.is_strict; }

 private:
  void say_named(const std::vector<std::string>& sentences) const;

  const Log& log_;
  const SwitchList& switches_;
};

/// "--cache-schedule changes nothing: REASON"
[[nodiscard]] std::string sentence_of(const IdleOption& option);

}  // namespace headroom
