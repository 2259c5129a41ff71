#include "text/charsmap.hpp"

#include <bit>
#include <cstring>

#include "base/error.hpp"
#include "base/text/utf8.hpp"

namespace headroom {
namespace {

// A unit of a Darts-clone trie: a node, or, if its highest bit is set, the value of its parent node.
bool has_leaf(std::uint32_t unit) { return (unit >> 8U & 1U) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFFU; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FFU; }
std::uint32_t offset_of(std::uint32_t unit) { return unit >> 10U << ((unit & 0x200U) >> 6U); }

bool is_within_character(std::string_view text, std::size_t at) {
  return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80;
}

}  // namespace

Charsmap::Charsmap(std::string_view bytes, std::string_view context) : context_(context) {
  static_assert(std::endian::native == std::endian::little);
  if (bytes.empty()) return;
  std::uint32_t size = 0;
  if (bytes.size() >= sizeof(size)) std::memcpy(&size, bytes.data(), sizeof(size));
  if (size == 0 || size % sizeof(std::uint32_t) != 0 || bytes.size() - sizeof(size) < size || bytes.back() != '\0') {
    fail("{} is not a character map: of its {} bytes {} would be its trie", context, bytes.size(), size);
  }
  units_.resize(size / sizeof(std::uint32_t));
  std::memcpy(units_.data(), bytes.data() + sizeof(size), size);
  replacements_ = bytes.substr(sizeof(size) + size);
  if (replacements_.empty()) fail("{} is not a character map: it has no replacements", context);
  if (!is_utf8(replacements_)) fail("{} is not a character map: its replacements are not UTF-8", context);
}

std::optional<Charsmap::Match> Charsmap::shortest_prefix(std::string_view text) const {
  if (units_.empty()) return std::nullopt;
  // The map comes from an untrusted file: every index is checked, and the trie may contain cycles.
  constexpr std::size_t kLongest = 64;  // bytes; published maps have strings of up to 20
  const auto unit_at = [&](std::uint32_t place) { return place < units_.size() ? units_[place] : 0xFFFFFFFFU; };
  std::uint32_t node = offset_of(units_[0]);
  for (std::size_t i = 0; i < text.size() && text[i] != '\0'; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    node ^= byte;
    const std::uint32_t unit = unit_at(node);
    if (label_of(unit) != byte) return std::nullopt;
    if (i >= kLongest) fail("{} is not a character map: it has strings of more than {} bytes", context_, kLongest);
    node ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    const std::uint32_t at = value_of(unit_at(node));
    if (at >= replacements_.size()) return std::nullopt;
    if (is_within_character(text, i + 1) || is_within_character(replacements_, at))
      fail("{} is not a character map: it maps single bytes of characters", context_);
    return Match{.bytes = i + 1, .replacement = replacements_.c_str() + at};
  }
  return std::nullopt;
}

}  // namespace headroom
