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
/// "text", "csv", "md" or "markdown", "latex"; of other names nothing.
[[nodiscard]] std::optional<TableFormat> parse_table_format(std::string_view name);
/// The suffix of a file of such tables: ".txt", ".csv", ".md", ".tex".
[[nodiscard]] std::string_view suffix_of(TableFormat format);

/// What a command prints: tables, and remarks between them.
class Printout {
 public:
  Printout() = default;
  Printout(Table table) { add(std::move(table)); }  // NOLINT(google-explicit-constructor): one table
  void add(Table table) { parts_.emplace_back(std::move(table)); }
  /// Lines, each ended by a newline; where there are none nothing.
  void add(std::string remark) {
    if (!remark.empty()) parts_.emplace_back(std::move(remark));
  }
  /// CSV has one table: the first, unless this is given.
  void set_csv(Table table) { csv_ = std::move(table); }

  /// As text in lines of at most `width` columns (Table::render(), wrap_text()); `all_are_in` says where columns are that
  /// are left out. As CSV one table. As Markdown tables and remarks, as LaTeX tables, and remarks as comments.
  [[nodiscard]] std::string to_string(TableFormat format, std::size_t width = Table::kAnyWidth,
                                      std::string_view all_are_in = {}) const;
  /// As text, as wide as it is.
  [[nodiscard]] std::string text() const { return to_string(TableFormat::kText); }

 private:
  std::vector<std::variant<Table, std::string>> parts_;
  std::optional<Table> csv_;
};

}  // namespace headroom
