#include "text/tokenizer.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/error.hpp"
#include "text/tokenizer_parts.hpp"
#include "text/unicode.hpp"

namespace headroom {
namespace {

constexpr std::uint64_t kModelWork = 8;  // work per byte in the model

/// Truncates `ids` to `most`.
void truncate(std::vector<TokenId>& ids, std::size_t most, Side side) {
  if (ids.size() <= most) return;
  if (side == Side::kLeft) ids.erase(ids.begin(), ids.end() - static_cast<std::ptrdiff_t>(most));
  ids.resize(most);
}

void pad(EncodedText& encoded, std::size_t length, TokenId padding, Side side) {
  if (encoded.ids.size() >= length) return;
  const std::size_t missing = length - encoded.ids.size();
  const bool left = side == Side::kLeft;
  encoded.ids.insert(left ? encoded.ids.begin() : encoded.ids.end(), missing, padding);
  auto& mask = encoded.attention_mask;
  mask.insert(left ? mask.begin() : mask.end(), missing, std::uint8_t{0});
}

/// Checks that the tokens added around each text exist too.
void check_around(const std::vector<TokenId>& ids, const TokenizerParts& parts) {
  constexpr std::size_t kMost = 256;
  for (const TokenId id : ids)
    if (!parts.vocabulary.has(id))
      fail("{} puts the id {} around each text, but its vocabulary has no such id", parts.source, id);
  if (ids.size() > kMost)
    fail("{} puts {} ids around each text, but at most {} are allowed", parts.source, ids.size(), kMost);
}

}  // namespace

Tokenizer::Tokenizer(TokenizerParts parts) {
  check_around(parts.before, parts);
  check_around(parts.behind, parts);
  std::vector<AddedToken> normalized = parts.added;
  const auto second = std::ranges::stable_partition(normalized, &AddedToken::is_normalized).begin();
  const std::vector<AddedToken> raw(second, normalized.end());
  normalized.erase(second, normalized.end());
  parts.raw_tokens.emplace(raw, &AddedToken::content);
  std::size_t bytes = 0;
  for (const AddedToken& token : normalized) bytes += token.content.size();
  TextBudget budget(parts.source, bytes);
  parts.normalized_tokens.emplace(normalized, [&](const AddedToken& token) {
    Section section{.text = token.content, .at_start = true};
    parts.normalizer->apply(section, budget);
    check_searched_length(section.text, parts.source);
    return section.text;
  });
  parts_ = std::make_unique<const TokenizerParts>(std::move(parts));
}

Tokenizer::~Tokenizer() = default;
Tokenizer::Tokenizer(Tokenizer&&) noexcept = default;
Tokenizer& Tokenizer::operator=(Tokenizer&&) noexcept = default;

std::vector<TokenId> Tokenizer::encode_text(std::string_view text) const {
  std::vector<TokenId> ids;
  TextBudget budget(parts_->source, text.size());
  const auto encode_normalized = [&](Section section) {
    std::vector<Section> words{std::move(section)};
    parts_->pre_tokenizer->apply(words, budget);
    for (const Section& word : words) {
      budget.spend(kModelWork * word.text.size());
      parts_->model->encode(word.text, ids);
    }
  };
  const auto encode_raw = [&](Section section) {
    parts_->normalizer->apply(section, budget);
    for (const auto& [span, token] : parts_->normalized_tokens->split(section.text)) {
      if (token != nullptr)
        ids.push_back(token->id);
      else
        encode_normalized({std::string(span.of(section.text)), section.at_start && span.begin == 0});
    }
  };
  for (const auto& [span, token] : parts_->raw_tokens->split(text)) {
    if (token != nullptr)
      ids.push_back(token->id);
    else
      encode_raw({std::string(span.of(text)), span.begin == 0});
  }
  return ids;
}

EncodedText Tokenizer::encode(std::string_view text, const EncodeOptions& options) const {
  check_utf8(text);
  const std::size_t around = options.add_special_tokens ? parts_->before.size() + parts_->behind.size() : 0;
  if (options.max_length && *options.max_length < around)
    fail("at most {} ids were asked for, but {} are put around each text", *options.max_length, around);
  if (options.padding == Padding::kToMaxLength && !options.max_length)
    fail("ids cannot be padded to a length that is not given");
  if (options.padding == Padding::kToMaxLength && !parts_->special.padding)
    fail("ids cannot be padded: the tokenizer has no padding token");

  EncodedText encoded;
  encoded.ids = encode_text(text);
  if (options.max_length) {
    const std::size_t most = *options.max_length - around;
    if (!options.truncate && encoded.ids.size() > most)
      fail("the text has {} ids, but at most {} were asked for", encoded.ids.size() + around, *options.max_length);
    truncate(encoded.ids, most, parts_->truncation_side);
  }
  if (options.add_special_tokens) {
    encoded.ids.insert(encoded.ids.begin(), parts_->before.begin(), parts_->before.end());
    encoded.ids.insert(encoded.ids.end(), parts_->behind.begin(), parts_->behind.end());
  }
  encoded.attention_mask.assign(encoded.ids.size(), 1);
  if (options.padding == Padding::kToMaxLength)
    pad(encoded, *options.max_length, *parts_->special.padding, parts_->padding_side);
  return encoded;
}

const SpecialTokens& Tokenizer::special_tokens() const { return parts_->special; }
TokenId Tokenizer::vocabulary_size() const { return parts_->vocabulary.size(); }
const std::string& Tokenizer::piece(TokenId id) const { return parts_->vocabulary.piece(id); }
std::optional<TokenId> Tokenizer::find(std::string_view piece) const { return parts_->vocabulary.find(piece); }
std::optional<std::size_t> Tokenizer::model_max_length() const { return parts_->model_max_length; }

}  // namespace headroom
