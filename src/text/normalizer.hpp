#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/charsmap.hpp"
#include "text/regex.hpp"
#include "text/section.hpp"
#include "text/text_budget.hpp"
#include "text/unicode.hpp"

namespace headroom {

/// The first step of a tokenizer: maps equivalent texts to the same text.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Charges `budget` for the bytes of the text and of the result. Throws Error if it is exhausted.
  void apply(Section& section, TextBudget& budget) const {
    budget.spend(section.text.size() + 1);
    do_apply(section, budget);
  }

 private:
  virtual void do_apply(Section& section, TextBudget& budget) const = 0;
};
using NormalizerPtr = std::unique_ptr<const Normalizer>;

[[nodiscard]] NormalizerPtr normal_form(NormalForm form);
[[nodiscard]] NormalizerPtr lower_case();
[[nodiscard]] NormalizerPtr strip(bool left, bool right);
[[nodiscard]] NormalizerPtr replace(Regex pattern, std::string content);
/// Prepends `prefix` to a non-empty text.
[[nodiscard]] NormalizerPtr prepend(std::string prefix);
/// Applies a character map as the library `tokenizers` does. A grapheme of less than six bytes is replaced as a
/// whole by the replacement of the shortest match at its beginning; otherwise each character is mapped.
[[nodiscard]] NormalizerPtr map_characters(Charsmap map);
/// Steps in sequence; without steps, texts are unchanged.
[[nodiscard]] NormalizerPtr in_sequence(std::vector<NormalizerPtr> steps);

/// Parses a normalizer of tokenizer.json, where `null` is no normalizer. Throws Error for unknown content;
/// `context` names its position.
[[nodiscard]] NormalizerPtr parse_normalizer(const nlohmann::json& value, const std::string& context);

}  // namespace headroom
