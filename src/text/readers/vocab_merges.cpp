#include "text/readers/vocab_merges.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"
#include "text/readers/json_fields.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kEndOfText = "<|endoftext|>";
constexpr std::string_view kClipWords = R"('s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+)";
constexpr std::string_view kQwenWords =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

Vocabulary read_vocabulary(const fs::path& path) {
  const nlohmann::json pieces = read_json(path);
  if (!pieces.is_object()) fail("{} is not a JSON object", path.native());
  Vocabulary vocabulary;
  for (const auto& [piece, id] : pieces.items())
    vocabulary.add(piece, get_token_id(id, place(path.native(), piece)), path.native());
  return vocabulary;
}

/// One merge per line, after a line with the version.
std::vector<Bpe::Merge> read_merges(const fs::path& path) {
  const std::string content = read_file(path);
  std::vector<Bpe::Merge> merges;
  std::string_view rest = content;
  for (std::size_t line = 1; !rest.empty(); ++line) {
    std::string_view text = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), text.size() + 1));
    if (text.ends_with('\r')) text.remove_suffix(1);
    if (text.empty() || (line == 1 && text.starts_with("#version"))) continue;
    std::optional<Bpe::Merge> merge = split_merge(text);
    if (!merge) fail("{} has '{}' in line {}, but two pieces were expected", path.native(), text, line);
    merges.push_back(std::move(*merge));
  }
  return merges;
}

/// CLIPTokenizer as in transformers 5 and the older CLIPTokenizerFast: without ftfy, and without spaces around
/// Chinese characters, which the older CLIPTokenizer adds.
void make_clip(TokenizerParts& parts, TokenizerConfig& config) {
  config.set_default("bos_token", "<|startoftext|>");
  for (const char* const role : {"eos_token", "unk_token", "pad_token"}) config.set_default(role, kEndOfText);
  std::vector<NormalizerPtr> normalizers;
  normalizers.push_back(normal_form(NormalForm::kNfc));
  normalizers.push_back(replace(Regex(R"(\s+)", "CLIPTokenizer"), " "));
  normalizers.push_back(lower_case());
  parts.normalizer = in_sequence(std::move(normalizers));
  std::vector<PreTokenizerPtr> pre_tokenizers;
  pre_tokenizers.push_back(split_words(Regex(kClipWords, "CLIPTokenizer"), SplitBehavior::kRemoved, true));
  pre_tokenizers.push_back(byte_level({}));
  parts.pre_tokenizer = in_sequence(std::move(pre_tokenizers));
}

void make_qwen2(TokenizerParts& parts, TokenizerConfig& config) {
  for (const char* const role : {"eos_token", "pad_token"}) config.set_default(role, kEndOfText);
  parts.normalizer = normal_form(NormalForm::kNfc);
  std::vector<PreTokenizerPtr> pre_tokenizers;
  pre_tokenizers.push_back(split_words(Regex(kQwenWords, "Qwen2Tokenizer"), SplitBehavior::kIsolated, false));
  pre_tokenizers.push_back(byte_level({.split = false}));
  parts.pre_tokenizer = in_sequence(std::move(pre_tokenizers));
}

void make_gpt2(TokenizerParts& parts, TokenizerConfig& config) {
  for (const char* const role : {"bos_token", "eos_token", "unk_token"}) config.set_default(role, kEndOfText);
  parts.normalizer = in_sequence(std::vector<NormalizerPtr>{});
  parts.pre_tokenizer = byte_level({.add_prefix_space = config.adds_prefix_space()});
}

}  // namespace

std::optional<Bpe::Merge> split_merge(std::string_view text) {
  const std::size_t space = text.find(' ');
  if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) return std::nullopt;
  return Bpe::Merge(text.substr(0, space), text.substr(space + 1));
}

TokenizerParts make_byte_pairs(BytePairs pairs, TokenizerConfig& config, const std::string& context) {
  TokenizerParts parts;
  parts.source = context;
  const std::string& name = config.tokenizer_class();
  const bool is_clip = name == "CLIPTokenizer";
  if (is_clip)
    make_clip(parts, config);
  else if (name == "Qwen2Tokenizer")
    make_qwen2(parts, config);
  else if (name == "GPT2Tokenizer")
    make_gpt2(parts, config);
  else
    fail("{} is without a tokenizer.json, and its class {} is not CLIPTokenizer, Qwen2Tokenizer or GPT2Tokenizer",
         context, name);

  parts.vocabulary = std::move(pairs.vocabulary);
  BpeOptions options{.end_of_word = is_clip ? "</w>" : ""};
  if (const auto unknown = config.content_of("unk_token")) options.unknown = parts.vocabulary.find(*unknown);
  parts.model = std::make_unique<Bpe>(parts.vocabulary, pairs.merges, std::move(options), pairs.merges_context);
  config.apply_to(parts, context);
  if (is_clip) {
    if (!parts.special.begin || !parts.special.end)
      fail("{} names no bos_token or no eos_token, which CLIPTokenizer puts around a text", context);
    parts.before = {*parts.special.begin};
    parts.behind = {*parts.special.end};
  }
  return parts;
}

TokenizerParts read_vocab_and_merges(const fs::path& folder, TokenizerConfig& config) {
  config.set_default_class(config.content_of("bos_token") == "<|startoftext|>" ? "CLIPTokenizer" : "GPT2Tokenizer");
  const fs::path vocab = folder / "vocab.json", merges = folder / "merges.txt";
  return make_byte_pairs({read_vocabulary(vocab), read_merges(merges), merges.native()}, config, vocab.native());
}

}  // namespace headroom
