#include "base/printable.hpp"

#include <fmt/format.h>

#include <iterator>

#include "base/utf8.hpp"

namespace headroom {
namespace {

std::string escape(std::string_view text, std::string_view kept) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Character first = first_character(text);
    const std::string_view bytes = text.substr(0, first.bytes);
    text.remove_prefix(first.bytes);
    if (first.is_valid && (!is_control(first.code) || kept.find(bytes) != std::string_view::npos))
      out += bytes;
    else if (bytes.size() == 1)
      fmt::format_to(std::back_inserter(out), "\\x{:02x}", static_cast<unsigned char>(bytes.front()));
    else
      fmt::format_to(std::back_inserter(out), "\\u{:04x}", static_cast<unsigned>(first.code));
  }
  return out;
}

}  // namespace

std::string printable(std::string_view text) { return escape(text, "\n\t"); }

std::string printable_name(std::string_view name) { return escape(name, ""); }

}  // namespace headroom
