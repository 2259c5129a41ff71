#include "measure/gates/gate_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "base/text/markdown.hpp"
#include "base/text/printable.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

std::int64_t count_outcome(const GateReport& report, GateOutcome outcome) {
  return std::ranges::count(report.lines, outcome, &GateLine::outcome);
}

bool is_shown(const GateLine& line) { return !line.is_unchanged && line.outcome != GateOutcome::kLeftOut; }

/// "unchanged: peak memory of 3, weights of 3", by quantity in order of appearance.
std::string count_by_quantity(const GateReport& report, std::string_view what, bool unchanged) {
  std::vector<std::pair<std::string, int>> counts;
  for (const GateLine& line : report.lines) {
    if (is_shown(line) || line.is_unchanged != unchanged) continue;
    const auto known = std::ranges::find(counts, line.quantity, &std::pair<std::string, int>::first);
    if (known == counts.end())
      counts.emplace_back(line.quantity, 1);
    else
      ++known->second;
  }
  if (counts.empty()) return {};
  std::vector<std::string> parts;
  for (const auto& [quantity, count] : counts) parts.push_back(fmt::format("{} of {}", quantity, count));
  return fmt::format("{}: {}\n", what, fmt::join(parts, ", "));
}

/// The reasons for leaving lines out: for each quantity the first one, and how many others were left out.
std::string left_out_reasons(const GateReport& report) {
  std::string text;
  std::vector<std::string> reported;
  for (const GateLine& line : report.lines) {
    if (line.outcome != GateOutcome::kLeftOut || line.is_unchanged) continue;
    if (std::ranges::find(reported, line.quantity) != reported.end()) continue;
    reported.push_back(line.quantity);
    const auto others = std::ranges::count_if(report.lines, [&](const GateLine& other) {
      return other.outcome == GateOutcome::kLeftOut && !other.is_unchanged && other.quantity == line.quantity;
    });
    text += fmt::format("{} of {} is {}: {}{}\n", line.quantity, line.name, line.verdict, line.why,
                        others > 1 ? fmt::format("; {} more {}", others - 1, others == 2 ? "is" : "are") : "");
  }
  return text;
}

std::string xml_text(std::string_view text) {
  std::string escaped;
  for (const char c : printable_name(text)) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  // U+FFFE and U+FFFF are valid UTF-8, but not characters of XML 1.0.
  for (const std::string_view noncharacter : {"\xef\xbf\xbe", "\xef\xbf\xbf"})
    for (std::size_t at = 0; (at = escaped.find(noncharacter, at)) != std::string::npos;)
      escaped.replace(at, noncharacter.size(), "?");
  return escaped;
}

/// Escapes that the runner of GitHub Actions decodes (toolkit, packages/core/src/command.ts).
std::string command_text(std::string_view text, bool is_property) {
  std::string escaped;
  for (const char c : text) {
    if (c == '%' || c == '\r' || c == '\n' || (is_property && (c == ':' || c == ',')))
      escaped += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    else
      escaped += c;
  }
  return escaped;
}

std::string heading_of(const GateReport& report) {
  const auto failed = count_outcome(report, GateOutcome::kFailed),
             undecided = count_outcome(report, GateOutcome::kUndecided);
  if (failed > 0) return fmt::format("{} of {} failed", failed, report.lines.size());
  if (undecided > 0) return fmt::format("{} of {} inconclusive", undecided, report.lines.size());
  return "passed";
}

std::string markdown_row(const std::vector<std::string>& cells) {
  std::string row = "|";
  for (const std::string& cell : cells) row += fmt::format(" {} |", cell);
  return row + "\n";
}

std::string markdown_rows(const GateReport& report, const std::vector<const GateLine*>& lines) {
  std::vector<std::string> header = {"benchmark", "quantity"};
  header.insert(header.end(), report.columns.begin(), report.columns.end());
  header.insert(header.end(), {"verdict", "why"});
  std::string text = markdown_row(header);
  std::vector<std::string> rule(header.size(), "---");
  for (std::size_t i = 0; i < report.columns.size(); ++i) rule[i + 2] = "--:";
  text += markdown_row(rule);
  for (const GateLine* line : lines) {
    std::vector<std::string> cells = {markdown_text(line->name), markdown_text(line->quantity)};
    for (const Cell& cell : line->cells) cells.push_back(markdown_text(cell.text));
    const std::string verdict = markdown_text(line->verdict);
    cells.push_back(line->outcome == GateOutcome::kPassed ? verdict : fmt::format("**{}**", verdict));
    cells.push_back(markdown_text(line->why));
    text += markdown_row(cells);
  }
  return text;
}

constexpr std::size_t kWholeVerdict = 12;  // of "INCONCLUSIVE" and "NOT MEASURED"

/// Column::priority: the change and its interval stay longest.
int priority_of(std::string_view column) {
  constexpr std::array<std::pair<std::string_view, int>, 4> kFirstToGo = {
      {{"processes", 5}, {"p", 4}, {"base", 3}, {"new", 2}}};
  for (const auto& [name, priority] : kFirstToGo)
    if (column == name) return priority;
  return 0;
}

}  // namespace

