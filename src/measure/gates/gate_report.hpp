#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "measure/tables/printout.hpp"

/// The decisions of a gate, line by line, in the formats of terminals, pull requests and continuous integration.
namespace headroom {

enum class GateOutcome : std::uint8_t {
  kPassed,
  kFailed,
  kUndecided,  ///< INCONCLUSIVE, which stops a gate as well
  kLeftOut     ///< could not be judged, and was not asked for
};

/// The verdict on one quantity of one benchmark.
struct GateLine {
  std::string name;
  std::string quantity;
  std::vector<Cell> cells;  ///< one for each of GateReport::columns
  std::string verdict;      ///< "REGRESSED", "MISSED"
  std::string why;
  GateOutcome outcome = GateOutcome::kPassed;
  bool is_unchanged = false;  ///< equal on both sides: tables only count it
  std::string unit = {};      ///< of the cells' values in CSV: "ms", "bytes"
};

struct GateReport {
  std::string command;  ///< "headroom compare": the name of the suite in JUnit's format
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> fields = {};  ///< Column::fields of each column, if given
  std::vector<GateLine> lines;
  std::vector<std::string> notes;  ///< additional remarks, one line each
  std::string summary;             ///< one line
};

/// A table of the lines, without unchanged or left-out ones, which are counted below it by quantity.
[[nodiscard]] Printout gate_table(const GateReport& report);

/// For a pull request: a heading with the verdict, a table of all lines that did not pass, and the rest folded
/// (GitHub's Markdown).
[[nodiscard]] std::string gate_markdown(std::span<const GateReport> reports);

/// JUnit's XML: one suite for each report, one test case for each line. Failed lines become `failure`, undecided ones
/// `error`, left-out ones `skipped`.
[[nodiscard]] std::string gate_junit(std::span<const GateReport> reports);

/// Workflow commands of GitHub Actions: `::error` for failed lines, `::warning` for undecided ones, nothing for
/// passed ones.
[[nodiscard]] std::string gate_annotations(std::span<const GateReport> reports);

/// The lines as JSON, schema headroom.gate/1: columns by name, the verdict and the reason of each line.
[[nodiscard]] nlohmann::json gate_json(const GateReport& report);

/// 3 if a line failed, otherwise 4 if one is undecided, otherwise 0.
[[nodiscard]] ExitCode exit_code_of(const GateReport& report);

}  // namespace headroom
