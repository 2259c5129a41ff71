#include "measure/tables/wrap.hpp"

#include <algorithm>
#include <array>
#include <span>

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

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

/// Text without trailing blanks.
std::string_view without_blanks(std::string_view text) { return text.substr(0, text.find_last_not_of(' ') + 1); }

/// Collects the lines of a line that is being broken.
class LineBreaker {
 public:
  explicit LineBreaker(const WrapRule& rule) : rule_(rule) { HR_CHECK(rule.indent < rule.width); }

  std::vector<std::string> wrap(std::string_view line) {
    const std::size_t begin = std::min(line.find_first_not_of(' '), line.size());
    line_ = line.substr(0, begin);
    line.remove_prefix(begin);
    while (!line.empty()) {
      const std::size_t end = std::min(line.find(' '), line.size());
      add_word(line.substr(0, end));
      line.remove_prefix(end);
      const std::size_t blanks = std::min(line.find_first_not_of(' '), line.size());
      blanks_.assign(blanks, ' ');
      line.remove_prefix(blanks);
    }
    if (has_text_ || lines_.empty()) flush();
    return std::move(lines_);
  }

 private:
  [[nodiscard]] bool fits(std::string_view text) const {
    return display_width(line_) + blanks_.size() + display_width(text) <= rule_.width;
  }
  [[nodiscard]] bool fits_in_a_line(std::string_view text) const {
    return rule_.indent + display_width(text) <= rule_.width;
  }

  void append(std::string_view text) {
    line_ += blanks_;
    line_ += text;
    blanks_.clear();
    has_text_ = true;
  }

  void flush() {
    lines_.emplace_back(without_blanks(line_));
    line_.assign(rule_.indent, ' ');
    blanks_.clear();
    has_text_ = false;
  }

  void add_word(std::string_view word) {
    if (fits(word)) return append(word);
    if (fits_in_a_line(word)) {
      if (has_text_) flush();
      return append(word);
    }
    while (!word.empty()) {
      const std::size_t end = std::min(word.find_first_of(rule_.separators), word.size() - 1) + 1;
      add_part(word.substr(0, end));
      word.remove_prefix(end);
    }
  }

  /// A word, or the part of it between two separators.
  void add_part(std::string_view part) {
    if (!fits(part) && has_text_) flush();
    if (!rule_.breaks_words) return append(part);
    while (!fits(part)) {
      const std::size_t bytes = bytes_that_fit(part);
      append(part.substr(0, bytes));
      flush();
      part.remove_prefix(bytes);
    }
    if (!part.empty()) append(part);
  }

  /// Splits off the beginning of the part: at least one character, so that every line has one.
  [[nodiscard]] std::size_t bytes_that_fit(std::string_view part) const {
    std::size_t bytes = first_character(part).bytes;
    while (bytes < part.size()) {
      const std::size_t next = bytes + first_character(part.substr(bytes)).bytes;
      if (!fits(part.substr(0, next))) break;
      bytes = next;
    }
    return bytes;
  }

  const WrapRule& rule_;
  std::vector<std::string> lines_;
  std::string line_;       // the current line
  std::string blanks_;     // blanks before its next word
  bool has_text_ = false;  // the line has a word
};

}  // namespace

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

std::vector<std::string> wrap_line(std::string_view line, const WrapRule& rule) { return LineBreaker(rule).wrap(line); }

std::string wrap_text(std::string_view text, std::size_t width) {
  constexpr std::size_t kMore = 2;
  std::string wrapped;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    const std::size_t indent = std::min(line.find_first_not_of(' '), line.size()) + kMore;
    for (const std::string& part : wrap_line(line, {.width = width, .indent = indent < width ? indent : 0}))
      wrapped += part + '\n';
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return wrapped;
}

}  // namespace headroom
