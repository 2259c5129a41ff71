#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "text/regex.hpp"
#include "text/section.hpp"
#include "text/split.hpp"
#include "text/text_budget.hpp"

namespace headroom {

/// The second step of a tokenizer: splits a text into words, which the model encodes independently.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// No section is empty, before or after. Charges `budget` for their bytes and those of the result. Throws Error
  /// if it is exhausted.
  void apply(std::vector<Section>& sections, TextBudget& budget) const {
    for (const Section& section : sections) budget.spend(section.text.size() + 1);
    do_apply(sections, budget);
  }

 private:
  virtual void do_apply(std::vector<Section>& sections, TextBudget& budget) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

[[nodiscard]] PreTokenizerPtr split_words(Regex pattern, SplitBehavior behavior, bool invert);
/// Splits at white space, which is dropped.
[[nodiscard]] PreTokenizerPtr split_white_space();

/// The texts to which Metaspace prepends its mark, if they do not begin with it.
enum class PrependScheme : std::uint8_t { kAlways, kFirst, kNever };
/// Replaces spaces by `mark`; with `split`, each mark begins a word.
[[nodiscard]] PreTokenizerPtr metaspace(std::string mark, PrependScheme scheme, bool split);

struct ByteLevelOptions {
  bool add_prefix_space = false;  ///< before a text that does not begin with one
  bool split = true;              ///< into GPT-2's words
};
/// Maps bytes to GPT-2's alphabet.
[[nodiscard]] PreTokenizerPtr byte_level(ByteLevelOptions options);

/// Steps in sequence; without steps, a text is one word.
[[nodiscard]] PreTokenizerPtr in_sequence(std::vector<PreTokenizerPtr> steps);

/// Parses a pre-tokenizer of tokenizer.json, where `null` is none. Throws Error for unknown content.
[[nodiscard]] PreTokenizerPtr parse_pre_tokenizer(const nlohmann::json& value, const std::string& context);

}  // namespace headroom
