#include "text/split.hpp"

#include <algorithm>

namespace headroom {
namespace {

struct Part {
  Span span;
  bool is_match;
};

/// Covers the whole text with matches and the text between them.
std::vector<Part> cover(std::string_view text, std::span<const Span> matches, bool invert) {
  std::vector<Part> parts;
  std::size_t at = 0;
  for (const Span& match : matches) {
    if (at < match.begin) parts.push_back({{.begin = at, .end = match.begin}, invert});
    parts.push_back({match, !invert});
    at = match.end;
  }
  if (at < text.size()) parts.push_back({{.begin = at, .end = text.size()}, invert});
  return parts;
}

/// Appends to the part before it each part that `belongs` there, given whether the previous part and this part are
/// matches.
template <typename Belongs>
std::vector<Span> join(std::span<const Part> parts, Belongs belongs) {
  std::vector<Span> result;
  bool previous = false;
  for (const Part& part : parts) {
    if (!result.empty() && belongs(previous, part.is_match)) {
      result.back() = {.begin = std::min(result.back().begin, part.span.begin),
                       .end = std::max(result.back().end, part.span.end)};
    } else {
      result.push_back(part.span);
    }
    previous = part.is_match;
  }
  return result;
}

}  // namespace

std::vector<Span> split_at(std::string_view text, std::span<const Span> matches, SplitBehavior behavior, bool invert) {
  std::vector<Part> parts = cover(text, matches, invert);
  const auto first_match = [](bool previous, bool current) { return current && !previous; };
  switch (behavior) {
    case SplitBehavior::kRemoved:
      std::erase_if(parts, &Part::is_match);
      [[fallthrough]];
    case SplitBehavior::kIsolated:
      return join(parts, [](bool, bool) { return false; });
    case SplitBehavior::kContiguous:
      return join(parts, [](bool previous, bool current) { return previous == current; });
    case SplitBehavior::kMergedWithPrevious:
      return join(parts, first_match);
    case SplitBehavior::kMergedWithNext:
      break;
  }
  std::ranges::reverse(parts);
  std::vector<Span> result = join(parts, first_match);
  std::ranges::reverse(result);
  return result;
}

}  // namespace headroom
