#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/text/pcre2.hpp"
#include "text/text_budget.hpp"

namespace headroom {

/// Bytes [begin, end) of a text.
struct Span {
  std::size_t begin = 0;
  std::size_t end = 0;

  [[nodiscard]] std::size_t size() const { return end - begin; }
  [[nodiscard]] std::string_view of(std::string_view text) const { return text.substr(begin, size()); }
  friend bool operator==(const Span&, const Span&) = default;
};

/// A regular expression over characters, as in tokenizer.json. These are written for Oniguruma and run by PCRE2.
/// Some constructs differ between the two. \s and \S, which are White_Space, are translated. The others are refused:
/// \w, \b, single bytes of characters and more, which no known tokenizer uses. Thread-safe.
class Regex {
 public:
  /// Throws Error if the pattern is malformed, refused or too long; `context` names its source.
  Regex(std::string_view pattern, std::string_view context);
  /// A pattern that matches exactly `text`.
  [[nodiscard]] static Regex literal(std::string_view text, std::string_view context);

  /// All non-empty matches in the UTF-8 text `text`, from front to back and without overlap. Charges `budget` for
  /// each tried item of the pattern and for each scanned character. Throws Error if it is exhausted.
  [[nodiscard]] std::vector<Span> find_all(std::string_view text, TextBudget& budget) const;

 private:
  Regex(std::string_view pattern, unsigned options, std::string_view context);
  pcre2::Code code_;
};

}  // namespace headroom
