#include "text/readers/tokenizer_json.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "text/bpe.hpp"
#include "text/post_processor.hpp"
#include "text/readers/json_fields.hpp"
#include "text/readers/tokenizer_config.hpp"
#include "text/unigram.hpp"

namespace headroom {
namespace {

using nlohmann::json;

/// "a b", or ["a", "b"].
Bpe::Merge parse_merge(const json& value, const std::string& context) {
  if (value.is_array() && value.size() == 2 && value[0].is_string() && value[1].is_string())
    return {value[0].get<std::string>(), value[1].get<std::string>()};
  const auto text = value.is_string() ? value.get<std::string>() : "";
  const std::size_t space = text.find(' ');
  if (space == std::string::npos || text.find(' ', space + 1) != std::string::npos)
    fail("{} is {}, but two pieces were expected", context, shown(value));
  return {text.substr(0, space), text.substr(space + 1)};
}

void refuse_unless_empty(const json& model, const char* key, const std::string& context) {
  if (!get_string_or(model, key, "", context).empty())
    fail("{} has {} \"{}\", which is not supported", context, key, get_string(model, key, context));
}

std::unique_ptr<const TokenModel> parse_bpe(const json& model, Vocabulary& vocabulary, const std::string& context) {
  check_keys(model,
             {"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
              "byte_fallback", "ignore_merges", "vocab", "merges"},
             context);
  refuse_unless_empty(model, "continuing_subword_prefix", context);
  if (get_double_or(model, "dropout", 0, context) != 0) fail("{} has dropout, which is not supported", context);
  if (get_bool_or(model, "byte_fallback", false, context))
    fail("{}.byte_fallback is true, which is not supported for BPE", context);
  const json& pieces = get(model, "vocab", context);
  if (!pieces.is_object()) fail("{} is {}, but an object was expected", place(context, "vocab"), pieces.type_name());
  for (const auto& [piece, id] : pieces.items()) vocabulary.add(piece, get_token_id(id, context + ".vocab"), context);
  std::vector<Bpe::Merge> merges;
  for (const json& merge : get_array(model, "merges", context))
    merges.push_back(parse_merge(merge, place(place(context, "merges"), merges.size())));

  BpeOptions options{.end_of_word = get_string_or(model, "end_of_word_suffix", "", context),
                     .fuse_unknown = get_bool_or(model, "fuse_unk", false, context),
                     .whole_words_first = get_bool_or(model, "ignore_merges", false, context)};
  if (const std::string unknown = get_string_or(model, "unk_token", "", context); !unknown.empty())
    options.unknown = vocabulary.get(unknown, place(context, "unk_token"));
  return std::make_unique<Bpe>(vocabulary, merges, std::move(options), context);
}

std::unique_ptr<const TokenModel> parse_unigram(const json& model, Vocabulary& vocabulary, const std::string& context) {
  const std::vector<UnigramPiece> pieces = parse_unigram_pieces(model, context);
  for (const UnigramPiece& piece : pieces) vocabulary.add(piece.text, vocabulary.size(), place(context, "vocab"));
  UnigramOptions options{.byte_fallback = get_bool_or(model, "byte_fallback", false, context)};
  if (model.contains("unk_id") && !model.at("unk_id").is_null())
    options.unknown = get_token_id(model.at("unk_id"), place(context, "unk_id"));
  return std::make_unique<Unigram>(pieces, options, context);
}

std::unique_ptr<const TokenModel> parse_model(const json& model, Vocabulary& vocabulary, const std::string& context) {
  // Files from before 2020 have no type; only BPE models have merges.
  const std::string type = get_string_or(model, "type", model.contains("merges") ? "BPE" : "", context);
  if (type == "BPE") return parse_bpe(model, vocabulary, context);
  if (type == "Unigram") return parse_unigram(model, vocabulary, context);
  fail("{}.type is \"{}\", but BPE or Unigram was expected", context, type);
}

const json& get_or_null(const json& object, const char* key) {
  static const json null;
  const auto found = object.find(key);
  return found == object.end() ? null : *found;
}

/// Number of steps of a normalizer or pre-tokenizer, including those in sequences.
std::size_t count_steps(const json& step) {
  std::size_t count = 1;
  if (!step.is_object()) return count;
  for (const char* const key : {"normalizers", "pretokenizers"}) {
    if (!step.contains(key)) continue;
    for (const json& inner : step.at(key)) count += count_steps(inner);
  }
  return count;
}

const json& get_steps(const json& file, const char* key, const std::string& context) {
  constexpr std::size_t kMost = 40;
  const json& steps = get_or_null(file, key);
  if (const std::size_t count = count_steps(steps); count > kMost)
    fail("{} has {} steps, but at most {} are allowed", place(context, key), count, kMost);
  return steps;
}

}  // namespace

std::vector<UnigramPiece> parse_unigram_pieces(const json& model, const std::string& context) {
  if (const std::string type = get_string_or(model, "type", "Unigram", context); type != "Unigram")
    fail("{}.type is \"{}\", but Unigram was expected", context, type);
  check_keys(model, {"type", "unk_id", "vocab", "byte_fallback"}, context);
  std::vector<UnigramPiece> pieces;
  for (const json& entry : get_array(model, "vocab", context)) {
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
      fail("{} is {}, but a piece and its score were expected", place(place(context, "vocab"), pieces.size()),
           shown(entry));
    pieces.push_back({.text = entry[0].get<std::string>(), .score = entry[1].get<double>()});
  }
  return pieces;
}

void parse_added_tokens(const json& file, const std::string& context, TokenizerParts& parts) {
  if (get_or_null(file, "added_tokens").is_null()) return;
  for (const json& value : get_array(file, "added_tokens", context)) {
    const std::string at = place(place(context, "added_tokens"), parts.added.size());
    AddedToken token = parse_added_token(value, at);
    token.id = get_token_id(get(value, "id", at), place(at, "id"));
    add_token(parts, token, at);
  }
}

TokenizerParts read_tokenizer_json(const std::filesystem::path& path) {
  const json file = read_json(path);
  const std::string& context = path.native();
  check_keys(file,
             {"version", "truncation", "padding", "added_tokens", "normalizer", "pre_tokenizer", "post_processor",
              "decoder", "model"},
             context);
  TokenizerParts parts;
  parts.source = context;
  parts.model = parse_model(get(file, "model", context), parts.vocabulary, place(context, "model"));
  parts.normalizer = parse_normalizer(get_steps(file, "normalizer", context), place(context, "normalizer"));
  parts.pre_tokenizer = parse_pre_tokenizer(get_steps(file, "pre_tokenizer", context), place(context, "pre_tokenizer"));
  parse_added_tokens(file, context, parts);
  parse_post_processor(get_or_null(file, "post_processor"), place(context, "post_processor"), parts);
  return parts;
}

}  // namespace headroom
