#include "text/normalizer.hpp"

#include <utility>

#include "base/text/utf8.hpp"

namespace headroom {
namespace {

class ToNormalForm final : public Normalizer {
 public:
  explicit ToNormalForm(NormalForm form) : form_(form) {}

 private:
  void do_apply(Section& section, TextBudget& budget) const override {
    budget.spend(cost_of_reordering(section.text));
    section.text = to_normal_form(section.text, form_);
  }

  NormalForm form_;
};

class LowerCase final : public Normalizer {
  void do_apply(Section& section, TextBudget& /*budget*/) const override { section.text = to_lower_case(section.text); }
};

class Strip final : public Normalizer {
 public:
  Strip(bool left, bool right) : left_(left), right_(right) {}

 private:
  void do_apply(Section& section, TextBudget& /*budget*/) const override {
    if (right_) section.text.resize(section.text.size() - trailing_white_space(section.text));
    const std::size_t leading = left_ ? leading_white_space(section.text) : 0;
    section.text.erase(0, leading);
    section.at_start = section.at_start && leading == 0;
  }

  bool left_;
  bool right_;
};

class Replace final : public Normalizer {
 public:
  Replace(Regex pattern, std::string content) : pattern_(std::move(pattern)), content_(std::move(content)) {}

 private:
  void do_apply(Section& section, TextBudget& budget) const override {
    const std::vector<Span> matches = pattern_.find_all(section.text, budget);
    if (matches.empty()) return;
    budget.spend(matches.size() * content_.size());
    std::string result;
    std::size_t at = 0;
    for (const Span& match : matches) {
      result.append(section.text, at, match.begin - at).append(content_);
      at = match.end;
    }
    result.append(section.text, at);
    // The replacement of several characters is placed at the last of them.
    const Span& first = matches.front();
    const bool moves = content_.empty() || first.size() > first_character(section.text).bytes;
    section.at_start = section.at_start && !(first.begin == 0 && moves);
    section.text = std::move(result);
  }

  Regex pattern_;
  std::string content_;
};

class Prepend final : public Normalizer {
 public:
  explicit Prepend(std::string prefix) : prefix_(std::move(prefix)) {}

 private:
  void do_apply(Section& section, TextBudget& budget) const override {
    if (section.text.empty()) return;
    budget.spend(prefix_.size());
    section.text.insert(0, prefix_);
  }

  std::string prefix_;
};

class MapCharacters final : public Normalizer {
 public:
  explicit MapCharacters(Charsmap map) : map_(std::move(map)) {}

 private:
  static constexpr std::size_t kLongGrapheme = 6;  // bytes

  void do_apply(Section& section, TextBudget& budget) const override {
    std::string result;
    result.reserve(section.text.size());
    for (std::string_view rest = section.text; !rest.empty();) {
      const std::string_view grapheme = rest.substr(0, first_grapheme(rest));
      rest.remove_prefix(grapheme.size());
      if (grapheme.size() >= kLongGrapheme || !append_mapped(grapheme, result, budget))
        append_each(grapheme, result, budget);
    }
    section.text = std::move(result);
  }

  [[nodiscard]] bool append_mapped(std::string_view whole, std::string& result, TextBudget& budget) const {
    const auto match = map_.shortest_prefix(whole);
    if (!match) return false;
    budget.spend(match->replacement.size());
    result += match->replacement;
    return true;
  }

  void append_each(std::string_view grapheme, std::string& result, TextBudget& budget) const {
    while (!grapheme.empty()) {
      const std::string_view character = grapheme.substr(0, first_character(grapheme).bytes);
      if (!append_mapped(character, result, budget)) result += character;
      grapheme.remove_prefix(character.size());
    }
  }

  Charsmap map_;
};

class NormalizerSequence final : public Normalizer {
 public:
  explicit NormalizerSequence(std::vector<NormalizerPtr> steps) : steps_(std::move(steps)) {}

 private:
  void do_apply(Section& section, TextBudget& budget) const override {
    for (const NormalizerPtr& step : steps_) step->apply(section, budget);
  }

  std::vector<NormalizerPtr> steps_;
};

}  // namespace

NormalizerPtr normal_form(NormalForm form) { return std::make_unique<ToNormalForm>(form); }
NormalizerPtr lower_case() { return std::make_unique<LowerCase>(); }
NormalizerPtr strip(bool left, bool right) { return std::make_unique<Strip>(left, right); }
NormalizerPtr replace(Regex pattern, std::string content) {
  return std::make_unique<Replace>(std::move(pattern), std::move(content));
}
NormalizerPtr prepend(std::string prefix) { return std::make_unique<Prepend>(std::move(prefix)); }
NormalizerPtr map_characters(Charsmap map) { return std::make_unique<MapCharacters>(std::move(map)); }
NormalizerPtr in_sequence(std::vector<NormalizerPtr> steps) {
  return std::make_unique<NormalizerSequence>(std::move(steps));
}

}  // namespace headroom
