#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "measure/tables/table.hpp"

namespace headroom {

enum class TableFormat : std::uint8_t { kText, kCsv, kMarkdown, kLatex };
/// "text", "csv", "md" or "markdown", "latex"; nothing for other names.
[[nodiscard]] std::optional<TableFormat> parse_table_format(std::string_view name);
/// The suffix of a file of such tables: ".txt", ".csv", ".md", ".tex".
[[nodiscard]] std::string_view suffix_of(TableFormat format);

/// The output of a command: tables, and remarks between them.
class Printout {
 public:
  Printout() = default;
  Printout(Table table) { add(std::move(table)); }  // NOLINT(google-explicit-constructor): one table
  void add(Table table) { parts_.emplace_back(std::move(table)); }
  /// Adds lines, each ended by a newline; an empty text adds nothing.
  void add(std::string remark) {
    if (!remark.empty()) parts_.emplace_back(std::move(remark));
  }
  /// CSV has one table: the first, unless this one is set.
  void set_csv(Table table) { csv_ = std::move(table); }

  /// As text: lines of at most `width` columns (Table::render(), wrap_text()); `all_are_in` names where omitted
  /// columns can be found. As CSV: one table. As Markdown: tables and remarks. As LaTeX: tables, and remarks as
  /// comments.
  [[nodiscard]] std::string to_string(TableFormat format, std::size_t width = Table::kAnyWidth,
                                      std::string_view all_are_in = {}) const;
  /// As text of unlimited width.
  [[nodiscard]] std::string text() const { return to_string(TableFormat::kText); }

 private:
  std::vector<std::variant<Table, std::string>> parts_;
  std::optional<Table> csv_;
};

}  // namespace headroom
