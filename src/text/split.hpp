#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/regex.hpp"

namespace headroom {

/// What becomes of the matches that a text is split at; the names are tokenizer.json's.
enum class SplitBehavior : std::uint8_t {
  kRemoved,             ///< they are left out
  kIsolated,            ///< each is a part of its own
  kMergedWithPrevious,  ///< each belongs to the part before it, the second of two that follow each other to none
  kMergedWithNext,      ///< each belongs to the part behind it, the first of two that follow each other to none
  kContiguous,          ///< those that follow each other are one part
};

/// Parts of `text`, none of them empty. With `invert`, what lies between the matches counts as matched.
[[nodiscard]] std::vector<Span> split_at(std::string_view text, std::span<const Span> matches, SplitBehavior behavior,
                                         bool invert = false);

}  // namespace headroom
