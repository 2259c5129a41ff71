#include "base/text/printable.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

/// Escapes invalid bytes, and control characters other than `kept`.
template <typename IsKept>
std::string escape(std::string_view text, const IsKept& is_kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    const std::string_view bytes = text.substr(0, first.bytes);
    text.remove_prefix(first.bytes);
    if (first.is_valid && (!is_control(first.code) || is_kept(bytes)))
      out += bytes;
    else if (bytes.size() == 1)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(bytes.front()));
    else
      out += fmt::format("\\u{:04x}", static_cast<unsigned>(first.code));
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) {
  return escape(text, [](std::string_view character) { return character == "\n" || character == "\t"; });
}

std::string printable_name(std::string_view name) {
  return escape(name, [](std::string_view) { return false; });
}

std::string well_formed(std::string_view text) {
  return escape(text, [](std::string_view) { return true; });
}

std::string shortened(std::string_view text, std::size_t most_bytes) {
  constexpr std::string_view kGap = "...";
  HR_CHECK_LE(kGap.size(), most_bytes);
  if (text.size() <= most_bytes) return std::string(text);
  const auto is_inside = [&](std::size_t at) { return (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80; };
  // Keeps three quarters at the front: a message begins with the file and ends with the expected value.
  std::size_t front = (most_bytes - kGap.size()) / 4 * 3;
  std::size_t back = text.size() - (most_bytes - kGap.size() - front);
  while (front > 0 && is_inside(front)) --front;
  while (back < text.size() && is_inside(back)) ++back;
  return fmt::format("{}{}{}", text.substr(0, front), kGap, text.substr(back));
}

}  // namespace headroom
