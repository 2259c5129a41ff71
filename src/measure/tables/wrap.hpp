#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Text in lines of a terminal's width.
namespace headroom {

/// Columns that UTF-8 `text` takes on a terminal: combining marks take none, East Asian wide characters and emoji two
/// (Unicode Standard Annex 11). A byte that is not UTF-8 counts as one.
[[nodiscard]] std::size_t display_width(std::string_view text);

/// How a line is broken.
struct WrapRule {
  std::size_t width = 0;   ///< columns of a line, at least 1
  std::size_t indent = 0;  ///< blanks in front of every line but the first; less than `width`
  /// A word that does not fit in a line is broken behind one of these characters.
  std::string_view separators = "+,|";
  /// A word that does not fit even so is broken between any two characters; else its line is longer than `width`.
  bool breaks_words = false;
};
/// One line as lines of at most `rule.width` columns, broken at blanks where that is possible. Blanks at a break are left
/// out; those at the beginning stay.
[[nodiscard]] std::vector<std::string> wrap_line(std::string_view line, const WrapRule& rule);

/// Each line of a text as lines of at most `width` columns. Lines that a longer one goes on in are indented by two
/// columns more than it is.
[[nodiscard]] std::string wrap_text(std::string_view text, std::size_t width);

}  // namespace headroom
