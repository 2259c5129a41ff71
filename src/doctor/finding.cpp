#include "doctor/finding.hpp"

#include <algorithm>

namespace headroom::doctor {

std::string_view name_of(Severity severity) {
  switch (severity) {
    case Severity::kWrong:
      return "wrong";
    case Severity::kCould:
      return "could";
    case Severity::kUnknown:
      return "unknown";
  }
  HR_CHECK(false);
}

ExitCode exit_code_of(std::span<const Finding> findings, std::span<const std::string> fail_on) {
  const auto has = [&](Severity severity) {
    return std::ranges::find(findings, severity, &Finding::severity) != findings.end();
  };
  if (!fail_on.empty()) {
    const bool is_found = std::ranges::any_of(
        findings, [&](const Finding& finding) { return std::ranges::find(fail_on, finding.id) != fail_on.end(); });
    return is_found ? ExitCode::kRegression : ExitCode::kOk;
  }
  if (has(Severity::kWrong)) return ExitCode::kRegression;
  return has(Severity::kUnknown) ? ExitCode::kInconclusive : ExitCode::kOk;
}

void sort_by_severity(std::vector<Finding>& findings) { std::ranges::stable_sort(findings, {}, &Finding::severity); }

}  // namespace headroom::doctor