Printout gate_table(const GateReport& report) {
  Table table;
  table.add_column(Column{.header = "benchmark", .align = Align::kLeft, .least = 18});
  table.add_column(Column{.header = "quantity", .align = Align::kLeft, .fields = {"quantity", "unit"}, .least = 8});
  for (std::size_t i = 0; i < report.columns.size(); ++i)
    table.add_column(Column{.header = report.columns[i],
                            .priority = priority_of(report.columns[i]),
                            .fields = report.fields.empty() ? std::vector<std::string>() : report.fields[i]});
  table.add_column(Column{.header = "verdict", .align = Align::kLeft, .least = kWholeVerdict});
  table.add_column(Column{.header = "why", .align = Align::kLeft, .least = 18});
  for (const GateLine& line : report.lines) {
    if (!is_shown(line)) continue;
    std::vector<Cell> cells = {line.name, Cell(line.quantity, {line.quantity, line.unit})};
    cells.insert(cells.end(), line.cells.begin(), line.cells.end());
    cells.emplace_back(line.verdict);
    cells.emplace_back(line.why);
    table.add_row(std::move(cells));
  }
  Printout printout(std::move(table));
  std::string text = count_by_quantity(report, "unchanged", true) + left_out_reasons(report);
  for (const std::string& note : report.notes) text += note + "\n";
  printout.add(text + report.summary + "\n");
  return printout;
}

std::string gate_markdown(std::span<const GateReport> reports) {
  std::string text;
  for (const GateReport& report : reports) {
    std::vector<const GateLine*> stopped, passed;
    for (const GateLine& line : report.lines) {
      const bool stops = line.outcome == GateOutcome::kFailed || line.outcome == GateOutcome::kUndecided;
      (stops ? stopped : passed).push_back(&line);
    }
    std::ranges::stable_sort(stopped, {}, [](const GateLine* line) { return line->outcome != GateOutcome::kFailed; });
    text +=
        fmt::format("{}### {}: {}\n\n", text.empty() ? "" : "\n", markdown_text(report.command), heading_of(report));
    if (!stopped.empty()) text += markdown_rows(report, stopped) + "\n";
    if (!passed.empty())
      text += fmt::format("<details><summary>{} {}</summary>\n\n{}\n</details>\n\n", passed.size(),
                          passed.size() == 1 ? "other" : "others", markdown_rows(report, passed));
    for (const std::string& note : report.notes) text += fmt::format("- {}\n", markdown_text(note));
    text += fmt::format("{}{}\n", report.notes.empty() ? "" : "\n", markdown_text(report.summary));
  }
  return text;
}

std::string gate_junit(std::span<const GateReport> reports) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n";
  for (const GateReport& report : reports) {
    text += fmt::format("  <testsuite name=\"{}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\">\n",
                        xml_text(report.command), report.lines.size(), count_outcome(report, GateOutcome::kFailed),
                        count_outcome(report, GateOutcome::kUndecided), count_outcome(report, GateOutcome::kLeftOut));
    for (const GateLine& line : report.lines) {
      text += fmt::format("    <testcase classname=\"{}\" name=\"{}\"", xml_text(line.name), xml_text(line.quantity));
      const std::string message = xml_text(fmt::format("{}: {}", line.verdict, line.why));
      if (line.outcome == GateOutcome::kPassed) {
        text += "/>\n";
        continue;
      }
      if (line.outcome == GateOutcome::kLeftOut) {
        text += fmt::format("><skipped message=\"{}\"/></testcase>\n", message);
        continue;
      }
      std::vector<std::string> figures;
      for (std::size_t i = 0; i < report.columns.size(); ++i)
        figures.push_back(xml_text(fmt::format("{} {}", report.columns[i], line.cells[i].text)));
      const char* element = line.outcome == GateOutcome::kFailed ? "failure" : "error";
      text += fmt::format("><{0} type=\"{1}\" message=\"{2}\">{3}</{0}></testcase>\n", element, xml_text(line.verdict),
                          message, fmt::join(figures, ", "));
    }
    text += "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

std::string gate_annotations(std::span<const GateReport> reports) {
  std::string text;
  for (const GateReport& report : reports)
    for (const GateLine& line : report.lines) {
      const bool failed = line.outcome == GateOutcome::kFailed;
      if (!failed && line.outcome != GateOutcome::kUndecided) continue;
      text += fmt::format("::{} title={}::{}\n", failed ? "error" : "warning",
                          command_text(fmt::format("{} {}: {}", line.name, line.quantity, line.verdict), true),
                          command_text(line.why, false));
    }
  return text;
}

nlohmann::json gate_json(const GateReport& report) {
  nlohmann::json lines = nlohmann::json::array();
  for (const GateLine& line : report.lines) {
    nlohmann::json& entry = lines.emplace_back(
        nlohmann::json{{"name", line.name}, {"quantity", line.quantity}, {"verdict", line.verdict}, {"why", line.why}});
    for (std::size_t i = 0; i < report.columns.size(); ++i) entry[report.columns[i]] = line.cells[i].text;
  }
  return {
      {"schema", "headroom.gate/1"}, {"lines", std::move(lines)}, {"notes", report.notes}, {"summary", report.summary}};
}

ExitCode exit_code_of(const GateReport& report) {
  if (count_outcome(report, GateOutcome::kFailed) > 0) return ExitCode::kRegression;
  return count_outcome(report, GateOutcome::kUndecided) > 0 ? ExitCode::kInconclusive : ExitCode::kOk;
}

}  // namespace headroom
