// Tables as files: CSV, Markdown and LaTeX.

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/markdown.hpp"
#include "base/text/printable.hpp"
#include "measure/tables/table.hpp"

namespace headroom {
namespace {

/// A field of RFC 4180: quoted if it contains a comma, a quote or a line break.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string csv_line(const std::vector<std::string>& fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) line += (i == 0 ? "" : ",") + csv_field(fields[i]);
  return line + "\n";
}

/// Figures with units and intervals, which have no meaning in Markdown and are easier to read unescaped.
bool is_figure(std::string_view text) {
  std::string rest(text);
  for (std::size_t at = rest.find("µ"); at != std::string::npos; at = rest.find("µ")) rest.erase(at, 2);
  return std::ranges::all_of(rest, [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           std::string_view(" .,%[]-/").find(c) != std::string_view::npos;
  });
}

std::string markdown_cell(const std::string& text) { return is_figure(text) ? text : markdown_text(text); }

std::string latex_cell(std::string_view text) {
  if (text == "-") return "--";
  constexpr std::array<std::pair<std::string_view, std::string_view>, 15> kEscapes = {
      {{"\\", "\\textbackslash{}"},
       {"{", "\\{"},
       {"}", "\\}"},
       {"#", "\\#"},
       {"$", "\\$"},
       {"%", "\\%"},
       {"&", "\\&"},
       {"_", "\\_"},
       {"~", "\\textasciitilde{}"},
       {"^", "\\textasciicircum{}"},
       {"<", "\\textless{}"},
       {">", "\\textgreater{}"},
       {"|", "\\textbar{}"},
       {"[", "{[}"},  // after \\ it would be an argument
       {"µ", "\\textmu{}"}}};
  std::string escaped;
  while (!text.empty()) {
    const auto found = std::ranges::find_if(kEscapes, [&](const auto& one) { return text.starts_with(one.first); });
    escaped += found == kEscapes.end() ? text.substr(0, 1) : found->second;
    text.remove_prefix(found == kEscapes.end() ? 1 : found->first.size());
  }
  return escaped;
}

std::string latex_row(const std::vector<std::string>& cells) {
  return fmt::format("{} \\\\\n", fmt::join(cells, " & "));
}

}  // namespace

std::string Table::to_csv() const {
  std::vector<std::string> names;
  for (const Column& column : columns_) names.insert(names.end(), column.fields.begin(), column.fields.end());
  std::string text = csv_line(names);
  for (const Row& row : rows_) {
    if (row.empty()) continue;
    std::vector<std::string> fields;
    for (std::size_t i = 0; i < row.size(); ++i) {
      std::vector<std::string> values = row[i].values;
      values.resize(columns_[i].fields.size());
      for (const std::string& value : values) fields.push_back(printable(value));
    }
    text += csv_line(fields);
  }
  return text;
}

std::string Table::to_markdown() const {
  std::string header = "|", rule = "|";
  for (const std::size_t i : shown_columns()) {
    header += " " + markdown_cell(columns_[i].header) + " |";
    rule += columns_[i].align == Align::kLeft ? "---|" : "--:|";
  }
  std::string text = header + "\n" + rule + "\n";
  for (const Row& row : rows_) {
    if (row.empty()) continue;
    text += "|";
    for (const std::size_t i : shown_columns()) text += " " + markdown_cell(row[i].text) + " |";
    text += "\n";
  }
  return text;
}

std::string Table::to_latex() const {
  std::string alignment;
  std::vector<std::string> headers;
  for (const std::size_t i : shown_columns()) {
    alignment += columns_[i].align == Align::kLeft ? "l" : "r";
    headers.push_back(latex_cell(columns_[i].header));
  }
  std::string text = "\\begin{tabular}{" + alignment + "}\n\\toprule\n" + latex_row(headers) + "\\midrule\n";
  for (const Row& row : rows_) {
    if (row.empty()) {
      text += "\\midrule\n";
      continue;
    }
    std::vector<std::string> cells;
    for (const std::size_t i : shown_columns()) cells.push_back(latex_cell(row[i].text));
    text += latex_row(cells);
  }
  return text + "\\bottomrule\n\\end{tabular}\n";
}

}  // namespace headroom
