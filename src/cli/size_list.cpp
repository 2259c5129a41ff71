#include "cli/size_list.hpp"

#include <fmt/format.h>

#include <optional>

#include "base/error.hpp"
#include "base/text/list.hpp"

namespace headroom {
namespace {

constexpr std::string_view kOwnSize = "own";

/// A side of an image in decimal, without sign or leading zeros; empty if invalid.
std::optional<std::int64_t> parse_side(std::string_view text, std::int64_t high) {
  if (text.empty() || text.front() == '0') return std::nullopt;
  std::int64_t side = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    side = 10 * side + (digit - '0');
    if (side > high) return std::nullopt;
  }
  return side;
}

}  // namespace

std::vector<ImageSize> parse_sizes(const std::vector<std::string>& lists, std::string_view option, std::int64_t high) {
  std::vector<ImageSize> sizes;
  const auto refuse = [&](std::string_view item) {
    fail_usage(
        "{}: '{}' is neither a size such as 512x768, width and height from 1 to {}, nor one number for both, nor '{}'",
        option, item, high, kOwnSize);
  };
  for (const std::string& list : lists)
    for (const std::string& item : split_list(list, option)) {
      if (item == kOwnSize) {
        sizes.emplace_back();
        continue;
      }
      const std::string_view text = item;
      const std::size_t cross = text.find('x');
      const std::optional<std::int64_t> width = parse_side(text.substr(0, cross), high);
      const std::optional<std::int64_t> height =
          cross == std::string_view::npos ? width : parse_side(text.substr(cross + 1), high);
      if (!width || !height) refuse(item);
      sizes.push_back({.height = *height, .width = *width});
    }
  if (sizes.empty()) refuse("");
  return sizes;
}

std::string size_text(const ImageSize& size) {
  return size == ImageSize{} ? std::string(kOwnSize) : fmt::format("{}x{}", size.width, size.height);
}

}  // namespace headroom
