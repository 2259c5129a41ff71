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
  std::string list;       ///< as it was given, or the command's own
  bool is_given = false;  ///< --opt was given
  bool is_strict = false;
};

/// Says what was asked for and had no effect: switches that declined, and options that change nothing. What was named is a warning, which
/// --quiet leaves. Other switches of a preset that was given are a note. Of the switches that a command takes by itself nothing is said.
/// With --strict whatever was named throws an Error in place of the warnings.
class WithoutEffect {
 public:
  WithoutEffect(const Log& log, const SwitchList& switches) : log_(log), switches_(switches) {}

  void say(const std::vector<Declined>& declined) const;
  void say(std::span<const IdleOption> idle) const;
  /// What an option that was named changes: "--seed changes nothing: the noise is given".
  void say(std::string sentence) const;
  /// Of results: a line for each name, switch and reason, and what passes note of the whole. Here the command's own switches are told as
  /// well, since they are what it measures. A switch that was named counts as without effect where no result of the same work applied it:
  /// by itself, on a rung of a ladder, it may lack another one.
  void say(std::span<const Result> results) const;

  /// Whether the switch was named in --opt by itself, and not by a preset.
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
