#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "measure/tables/printout.hpp"

/// What a gate decided, line by line, in the forms that people, pull requests and continuous integration read.
namespace headroom {

enum class GateOutcome : std::uint8_t {
  kPassed,
  kFailed,
  kUndecided,  ///< INCONCLUSIVE, which stops a gate as well
  kLeftOut     ///< could not be judged, and nobody asked for it
};

/// One quantity of one benchmark.
struct GateLine {
  std::string name;
  std::string quantity;
  std::vector<Cell> cells;  ///< one for each of GateReport::columns
  std::string verdict;      ///< "REGRESSED", "MISSED"
  std::string why;
  GateOutcome outcome = GateOutcome::kPassed;
  bool is_unchanged = false;  ///< equal on both sides: tables count it only
  std::string unit = {};      ///< of the cells' values in CSV: "ms", "bytes"
};

struct GateReport {
  std::string command;  ///< "headroom compare": names the suite in JUnit's form
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> fields = {};  ///< Column::fields of each, where given
  std::vector<GateLine> lines;
  std::vector<std::string> notes;  ///< what a reader should know besides, one line each
  std::string summary;             ///< one line
};

/// A table of the lines but for those that are unchanged or left out, which are counted below it by quantity.
[[nodiscard]] Printout gate_table(const GateReport& report);

/// For a pull request: a heading with the verdict, a table of all that did not pass, and the rest folded (GitHub's
/// Markdown).
[[nodiscard]] std::string gate_markdown(std::span<const GateReport> reports);

/// JUnit's XML: a suite for each report, a test case for each line. What failed is a `failure`, what is undecided an
/// `error`, what was left out `skipped`.
[[nodiscard]] std::string gate_junit(std::span<const GateReport> reports);

/// Workflow commands of GitHub Actions: `::error` for what failed, `::warning` for what is undecided; nothing for what
/// passed.
[[nodiscard]] std::string gate_annotations(std::span<const GateReport> reports);

/// The lines as JSON, schema headroom.gate/1: columns by name, the verdict and the reason of each.
[[nodiscard]] nlohmann::json gate_json(const GateReport& report);

/// 3 where a line failed, else 4 where one is undecided, else 0.
[[nodiscard]] ExitCode exit_code_of(const GateReport& report);

}  // namespace headroom
