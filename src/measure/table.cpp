#include "measure/table.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.hpp"
#include "base/printable.hpp"
#include "base/utf8.hpp"

namespace headroom {
namespace {

constexpr std::size_t kColumnGap = 2;

constexpr std::array<Unit, 6> kTimeUnits = {
    {{1e-6, "ns"}, {1e-3, "us"}, {1, "ms"}, {1e3, "s"}, {60e3, "min"}, {3600e3, "h"}}};

struct CodePointRange {
  char32_t first;
  char32_t last;
};
// Marks that combine with the character before, joiners and variation selectors (general categories Mn, Me and Cf).
constexpr std::array<CodePointRange, 9> kZeroWidth = {{{0x0300, 0x036F},
                                                       {0x0483, 0x0489},
                                                       {0x0591, 0x05BD},
                                                       {0x064B, 0x065F},
                                                       {0x1AB0, 0x1AFF},
                                                       {0x1DC0, 0x1DFF},
                                                       {0x200B, 0x200F},
                                                       {0x20D0, 0x20FF},
                                                       {0xFE00, 0xFE0F}}};
// East_Asian_Width W and F (Unicode Standard Annex 11), by block.
constexpr std::array<CodePointRange, 11> kDoubleWidth = {{{0x1100, 0x115F},
                                                          {0x2E80, 0x303E},
                                                          {0x3041, 0xA4CF},
                                                          {0xA960, 0xA97C},
                                                          {0xAC00, 0xD7A3},
                                                          {0xF900, 0xFAFF},
                                                          {0xFE30, 0xFE6F},
                                                          {0xFF01, 0xFF60},
                                                          {0xFFE0, 0xFFE6},
                                                          {0x1F300, 0x1FAFF},
                                                          {0x20000, 0x3FFFD}}};

bool is_in(std::span<const CodePointRange> ranges, char32_t code_point) {
  return std::ranges::any_of(
      ranges, [=](const CodePointRange& range) { return range.first <= code_point && code_point <= range.last; });
}

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
}

std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string blanks(width - display_width(cell), ' ');
  return align == Align::kLeft ? cell + blanks : blanks + cell;
}

}  // namespace

std::string format_ms(double ms) {
  if (ms == 0) return "0 ms";
  const Unit& unit = choose_unit(kTimeUnits, ms);
  return fmt::format("{} {}", format_significant(ms / unit.size), unit.name);
}

std::string format_interval_ms(const Interval& interval_ms) {
  const Unit& unit = choose_unit(kTimeUnits, std::max(std::abs(interval_ms.low), std::abs(interval_ms.high)));
  return fmt::format("[{}, {}] {}", format_significant(interval_ms.low / unit.size),
                     format_significant(interval_ms.high / unit.size), unit.name);
}

std::string format_interval(const Interval& interval) {
  return fmt::format("[{}, {}]", format_significant(interval.low), format_significant(interval.high));
}

std::string format_factor(double factor) { return format_significant(factor) + "x"; }

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    text.remove_prefix(first.bytes);
    if (is_in(kZeroWidth, first.code)) continue;
    width += is_in(kDoubleWidth, first.code) ? 2 : 1;
  }
  return width;
}

void Table::add_column(std::string header, Align align) {
  HR_CHECK(rows_.empty());
  columns_.push_back({std::move(header), align});
}

void Table::add_row(std::vector<std::string> cells) {
  HR_CHECK_EQ(cells.size(), columns_.size());
  HR_CHECK(!cells.empty());
  for (std::string& cell : cells) cell = printable_name(cell);
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::column_widths() const {
  std::vector<std::size_t> widths;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = display_width(columns_[column].header);
    for (const auto& row : rows_) {
      if (!row.empty()) width = std::max(width, display_width(row[column]));
    }
    widths.push_back(width);
  }
  return widths;
}

std::string Table::render() const {
  const std::vector<std::size_t> widths = column_widths();
  std::string rule;
  for (const std::size_t width : widths) rule += std::string(width, '-') + std::string(kColumnGap, ' ');
  std::string out;
  const auto append_cells = [&](const auto& cell_of) {
    std::string line;
    for (std::size_t column = 0; column < columns_.size(); ++column) {
      if (column > 0) line.append(kColumnGap, ' ');
      line += padded(cell_of(column), widths[column], columns_[column].align);
    }
    append_line(out, std::move(line));
  };
  append_cells([&](std::size_t column) -> const std::string& { return columns_[column].header; });
  append_line(out, rule);
  for (const auto& row : rows_) {
    if (row.empty()) {
      append_line(out, rule);
    } else {
      append_cells([&](std::size_t column) -> const std::string& { return row[column]; });
    }
  }
  return out;
}

}  // namespace headroom
