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

/// The second step of a tokenizer: a text becomes words, each of which the model encodes by itself.
class PreTokenizer {
 public:
  virtual ~PreTokenizer() = default;
  /// None of the sections is empty, before or after. Takes from `budget` their bytes and those that are made. Throws Error
  /// where it is spent.
  void apply(std::vector<Section>& sections, TextBudget& budget) const {
    for (const Section& section : sections) budget.spend(section.text.size() + 1);
    do_apply(sections, budget);
  }

 private:
  virtual void do_apply(std::vector<Section>& sections, TextBudget& budget) const = 0;
};
using PreTokenizerPtr = std::unique_ptr<const PreTokenizer>;

[[nodiscard]] PreTokenizerPtr split_words(Regex pattern, SplitBehavior behavior, bool invert);
/// Words between white space, without it.
[[nodiscard]] PreTokenizerPtr split_white_space();

/// Where Metaspace puts its mark before a text that does not begin with it.
enum class PrependScheme : std::uint8_t { kAlways, kFirst, kNever };
/// Spaces become `mark`; with `split` each mark begins a word.
[[nodiscard]] PreTokenizerPtr metaspace(std::string mark, PrependScheme scheme, bool split);

struct ByteLevelOptions {
  bool add_prefix_space = false;  ///< before a text that does not begin with one
  bool split = true;              ///< into GPT-2's words
};
/// Bytes become GPT-2's alphabet.
[[nodiscard]] PreTokenizerPtr byte_level(ByteLevelOptions options);

/// One after the other; with no steps, a text is one word.
[[nodiscard]] PreTokenizerPtr in_sequence(std::vector<PreTokenizerPtr> steps);

/// From tokenizer.json, where `null` is no pre-tokenizer. Throws Error for what it does not know.
[[nodiscard]] PreTokenizerPtr parse_pre_tokenizer(const nlohmann::json& value, const std::string& context);

}  // namespace headroom
