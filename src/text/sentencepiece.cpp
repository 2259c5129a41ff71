#include "text/sentencepiece.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/utf8.hpp"
#include "text/piece_trie.hpp"

namespace headroom {
namespace {

constexpr std::string_view kMark = "\u2581";

class SentencepieceNormalizer final : public Normalizer {
 public:
  SentencepieceNormalizer(const SentencepieceModel& model, std::string_view context)
      : map_(model.rules.charsmap, context), rules_(model.rules) {
    std::vector<PieceTrie::Entry> kept;
    for (const UnigramPiece& piece : model.pieces)
      if (piece.is_user_defined) kept.push_back({piece.text, 0});
    kept_ = PieceTrie(std::move(kept));
  }

  void apply(Section& section) const override {
    std::string_view rest = section.text;
    while (rules_.remove_extra_whitespaces && !rest.empty()) {
      const auto [mapped, bytes] = front_of(rest);
      if (mapped != " ") break;
      rest.remove_prefix(bytes);
    }
    if (rest.empty()) {
      section.text.clear();
      return;
    }
    std::string result;
    const std::string_view space = rules_.escape_whitespaces ? kMark : " ";
    if (rules_.add_dummy_prefix && !rules_.whitespace_as_suffix) result += space;
    bool after_space = rules_.remove_extra_whitespaces;
    while (!rest.empty()) {
      const auto [mapped, bytes] = front_of(rest);
      rest.remove_prefix(bytes);
      for (std::size_t i = after_space ? std::min(mapped.find_first_not_of(' '), mapped.size()) : 0; i < mapped.size();
           ++i) {
        mapped[i] == ' ' ? result.append(space) : result.append(1, mapped[i]);
        after_space = rules_.remove_extra_whitespaces && mapped[i] == ' ';
      }
    }
    while (rules_.remove_extra_whitespaces && result.ends_with(space)) result.resize(result.size() - space.size());
    if (rules_.add_dummy_prefix && rules_.whitespace_as_suffix) result += space;
    section.text = std::move(result);
  }

 private:
  struct Front {
    std::string_view mapped;
    std::size_t bytes;  // of the text that it stands for
  };
  /// What the front of `text` becomes. User-defined pieces stay as they are.
  [[nodiscard]] Front front_of(std::string_view text) const {
    if (const auto piece = kept_.longest_prefix(text)) return {text.substr(0, piece->bytes), piece->bytes};
    if (const auto match = map_.longest_prefix(text)) return {match->replacement, match->bytes};
    const std::size_t bytes = first_character(text).bytes;
    return {text.substr(0, bytes), bytes};
  }

  Charsmap map_;
  SentencepieceRules rules_;
  PieceTrie kept_;
};

}  // namespace

NormalizerPtr sentencepiece_normalizer(const SentencepieceModel& model, std::string_view context) {
  return std::make_unique<SentencepieceNormalizer>(model, context);
}

TokenizerParts read_spiece(const std::filesystem::path& path, TokenizerConfig& config) {
  const std::string& context = path.native();
  if (!config.tokenizer_class().empty() && config.tokenizer_class() != "T5Tokenizer")
    fail("{} has no tokenizer.json beside it, and its class {} is not T5Tokenizer", context, config.tokenizer_class());
  const SentencepieceModel model = read_sentencepiece_model(path);
  config.set_default("eos_token", "</s>");
  config.set_default("unk_token", "<unk>");
  config.set_default("pad_token", "<pad>");

  TokenizerParts parts;
  for (const UnigramPiece& piece : model.pieces) parts.vocabulary.add(piece.text, parts.vocabulary.size(), context);
  parts.normalizer = sentencepiece_normalizer(model, context);
  parts.pre_tokenizer = in_sequence(std::vector<PreTokenizerPtr>{});
  parts.model = std::make_unique<Unigram>(model.pieces, model.options, context);
  for (std::size_t left = config.has_added_tokens() ? 0 : config.extra_ids(); left > 0; --left) {
    add_token(parts,
              {.content = fmt::format("<extra_id_{}>", left - 1),
               .id = parts.vocabulary.size(),
               .strips_left = true,
               .strips_right = true},
              context);
  }
  config.apply_to(parts, context);
  if (!parts.special.end) fail("{} names no eos_token, which T5Tokenizer puts behind a text", context);
  parts.behind = {*parts.special.end};
  return parts;
}

}  // namespace headroom
