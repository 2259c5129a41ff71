#include "measure/tables/table.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/error.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

constexpr std::size_t kColumnGap = 2;
constexpr std::size_t kIndentOfMore = 2;               // of continuation lines in a cell of the first column
constexpr std::string_view kSeparators = "+,/_.:=-|";  // after which a word may be broken

void append_line(std::string& out, std::string line) {
  line.erase(line.find_last_not_of(' ') + 1);
  out += line;
  out += '\n';
}

std::string padded(const std::string& cell, std::size_t width, Align align) {
  const std::string blanks(width - display_width(cell), ' ');
  return align == Align::kLeft ? cell + blanks : blanks + cell;
}

/// The longest part of a text between blanks, and after `separators`.
std::size_t longest_word(std::string_view text, std::string_view separators = {}) {
  std::size_t longest = 0, begin = 0;
  const auto end_word = [&](std::size_t end) {
    longest = std::max(longest, display_width(text.substr(begin, end - begin)));
    begin = end;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') {
      end_word(i);
      begin = i + 1;
    } else if (separators.find(text[i]) != std::string_view::npos) {
      end_word(i + 1);
    }
  }
  end_word(text.size());
  return longest;
}

}  // namespace

Cell::Cell(std::string shown) : text(std::move(shown)) {
  if (text != "-") values.push_back(text);
}

struct Table::Layout {
  std::vector<std::size_t> columns = {};
  std::vector<std::size_t> widths = {};  ///< width of each of these columns
  std::vector<std::size_t> left_out = {};
  [[nodiscard]] std::size_t width() const {
    return std::reduce(widths.begin(), widths.end()) + kColumnGap * (std::max<std::size_t>(widths.size(), 1) - 1);
  }
};

void Table::add_column(Column column) {
  HR_CHECK(rows_.empty());
  if (column.fields.empty()) {
    std::string field;
    for (const char c : column.header) {
      const bool is_letter = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
      if (is_letter)
        field += c;
      else if (c >= 'A' && c <= 'Z')
        field += static_cast<char>(c - 'A' + 'a');
      else if (!field.empty() && field.back() != '_')
        field += '_';
    }
    column.fields.push_back(std::move(field));
  }
  columns_.push_back(std::move(column));
}

void Table::add_row(std::vector<Cell> cells) {
  HR_CHECK_EQ(cells.size(), columns_.size());
  HR_CHECK(!cells.empty());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (!cells[i].values.empty()) HR_CHECK_EQ(cells[i].values.size(), columns_[i].fields.size());
    cells[i].text = printable_name(cells[i].text);
  }
  rows_.push_back(std::move(cells));
}

void Table::add_rule() { rows_.emplace_back(); }

std::vector<std::size_t> Table::shown_columns() const {
  std::vector<std::size_t> shown;
  for (std::size_t i = 0; i < columns_.size(); ++i)
    if (columns_[i].shown == Shown::kEverywhere) shown.push_back(i);
  return shown;
}

std::size_t Table::full_width(std::size_t column) const {
  std::size_t width = display_width(columns_[column].header);
  for (const Row& row : rows_)
    if (!row.empty()) width = std::max(width, display_width(row[column].text));
  return width;
}

std::size_t Table::least_width(std::size_t column) const {
  const Column& of = columns_[column];
  std::size_t width = longest_word(of.header);
  if (of.align == Align::kLeft) {
    const std::size_t words = std::min(word_width(column), Column{}.least);  // longer ones are broken
    return std::max(width, std::min(std::max(of.least, words), full_width(column)));
  }
  for (const Row& row : rows_)
    if (!row.empty()) width = std::max(width, display_width(row[column].text));
  return width;
}

/// The width below which words of the column would be broken elsewhere than after a separator.
std::size_t Table::word_width(std::size_t column) const {
  const Column& of = columns_[column];
  const std::string_view separators = of.align == Align::kLeft ? kSeparators : std::string_view();
  std::size_t width = longest_word(of.header);
  for (const Row& row : rows_)
    if (!row.empty()) width = std::max(width, longest_word(row[column].text, separators));
  return width;
}

/// The name of an omitted column below the table; a duplicate header is preceded by the previous column's.
std::string Table::name_of(std::size_t column) const {
  const std::string& header = columns_[column].header;
  const bool is_alone = std::ranges::count(columns_, header, &Column::header) == 1;
  return is_alone || column == 0 ? header : header + " (" + columns_[column - 1].header + ")";
}

