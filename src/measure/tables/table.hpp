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

/// Figures as text for people, beside those of base/text/format.hpp, and tables of them: for a terminal, as CSV, Markdown and
/// LaTeX.
namespace headroom {

/// A time: "35.1 µs", "482 ms", "1.24 s", "20.0 min", "3.50 h". A difference keeps its sign. Zero is "0 ms".
[[nodiscard]] std::string format_ms(double ms);
/// An interval of times in one unit, that of its larger end, with as many decimals as that end has: "[0.98, 1.01] s".
[[nodiscard]] std::string format_interval_ms(const Interval& interval_ms);
/// An interval of factors or other plain numbers, likewise: "[1.85, 1.90]". An end that is not 1 is not shown as 1 where
/// two decimals more can tell: "[0.996, 1.020]".
[[nodiscard]] std::string format_interval(const Interval& interval);
/// A ratio: "1.87x".
[[nodiscard]] std::string format_factor(double factor);

enum class Align : std::uint8_t { kLeft, kRight };

/// Where a column is shown.
enum class Shown : std::uint8_t { kEverywhere, kOnlyInCsv };

struct Column {
  std::string header;
  Align align = Align::kRight;
  /// What becomes of it in a terminal that is too narrow: 0 stays, of others that with the largest number goes first.
  int priority = 0;
  /// Names of its values in CSV, with their units; unless given one, the header in snake_case.
  std::vector<std::string> fields = {};
  /// Columns that a left-aligned one keeps at least before others go; its cells then take several lines.
  std::size_t least = 20;
  Shown shown = Shown::kEverywhere;
};

/// What a cell shows, and its values in CSV: one for each field of its column, or none of what is not known.
struct Cell {
  Cell(std::string shown);                               // NOLINT(google-explicit-constructor): a text is a cell
  Cell(const char* shown) : Cell(std::string(shown)) {}  // NOLINT(google-explicit-constructor)
  Cell(std::string shown, std::vector<std::string> exact) : text(std::move(shown)), values(std::move(exact)) {}
  std::string text;
  std::vector<std::string> values;
};
/// A number as CSV has it: all its digits.
[[nodiscard]] std::string exact_number(double value);
/// Cells whose values in CSV are numbers: times and ends of intervals in ms, factors, bytes. What is absent shows "-".
[[nodiscard]] Cell count_cell(std::int64_t count);
[[nodiscard]] Cell ms_cell(std::optional<double> ms);
[[nodiscard]] Cell interval_ms_cell(const std::optional<Interval>& interval_ms);
[[nodiscard]] Cell factor_cell(std::optional<double> factor);
[[nodiscard]] Cell interval_cell(const std::optional<Interval>& interval);
[[nodiscard]] Cell bytes_cell(std::optional<std::int64_t> bytes);
/// A number with what it is shown as.
[[nodiscard]] Cell number_cell(double value, std::string shown);
/// What a column has of a row that cannot have it: shown, and no value in CSV.
[[nodiscard]] inline Cell no_value(std::string shown = "-") { return {std::move(shown), {}}; }

/// Rows and columns of cells, in the forms in which people and programs read them.
class Table {
 public:
  static constexpr std::size_t kAnyWidth = ~std::size_t{0};

  /// Adds a column; all columns come before the first row.
  void add_column(Column column);
  void add_column(std::string header, Align align = Align::kRight) {
    add_column(Column{.header = std::move(header), .align = align});
  }
  /// Adds a row with a cell for every column; throws std::logic_error for another number, and for a cell with another
  /// number of values than its column has fields.
  void add_row(std::vector<Cell> cells);
  /// Draws a rule before the next row.
  void add_rule();
  [[nodiscard]] bool is_empty() const { return rows_.empty(); }

  /// For a terminal of `width` columns: two blanks between columns, a rule under the header, no trailing blanks, and
  /// each line ended by a newline. Where that is too wide, first headers and left-aligned cells take several lines, then
  /// columns are left out by priority, with a line below that names them and ends in `all_are_in`. No text is cut.
  [[nodiscard]] std::string render(std::size_t width = kAnyWidth, std::string_view all_are_in = {}) const;
  /// All columns and fields, with all digits (RFC 4180, lines ended by a newline).
  [[nodiscard]] std::string to_csv() const;
  /// A table of GitHub's Markdown, with what a wide terminal shows.
  [[nodiscard]] std::string to_markdown() const;
  /// A tabular environment with the rules of the package booktabs, with what a wide terminal shows.
  [[nodiscard]] std::string to_latex() const;

 private:
  /// A rule has no cells.
  using Row = std::vector<Cell>;
  /// The columns that a terminal gets, and how wide they are.
  struct Layout;
  [[nodiscard]] Layout lay_out(std::size_t width) const;
  [[nodiscard]] std::vector<std::size_t> shown_columns() const;
  [[nodiscard]] std::size_t full_width(std::size_t column) const;
  [[nodiscard]] std::size_t least_width(std::size_t column) const;
  [[nodiscard]] std::string name_of(std::size_t column) const;
  void append_row(std::string& out, const Layout& layout, const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  std::vector<Row> rows_;
};

}  // namespace headroom
