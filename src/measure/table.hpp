#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/format.hpp"
#include "measure/statistics.hpp"

/// Figures as text for people at a terminal, beside those of base/format.hpp, and tables of them.
namespace headroom {

/// A time: "35.1 us", "482 ms", "1.24 s", "20.0 min", "3.50 h". A difference keeps its sign. Zero is "0 ms".
[[nodiscard]] std::string format_ms(double ms);
/// An interval of times in one unit, that of its high end: "[480, 485] ms".
[[nodiscard]] std::string format_interval_ms(const Interval& interval_ms);
/// An interval of factors or other plain numbers: "[1.85, 1.90]".
[[nodiscard]] std::string format_interval(const Interval& interval);
/// A ratio: "1.87x".
[[nodiscard]] std::string format_factor(double factor);

/// Columns that UTF-8 `text` takes on a terminal: combining marks take none, East Asian wide characters and emoji two
/// (Unicode Standard Annex 11). A byte that is not UTF-8 counts as one.
[[nodiscard]] std::size_t display_width(std::string_view text);

enum class Align : std::uint8_t { kLeft, kRight };

/// A table in plain text: two spaces between columns, a rule under the header, no trailing blanks.
class Table {
 public:
  /// Adds a column; all columns come before the first row.
  void add_column(std::string header, Align align = Align::kRight);
  /// Adds a row with a cell for every column; throws std::logic_error for another number.
  void add_row(std::vector<std::string> cells);
  /// Draws a rule before the next row.
  void add_rule();

  /// The lines, each ended by a newline.
  [[nodiscard]] std::string render() const;

 private:
  struct Column {
    std::string header;
    Align align;
  };
  [[nodiscard]] std::vector<std::size_t> column_widths() const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;  // an empty row stands for a rule
};

}  // namespace headroom