/// Moves width from columns that need less for their words to those that break some, if no word is broken then.
void Table::keep_words(Layout& layout, const std::vector<std::size_t>& words) const {
  std::vector<std::size_t> wanted;
  for (std::size_t i = 0; i < words.size(); ++i)
    wanted.push_back(std::min(words[i] + (i == 0 ? kIndentOfMore : 0), full_width(layout.columns[i])));
  const auto lacks = [&](std::size_t i) { return layout.widths[i] < wanted[i]; };
  std::size_t lacking = 0, spare = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i)
    (lacks(i) ? lacking : spare) += lacks(i) ? wanted[i] - layout.widths[i] : layout.widths[i] - wanted[i];
  if (lacking > spare) return;
  for (std::size_t to = 0; to < wanted.size(); ++to)
    while (lacks(to)) {
      std::size_t from = 0;
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (!lacks(i) && (lacks(from) || layout.widths[i] - wanted[i] > layout.widths[from] - wanted[from])) from = i;
      --layout.widths[from];
      ++layout.widths[to];
    }
}

Table::Layout Table::lay_out(std::size_t width) const {
  Layout layout{.columns = shown_columns()};
  for (const std::size_t column : layout.columns) layout.widths.push_back(full_width(column));
  if (layout.width() <= width) return layout;
  for (std::size_t i = 0; i < layout.columns.size(); ++i) layout.widths[i] = least_width(layout.columns[i]);
  while (layout.width() > width) {
    std::size_t last = layout.columns.size();  // the column to omit
    int priority = 1;
    for (std::size_t i = 0; i < layout.columns.size(); ++i)
      if (const int own = columns_[layout.columns[i]].priority; own >= priority) {
        priority = own;
        last = i;
      }
    if (last == layout.columns.size()) break;
    layout.left_out.push_back(layout.columns[last]);
    layout.columns.erase(layout.columns.begin() + static_cast<std::ptrdiff_t>(last));
    layout.widths.erase(layout.widths.begin() + static_cast<std::ptrdiff_t>(last));
  }
  std::vector<std::size_t> words;
  for (const std::size_t column : layout.columns) words.push_back(word_width(column));
  while (layout.width() > width) {  // the remaining columns must stay; words are broken last
    std::size_t widest = layout.widths.size();
    bool keeps_words = false;
    for (std::size_t i = 0; i < layout.widths.size(); ++i) {
      if (layout.widths[i] <= kIndentOfMore + 1) continue;
      const bool keeps = layout.widths[i] > words[i];
      if (widest == layout.widths.size() || (keeps && !keeps_words) ||
          (keeps == keeps_words && layout.widths[i] > layout.widths[widest])) {
        widest = i;
        keeps_words = keeps;
      }
    }
    if (widest == layout.widths.size()) break;
    --layout.widths[widest];
  }
  keep_words(layout, words);
  for (bool is_wider = true; is_wider && layout.width() < width;) {  // distribute the remaining width
    is_wider = false;
    for (std::size_t i = 0; i < layout.columns.size() && layout.width() < width; ++i)
      if (layout.widths[i] < full_width(layout.columns[i])) {
        ++layout.widths[i];
        is_wider = true;
      }
  }
  std::ranges::sort(layout.left_out);
  return layout;
}

/// A row with as many lines as its tallest cell.
void Table::append_row(std::string& out, const Layout& layout, const std::vector<std::string>& cells) const {
  std::vector<std::vector<std::string>> lines;
  std::size_t height = 1;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool goes_on_further_in =
        i == 0 && columns_[layout.columns[i]].align == Align::kLeft && layout.widths[i] > kIndentOfMore;
    lines.push_back(wrap_line(cells[i], {.width = layout.widths[i],
                                         .indent = goes_on_further_in ? kIndentOfMore : 0,
                                         .separators = kSeparators,
                                         .breaks_words = true}));
    height = std::max(height, lines.back().size());
  }
  for (std::size_t k = 0; k < height; ++k) {
    std::string line;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (i > 0) line.append(kColumnGap, ' ');
      line += padded(k < lines[i].size() ? lines[i][k] : "", layout.widths[i], columns_[layout.columns[i]].align);
    }
    append_line(out, std::move(line));
  }
}

std::string Table::render(std::size_t width, std::string_view all_are_in) const {
  const Layout layout = lay_out(width);
  std::string rule;
  for (const std::size_t each : layout.widths) rule += std::string(each, '-') + std::string(kColumnGap, ' ');
  const auto texts_of = [&](const auto& text_of) {
    std::vector<std::string> texts;
    for (const std::size_t column : layout.columns) texts.push_back(text_of(column));
    return texts;
  };
  std::string out;
  append_row(out, layout, texts_of([&](std::size_t column) { return columns_[column].header; }));
  append_line(out, rule);
  for (const Row& row : rows_) {
    if (row.empty())
      append_line(out, rule);
    else
      append_row(out, layout, texts_of([&](std::size_t column) { return row[column].text; }));
  }
  if (layout.left_out.empty()) return out;
  std::string note = fmt::format("not shown in {} columns:", width);
  for (const std::size_t column : layout.left_out)
    note += (column == layout.left_out.front() ? " " : ", ") + name_of(column);
  if (!all_are_in.empty()) note += fmt::format(" ({})", all_are_in);
  return out + wrap_text(note, width);
}

}  // namespace headroom
