#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

/// A regular expression over characters, as tokenizer.json holds them: they are written for Oniguruma and run by PCRE2,
/// so the few things that these two read differently are either translated (\s and \S, which are White_Space) or
/// refused (\w, \b, single bytes of characters and others, which no tokenizer known here uses). Safe to use from several
/// threads.
class Regex {
 public:
  /// Throws Error where the pattern is malformed, refused or too long; `context` says where it comes from.
  Regex(std::string_view pattern, std::string_view context);
  /// One that finds `text` as it stands.
  [[nodiscard]] static Regex literal(std::string_view text, std::string_view context);

  /// All matches in `text`, which is UTF-8, from front to back and without overlap; none is empty. Each item of the pattern
  /// that is tried and each character that is gone over is taken from `budget`. Throws Error where that is spent.
  [[nodiscard]] std::vector<Span> find_all(std::string_view text, TextBudget& budget) const;

 private:
  struct Code;
  Regex(std::string_view pattern, unsigned options, std::string_view context);
  std::shared_ptr<const Code> code_;
};

}  // namespace headroom
