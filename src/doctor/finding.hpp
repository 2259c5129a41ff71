#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

/// What `headroom doctor` finds: faults of a set-up, each with the evidence that proves it and the command that mends
/// it.
namespace headroom::doctor {

/// How much a finding matters.
enum class Severity : std::uint8_t {
  kWrong,    ///< something fails, or the work that it concerns takes over 5% longer
  kCould,    ///< something could be better: less, or only at times, or for some uses
  kUnknown,  ///< a check could not tell, since the evidence is missing
};
/// "wrong", "could", "unknown"
[[nodiscard]] std::string_view name_of(Severity severity);

/// One fact that was read or measured.
struct Evidence {
  std::string source;    ///< file, function or variable: "/sys/fs/cgroup/cpu.max"
  std::string value;     ///< what it said: "50000 100000"
  std::string expected;  ///< what a good set-up says: "max 100000"
};

/// What it costs to leave a finding as it is.
struct CostIfLeft {
  std::string words;             ///< "work on all 8 threads takes 16 times as long"
  std::optional<double> factor;  ///< of the time of that work, where it can be computed from the evidence
};

struct Finding {
  std::string id;  ///< of the check that made it: "cpu-quota"
  Severity severity = Severity::kCould;
  std::string sentence;
  std::vector<Evidence> evidence;  ///< at least one
  std::string mend;                ///< a command or a setting
  CostIfLeft cost;
};

/// Above this factor a finding is wrong.
inline constexpr double kWrongFrom = 1.05;
/// kWrong where work takes this many times as long, if that is over kWrongFrom.
[[nodiscard]] constexpr Severity severity_of(double factor) {
  return factor > kWrongFrom ? Severity::kWrong : Severity::kCould;
}

/// kRegression (3) if a finding is wrong; else kInconclusive (4) if one is unknown; else kOk. With `fail_on`,
/// kRegression if a finding has one of these ids, whatever its severity, and else kOk.
[[nodiscard]] ExitCode exit_code_of(std::span<const Finding> findings, std::span<const std::string> fail_on);

/// Wrong ones first, those that could be better next, unknown ones last; else in their order.
void sort_by_severity(std::vector<Finding>& findings);

}  // namespace headroom::doctor
