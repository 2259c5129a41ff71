#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/finding.hpp"
#include "doctor/machine_facts.hpp"
#include "doctor/model_facts.hpp"
#include "doctor/trace/trace_facts.hpp"

/// The checks of `headroom doctor`: one table a subject (checks.cpp), one row a check. A new check is a function in the
/// file of its family below checks/ and a row. docs/commands/doctor.md is made from the rows.
namespace headroom::doctor {

/// A row of docs/commands/doctor.md.
struct CheckText {
  std::string_view id;      ///< "cpu-quota"
  std::string_view family;  ///< "cpu"
  std::string_view finds;   ///< when there is a finding, a clause
  std::string_view source;  ///< what is read
  std::string_view mend;    ///< in general; a finding's own names values
};

/// Looks at a subject and adds what it finds; `id` is that of its row, for Finding::id.
template <typename Subject>
struct Check {
  CheckText text;
  void (*find)(const Subject& subject, std::string_view id, std::vector<Finding>& findings);
};

[[nodiscard]] std::span<const Check<MachineFacts>> machine_checks();
[[nodiscard]] std::span<const Check<ModelFacts>> model_checks();
[[nodiscard]] std::span<const Check<TraceFacts>> trace_checks();

/// The findings of all checks of a table, sorted by severity.
template <typename Subject>
[[nodiscard]] std::vector<Finding> run_checks(std::span<const Check<Subject>> checks, const Subject& subject) {
  std::vector<Finding> findings;
  for (const Check<Subject>& check : checks) check.find(subject, check.text.id, findings);
  sort_by_severity(findings);
  return findings;
}

/// The rows of all tables.
[[nodiscard]] std::vector<CheckText> all_checks();
/// They as a Markdown table, for docs/commands/doctor.md.
[[nodiscard]] std::string checks_as_markdown();

}  // namespace headroom::doctor
