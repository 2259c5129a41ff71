#pragma once

#include <string>
#include <string_view>

#include "base/text/pcre2.hpp"

namespace headroom {

/// Selects modules of a network by a key of PEFT's alpha_pattern and rank_pattern. The key is a regular expression that
/// matches a module's whole name, or its part after a dot: "to_q" and "attn\.to_[qk]" select "blocks.0.attn.to_q".
/// Source: get_pattern_key in peft 0.21.
class ModulePattern {
 public:
  /// Throws Error that starts with `context` if the key is not a regular expression, or is too long.
  ModulePattern(std::string_view key, std::string_view context);

  /// Throws Error if the match takes too many steps.
  [[nodiscard]] bool matches(std::string_view module) const;

 private:
  std::string key_;
  std::string context_;
  pcre2::Code code_;
};

}  // namespace headroom
