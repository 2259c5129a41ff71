#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Wraps text to a terminal's width.
namespace headroom {

/// Columns that UTF-8 `text` takes on a terminal: combining marks take none, East Asian wide characters and emoji two
/// (Unicode Standard Annex 11). A byte that is not UTF-8 counts as one.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// Rules for breaking a line.
struct WrapRule {
  std::size_t width = 0;   ///< columns of a line, at least 1
  std::size_t indent = 0;  ///< blanks before every line but the first; less than `width`
  /// A word that does not fit in a line is broken after one of these characters.
  std::string_view separators = "+,|";
  /// Whether a word that still does not fit is broken between any two characters; otherwise its line is longer than
  /// `width`.
  bool breaks_words = false;
};
/// Breaks one line into lines of at most `rule.width` columns, at blanks if possible. Blanks at a break are removed;
/// those at the beginning stay.
[[nodiscard]] std::vector<std::string> wrap_line(std::string_view line, const WrapRule& rule);

/// Breaks each line of a text into lines of at most `width` columns. Continuation lines are indented by two columns
/// more than the first.
[[nodiscard]] std::string wrap_text(std::string_view text, std::size_t width);

}  // namespace headroom
