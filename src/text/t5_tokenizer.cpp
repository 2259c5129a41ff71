#include "text/t5_tokenizer.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "text/readers/json_fields.hpp"
#include "text/readers/tokenizer_json.hpp"
#include "text/unigram.hpp"

namespace headroom {
namespace {

using nlohmann::json;

constexpr TokenId kUnknownId = 2;

std::string extra_id(std::size_t index) { return fmt::format("<extra_id_{}>", index); }

/// The bytes of the first character map of a normalizer, which is one step or a sequence of steps.
std::string charsmap_of(const json& normalizer, const std::string& context) {
  if (normalizer.is_null()) return {};
  const auto is_sequence = type_of_step(normalizer, context) == "Sequence";
  const json steps = is_sequence ? get_array(normalizer, "normalizers", context) : json::array({normalizer});
  for (const json& step : steps) {
    if (type_of_step(step, context) != "Precompiled" || !step.contains("precompiled_charsmap")) continue;
    const std::string at = place(context, "precompiled_charsmap");
    return decode_base64(get_string(step, "precompiled_charsmap", context), at);
  }
  return {};
}

/// Everything except the added tokens.
TokenizerParts make_parts(const std::vector<UnigramPiece>& pieces, const std::string& charsmap,
                          const std::string& context) {
  TokenizerParts parts;
  parts.source = context;
  for (const UnigramPiece& piece : pieces) parts.vocabulary.add(piece.text, parts.vocabulary.size(), context);
  parts.normalizer = map_characters(Charsmap(charsmap, context));
  std::vector<PreTokenizerPtr> steps;
  steps.push_back(split_white_space());
  steps.push_back(metaspace("\u2581", PrependScheme::kAlways, /*split=*/true));
  parts.pre_tokenizer = in_sequence(std::move(steps));
  parts.model = std::make_unique<Unigram>(pieces, UnigramOptions{.unknown = kUnknownId}, context);
  return parts;
}

void finish(TokenizerParts& parts, TokenizerConfig& config, const std::string& context) {
  config.set_default("eos_token", "</s>");
  config.set_default("unk_token", "<unk>");
  config.set_default("pad_token", "<pad>");
  std::vector<std::string> extra;
  for (std::size_t i = 0; i < config.extra_ids(); ++i) extra.push_back(extra_id(i));
  config.set_default_additional(extra);
  config.apply_to(parts, context);
  if (!parts.special.end) fail("{} names no eos_token, which T5Tokenizer puts behind a text", context);
  parts.behind = {*parts.special.end};
}

}  // namespace

TokenizerParts read_t5_json(const std::filesystem::path& path, TokenizerConfig& config) {
  const json file = read_json(path);
  const std::string& context = path.native();
  const std::string model = place(context, "model");
  const std::string normalizer = place(context, "normalizer");
  TokenizerParts parts =
      make_parts(parse_unigram_pieces(get(file, "model", context), model),
                 file.contains("normalizer") ? charsmap_of(file.at("normalizer"), normalizer) : std::string(), context);
  if (!config.lists_added_tokens()) parse_added_tokens(file, context, parts);
  finish(parts, config, context);
  return parts;
}

TokenizerParts read_t5_spiece(const std::filesystem::path& path, TokenizerConfig& config) {
  return make_t5(read_sentencepiece_model(path), config, path.native());
}

TokenizerParts make_t5(SentencepieceModel model, TokenizerConfig& config, const std::string& context) {
  for (std::size_t left = config.extra_ids(); left > 0; --left)
    model.pieces.push_back({.text = extra_id(left - 1), .score = 0});
  TokenizerParts parts = make_parts(model.pieces, model.charsmap, context);
  finish(parts, config, context);
  return parts;
}

}  // namespace headroom
