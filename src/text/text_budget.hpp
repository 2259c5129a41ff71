#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace headroom {

/// Limits the work of a tokenizer's steps on one text. A malicious tokenizer file could make it endless:
/// normalizers may multiply a text, and regular expressions may backtrack exponentially. Work is counted, not
/// timed: a byte that a step reads or writes, or a step of a regular expression, is 1. Published tokenizers take
/// less than a sixth of the limit.
class TextBudget {
 public:
  /// `source` names the tokenizer's file in the Error.
  TextBudget(std::string_view source, std::size_t text_bytes);

  /// Throws Error if the budget is exhausted.
  void spend(std::uint64_t work);
  /// The same without an Error; returns false if the budget is exhausted.
  [[nodiscard]] bool take(std::uint64_t work) noexcept;
  [[noreturn]] void fail_spent() const;

  [[nodiscard]] const std::string& source() const noexcept { return source_; }

 private:
  std::string source_;
  std::size_t text_bytes_;
  std::uint64_t total_;
  std::uint64_t left_;
};

}  // namespace headroom
