#include "text/pre_tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "text/byte_alphabet.hpp"

namespace headroom {
namespace {

void append_parts(const Section& section, const std::vector<Span>& parts, std::vector<Section>& result) {
  for (const Span& part : parts)
    result.push_back({.text = std::string(part.of(section.text)), .at_start = section.at_start && part.begin == 0});
}

class SplitWords final : public PreTokenizer {
 public:
  SplitWords(Regex pattern, SplitBehavior behavior, bool invert)
      : pattern_(std::move(pattern)), behavior_(behavior), invert_(invert) {}

 private:
  void do_apply(std::vector<Section>& sections, TextBudget& budget) const override {
    std::vector<Section> result;
    for (const Section& section : sections)
      append_parts(section, split_at(section.text, pattern_.find_all(section.text, budget), behavior_, invert_),
                   result);
    sections = std::move(result);
  }

  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string mark, PrependScheme scheme, bool split)
      : mark_(std::move(mark)), pattern_(Regex::literal(mark_, "Metaspace")), scheme_(scheme), split_(split) {}

 private:
  void do_apply(std::vector<Section>& sections, TextBudget& budget) const override {
    std::vector<Section> result;
    for (Section& section : sections) {
      section.text = marked(section, budget);
      if (split_) {
        const std::vector<Span> marks = pattern_.find_all(section.text, budget);
        append_parts(section, split_at(section.text, marks, SplitBehavior::kMergedWithNext), result);
      } else {
        result.push_back(std::move(section));
      }
    }
    sections = std::move(result);
  }

  [[nodiscard]] std::string marked(const Section& section, TextBudget& budget) const {
    const auto spaces = static_cast<std::uint64_t>(std::ranges::count(section.text, ' '));
    budget.spend((spaces + 1) * mark_.size());
    std::string text;
    for (const char c : section.text) c == ' ' ? text.append(mark_) : text.append(1, c);
    const bool prepends = scheme_ == PrependScheme::kAlways || (scheme_ == PrependScheme::kFirst && section.at_start);
    return prepends && !text.starts_with(mark_) ? mark_ + text : text;
  }

  std::string mark_;
  Regex pattern_;
  PrependScheme scheme_;
  bool split_;
};

class ByteLevel final : public PreTokenizer {
 public:
  explicit ByteLevel(ByteLevelOptions options) : options_(options) {}

 private:
  void do_apply(std::vector<Section>& sections, TextBudget& budget) const override {
    if (options_.add_prefix_space)
      for (Section& section : sections)
        if (!section.text.starts_with(' ')) section.text.insert(0, 1, ' ');
    if (options_.split) words_.apply(sections, budget);
    for (Section& section : sections) section.text = bytes_to_alphabet(section.text);
  }

  ByteLevelOptions options_;
  SplitWords words_{{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "ByteLevel"},
                    SplitBehavior::kIsolated,
                    false};
};

class PreTokenizerSequence final : public PreTokenizer {
 public:
  explicit PreTokenizerSequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}

 private:
  void do_apply(std::vector<Section>& sections, TextBudget& budget) const override {
    for (const PreTokenizerPtr& step : steps_) step->apply(sections, budget);
  }

  std::vector<PreTokenizerPtr> steps_;
};

}  // namespace

PreTokenizerPtr split_words(Regex pattern, SplitBehavior behavior, bool invert) {
  return std::make_unique<SplitWords>(std::move(pattern), behavior, invert);
}
PreTokenizerPtr split_white_space() {
  return split_words(Regex(R"(\s+)", "WhitespaceSplit"), SplitBehavior::kRemoved, false);
}
PreTokenizerPtr metaspace(std::string mark, PrependScheme scheme, bool split) {
  return std::make_unique<Metaspace>(std::move(mark), scheme, split);
}
PreTokenizerPtr byte_level(ByteLevelOptions options) { return std::make_unique<ByteLevel>(options); }
PreTokenizerPtr in_sequence(std::vector<PreTokenizerPtr> steps) {
  return std::make_unique<PreTokenizerSequence>(std::move(steps));
}

}  // namespace headroom
