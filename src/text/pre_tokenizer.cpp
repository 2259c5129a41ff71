#include "text/pre_tokenizer.hpp"

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

  void apply(std::vector<Section>& sections) const override {
    std::vector<Section> result;
    for (const Section& section : sections)
      append_parts(section, split_at(section.text, pattern_.find_all(section.text), behavior_, invert_), result);
    sections = std::move(result);
  }

 private:
  Regex pattern_;
  SplitBehavior behavior_;
  bool invert_;
};

class Metaspace final : public PreTokenizer {
 public:
  Metaspace(std::string mark, PrependScheme scheme, bool split)
      : mark_(std::move(mark)), pattern_(Regex::literal(mark_, "Metaspace")), scheme_(scheme), split_(split) {}

  void apply(std::vector<Section>& sections) const override {
    std::vector<Section> result;
    for (Section& section : sections) {
      section.text = marked(section);
      if (split_) {
        const std::vector<Span> marks = pattern_.find_all(section.text);
        append_parts(section, split_at(section.text, marks, SplitBehavior::kMergedWithNext), result);
      } else {
        result.push_back(std::move(section));
      }
    }
    sections = std::move(result);
  }

 private:
  [[nodiscard]] std::string marked(const Section& section) const {
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

  void apply(std::vector<Section>& sections) const override {
    if (options_.add_prefix_space)
      for (Section& section : sections)
        if (!section.text.starts_with(' ')) section.text.insert(0, 1, ' ');
    if (options_.split) words_.apply(sections);
    for (Section& section : sections) section.text = bytes_to_alphabet(section.text);
  }

 private:
  ByteLevelOptions options_;
  SplitWords words_{{R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)", "ByteLevel"},
                    SplitBehavior::kIsolated,
                    false};
};

class Sequence final : public PreTokenizer {
 public:
  explicit Sequence(std::vector<PreTokenizerPtr> steps) : steps_(std::move(steps)) {}
  void apply(std::vector<Section>& sections) const override {
    for (const PreTokenizerPtr& step : steps_) step->apply(sections);
  }

 private:
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
PreTokenizerPtr in_sequence(std::vector<PreTokenizerPtr> steps) { return std::make_unique<Sequence>(std::move(steps)); }

}  // namespace headroom
