#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace headroom {

/// The treatment of the matches at which a text is split, named as in tokenizer.json.
enum class SplitBehavior : std::uint8_t {
  kRemoved,             ///< they are dropped
  kIsolated,            ///< each is a separate part
  kMergedWithPrevious,  ///< each is appended to the part before it, unless that is a match too
  kMergedWithNext,      ///< each is prepended to the part after it, unless that is a match too
  kContiguous,          ///< consecutive matches are one part
};

/// The non-empty parts of `text`. With `invert`, the text between the matches counts as matched.
[[nodiscard]] std::vector<Span> split_at(std::string_view text, std::span<const Span> matches, SplitBehavior behavior,
                                         bool invert = false);

}  // namespace headroom
