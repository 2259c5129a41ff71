#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/format.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/tables/wrap.hpp"

/// Formats figures for people, in addition to base/text/format.hpp, and tables of them: for a terminal, as CSV,
/// Markdown and LaTeX.
namespace headroom {

/// A time: "35.1 µs", "482 ms", "1.24 s", "20.0 min", "3.50 h". A difference keeps its sign. Zero is "0 ms".
[[nodiscard]] std::string format_ms(double ms);
/// An interval of times in one unit, that of its larger end, with that end's number of decimals: "[0.98, 1.01] s".
[[nodiscard]] std::string format_interval_ms(const Interval& interval_ms);
/// The interval of the median of a series, or why it has none: "[0.98, 1.01] s", "(3 trials give no 95% interval, 6
/// would)".
[[nodiscard]] std::string interval_or_reason(const Summary& trials_ms);
/// An interval of factors or other plain numbers, likewise: "[1.85, 1.90]". An end that differs from 1 gets up to two
/// more decimals so that it is not shown as 1: "[0.996, 1.020]".
[[nodiscard]] std::string format_interval(const Interval& interval);
/// A ratio: "1.87x".
[[nodiscard]] std::string format_factor(double factor);
/// format_significant() without zeros at the end: "12", "0.5", "6e-6".
[[nodiscard]] std::string format_brief(double value);
/// The same with a sign: "+12", "-0.5"; zero has none.
[[nodiscard]] std::string format_signed(double value);
/// A p-value with three decimals, none of which hides that it is neither 0 nor 1 (American Psychological Association,
/// 7th edition, section 6.36): "<0.001", "0.049", ">0.999".
[[nodiscard]] std::string format_p(double p);

enum class Align : std::uint8_t { kLeft, kRight };

/// The formats in which a column is shown.
enum class Shown : std::uint8_t { kEverywhere, kOnlyInCsv };

struct Column {
  std::string header;
  Align align = Align::kRight;
  /// The order of omission in a terminal that is too narrow: 0 always stays; the column with the largest number goes
  /// first.
  int priority = 0;
  /// Names of its values in CSV, with their units; by default the header in snake_case.
  std::vector<std::string> fields = {};
  /// Least width of a left-aligned column before others are omitted; its cells then take several lines.
  std::size_t least = 20;
  Shown shown = Shown::kEverywhere;
};

/// The displayed text of a cell, and its values in CSV: one for each field of its column, or none if they are
/// unknown.
struct Cell {
  Cell(std::string shown);                               // NOLINT(google-explicit-constructor): a text is a cell
  Cell(const char* shown) : Cell(std::string(shown)) {}  // NOLINT(google-explicit-constructor)
  Cell(std::string shown, std::vector<std::string> exact) : text(std::move(shown)), values(std::move(exact)) {}
  std::string text;
  std::vector<std::string> values;
};
/// A number in CSV form, with all its digits.
[[nodiscard]] std::string exact_number(double value);
/// Cells with numeric values in CSV: times and ends of intervals in ms, factors, bytes. Absent values show "-".
[[nodiscard]] Cell count_cell(std::int64_t count);
[[nodiscard]] Cell ms_cell(std::optional<double> ms);
[[nodiscard]] Cell interval_ms_cell(const std::optional<Interval>& interval_ms);
[[nodiscard]] Cell factor_cell(std::optional<double> factor);
/// The factor of the baseline over itself: "baseline", in CSV 1.
[[nodiscard]] Cell baseline_cell();
[[nodiscard]] Cell interval_cell(const std::optional<Interval>& interval);
[[nodiscard]] Cell bytes_cell(std::optional<std::int64_t> bytes);
/// A number with its displayed text.
[[nodiscard]] Cell number_cell(double value, std::string shown);
/// A cell of a row to which the column does not apply: displayed text, and no value in CSV.
[[nodiscard]] inline Cell no_value(std::string shown = "-") { return {std::move(shown), {}}; }

/// Rows and columns of cells, in the formats of terminals and of other programs.
class Table {
 public:
  static constexpr std::size_t kAnyWidth = ~std::size_t{0};

  /// Adds a column; all columns come before the first row.
  void add_column(Column column);
  void add_column(std::string header, Align align = Align::kRight) {
    add_column(Column{.header = std::move(header), .align = align});
  }
  /// Adds a row with a cell for every column; throws std::logic_error for another number of cells, and for a cell
  /// whose number of values differs from its column's fields.
  void add_row(std::vector<Cell> cells);
  /// Draws a rule before the next row.
  void add_rule();
  [[nodiscard]] bool is_empty() const { return rows_.empty(); }

  /// For a terminal of `width` columns: two blanks between columns, a rule under the header, no trailing blanks, each
  /// line ended by a newline. If that is too wide, headers and left-aligned cells first take several lines. Then
  /// columns are omitted by priority; a line below names them and ends in `all_are_in`. Words are broken only if that
  /// is still too wide. No text is cut.
  [[nodiscard]] std::string render(std::size_t width = kAnyWidth, std::string_view all_are_in = {}) const;
  /// All columns and fields, with all digits (RFC 4180, lines ended by a newline).
  [[nodiscard]] std::string to_csv() const;
  /// A GitHub Markdown table with the same content as on a wide terminal.
  [[nodiscard]] std::string to_markdown() const;
  /// A tabular environment with the rules of the package booktabs, with the same content as on a wide terminal.
  [[nodiscard]] std::string to_latex() const;

 private:
  /// A rule has no cells.
  using Row = std::vector<Cell>;
  /// The columns shown in a terminal, and their widths.
  struct Layout;
  [[nodiscard]] Layout lay_out(std::size_t width) const;
  void keep_words(Layout& layout, const std::vector<std::size_t>& words) const;
  [[nodiscard]] std::vector<std::size_t> shown_columns() const;
  [[nodiscard]] std::size_t full_width(std::size_t column) const;
  [[nodiscard]] std::size_t least_width(std::size_t column) const;
  [[nodiscard]] std::size_t word_width(std::size_t column) const;
  [[nodiscard]] std::string name_of(std::size_t column) const;
  void append_row(std::string& out, const Layout& layout, const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace headroom
