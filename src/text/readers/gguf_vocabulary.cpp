#include "text/readers/gguf_vocabulary.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/text/printable.hpp"
#include "base/text/utf8.hpp"
#include "text/readers/sentencepiece_model.hpp"
#include "text/readers/tokenizer_config.hpp"
#include "text/readers/vocab_merges.hpp"
#include "text/t5_tokenizer.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kControl = 3, kUserDefined = 4, kUnused = 5;

void check(const GgufVocabulary& stored, const std::string& context) {
  if (stored.tokens.empty()) fail("{} has no tokenizer.ggml.tokens", context);
  if (stored.types.size() != stored.tokens.size())
    fail("{}: tokenizer.ggml.token_type has {} values for {} tokens", context, stored.types.size(),
         stored.tokens.size());
  for (std::size_t id = 0; id < stored.tokens.size(); ++id)
    if (stored.tokens[id].empty() || !is_utf8(stored.tokens[id]))
      fail("{}: token {} is '{}', which is empty or not UTF-8", context, id,
           printable_name(std::string(stored.tokens[id])));
}

/// Sets a token of a role by its id.
void set_role(TokenizerConfig& config, const char* role, std::optional<std::int64_t> id, const GgufVocabulary& stored,
              const std::string& context) {
  if (!id) return;
  if (*id < 0 || *id >= std::ssize(stored.tokens))
    fail("{}: the id {} of its {} is none of {} tokens", context, *id, role, stored.tokens.size());
  config.set_default(role, std::string(stored.tokens[static_cast<std::size_t>(*id)]));
}

TokenizerParts make_pairs(const GgufVocabulary& stored, TokenizerConfig& config, const std::string& context) {
  if (stored.pre == "qwen2")
    config.set_default_class("Qwen2Tokenizer");
  else if (stored.pre == "gpt-2")
    config.set_default_class("GPT2Tokenizer");
  else
    fail(
        "{}: its tokenizer splits words as '{}' (tokenizer.ggml.pre), and only qwen2 and gpt-2 are read: give the "
        "tokenizer's folder by --part",
        context, printable_name(std::string(stored.pre)));
  BytePairs pairs{.vocabulary = {}, .merges = {}, .merges_context = context + ": tokenizer.ggml.merges"};
  std::vector<AddedToken> added;
  for (std::size_t id = 0; id < stored.tokens.size(); ++id) {
    if (stored.types[id] == kUnused) continue;  // rows of the embedding without a token
    pairs.vocabulary.add(stored.tokens[id], static_cast<TokenId>(id), context);
    if (stored.types[id] == kControl || stored.types[id] == kUserDefined)
      added.push_back({.content = std::string(stored.tokens[id]), .id = static_cast<TokenId>(id)});
  }
  for (const std::string_view text : stored.merges) {
    std::optional<Bpe::Merge> merge = split_merge(text);
    if (!merge)
      fail("{} has '{}', but two pieces were expected", pairs.merges_context, printable_name(std::string(text)));
    pairs.merges.push_back(std::move(*merge));
  }
  TokenizerParts parts = make_byte_pairs(std::move(pairs), config, context);
  std::set<TokenId> known;
  for (const AddedToken& token : parts.added) known.insert(token.id);
  for (const AddedToken& token : added)
    if (!known.contains(token.id)) add_token(parts, token, context);
  return parts;
}

/// The converter fills the rows of the embedding behind the pieces with unused tokens, also those of "<extra_id_0>".
TokenizerParts make_unigram(const GgufVocabulary& stored, TokenizerConfig& config, const std::string& context) {
  if (stored.scores.size() != stored.tokens.size())
    fail("{}: tokenizer.ggml.scores has {} values for {} tokens", context, stored.scores.size(), stored.tokens.size());
  SentencepieceModel model{.pieces = {}, .charsmap = stored.charsmap};
  std::size_t count = stored.tokens.size();
  const auto is_extra = [&](std::size_t id) {
    return stored.types[id] == kUnused || stored.tokens[id].starts_with("<extra_id_");
  };
  while (count > 0 && is_extra(count - 1)) --count;
  for (std::size_t id = 0; id < count; ++id) {
    if (!std::isfinite(stored.scores[id]))
      fail("{}: the score of '{}' is not finite", context, printable_name(std::string(stored.tokens[id])));
    model.pieces.push_back({.text = std::string(stored.tokens[id]), .score = stored.scores[id]});
  }
  return make_t5(std::move(model), config, context);
}

}  // namespace

Tokenizer make_tokenizer(const GgufVocabulary& stored, const std::string& context) {
  check(stored, context);
  TokenizerConfig config;
  set_role(config, "eos_token", stored.end, stored, context);
  set_role(config, "pad_token", stored.padding, stored, context);
  if (stored.model == "gpt2") return Tokenizer(make_pairs(stored, config, context));
  if (stored.model == "t5") return Tokenizer(make_unigram(stored, config, context));
  fail(
      "{}: its tokenizer is a '{}' (tokenizer.ggml.model), and only gpt2 and t5 are read: give the tokenizer's folder "
      "by --part",
      context, printable_name(std::string(stored.model)));
}

}  // namespace headroom
