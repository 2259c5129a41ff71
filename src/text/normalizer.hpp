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

/// The first step of a tokenizer: texts that are to be read alike become the same text.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  /// Takes from `budget` the bytes of the text and those that are made. Throws Error where it is spent.
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
/// Puts `prefix` before a text that is not empty.
[[nodiscard]] NormalizerPtr prepend(std::string prefix);
/// A character map as the library `tokenizers` applies it: to each grapheme of less than six bytes, which is replaced
/// whole by what the shortest match at its front stands for, and else to each character.
[[nodiscard]] NormalizerPtr map_characters(Charsmap map);
/// One after the other; with no steps, texts stay as they are.
[[nodiscard]] NormalizerPtr in_sequence(std::vector<NormalizerPtr> steps);

/// From tokenizer.json, where `null` is no normalizer. Throws Error for what it does not know; `context` names the
/// place.
[[nodiscard]] NormalizerPtr parse_normalizer(const nlohmann::json& value, const std::string& context);

}  // namespace headroom
