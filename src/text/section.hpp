#pragma once

#include <string>

namespace headroom {

/// A part of the text that is to be encoded, on its way through normalizer and pre-tokenizer.
struct Section {
  std::string text;
  bool at_start = false;  ///< whether it begins with what the caller's text begins with
};

}  // namespace headroom
