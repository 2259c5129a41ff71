#pragma once

#include <string>

namespace headroom {

/// A part of the text to be encoded, during normalization and pre-tokenization.
struct Section {
  std::string text;
  bool at_start = false;  ///< begins at the beginning of the caller's text
};

}  // namespace headroom
