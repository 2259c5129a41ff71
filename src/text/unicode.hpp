#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

/// Unicode functions for tokenizers. All texts must be UTF-8; check_utf8() ensures it.
namespace headroom {

/// Throws Error with the first byte that begins no well-formed sequence. `what` names the text in the sentence.
void check_utf8(std::string_view text, std::string_view what = "the text");

void append_utf8(std::string& text, char32_t code);

/// Normalization forms of UAX 15.
enum class NormalForm : std::uint8_t { kNfc, kNfd, kNfkc, kNfkd };
[[nodiscard]] std::string to_normal_form(std::string_view text, NormalForm form);
/// Approximate number of steps that to_normal_form() takes to order combining characters: quadratic in the length
/// of their runs.
[[nodiscard]] std::uint64_t cost_of_reordering(std::string_view text);

/// Lower case of each character, without context: a final sigma is like any other, and U+0130 becomes an i and a
/// dot above.
[[nodiscard]] std::string to_lower_case(std::string_view text);

/// The property White_Space.
[[nodiscard]] bool is_white_space(char32_t code);
/// Bytes of white space at the beginning or end of `text`.
[[nodiscard]] std::size_t leading_white_space(std::string_view text);
[[nodiscard]] std::size_t trailing_white_space(std::string_view text);

/// The bytes of the first extended grapheme cluster (UAX 29) of `text`, which must not be empty.
[[nodiscard]] std::size_t first_grapheme(std::string_view text);

}  // namespace headroom
