#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/tokenizer_parts.hpp"

namespace headroom {

/// Tokenizer settings outside the vocabulary, read as transformers does. They come from `tokenizer_config.json`
/// and, if that does not list added tokens by id, from `special_tokens_map.json` and `added_tokens.json`, which
/// older versions of transformers wrote. All files are optional. A special token is searched in the text like any
/// added token.
class TokenizerConfig {
 public:
  static TokenizerConfig read(const std::filesystem::path& folder);

  /// "tokenizer_class" without the suffix "Fast"; empty if not given.
  [[nodiscard]] const std::string& tokenizer_class() const { return tokenizer_class_; }
  /// Sets the class if the files do not name one.
  void set_default_class(std::string_view name);
  /// Whether the files name a token ("bos_token"), or state that there is none.
  [[nodiscard]] bool says(const std::string& role) const { return roles_.contains(role); }
  /// Sets a token if the files do not name one.
  void set_default(const std::string& role, const std::string& content);
  /// Sets the special tokens without a role if the files do not name them.
  void set_default_additional(const std::vector<std::string>& contents);
  [[nodiscard]] std::optional<std::string> content_of(const std::string& role) const;
  [[nodiscard]] std::size_t extra_ids() const { return extra_ids_; }
  /// Whether "added_tokens_decoder" exists; other lists of added tokens are then ignored.
  [[nodiscard]] bool lists_added_tokens() const { return lists_added_tokens_; }
  [[nodiscard]] bool adds_prefix_space() const { return adds_prefix_space_; }

  /// Adds missing added and special tokens to `parts`; those without an id in the vocabulary get ids after its last
  /// one. Also sets the ids of their roles, the sides and the length. `context` names the vocabulary's file.
  void apply_to(TokenizerParts& parts, const std::string& context) const;

 private:
  void read_config(const nlohmann::json& config, const std::string& context);
  void read_special_tokens(const nlohmann::json& file, const std::string& context);
  void read_added_tokens(const nlohmann::json& file, const std::string& context);

  std::string tokenizer_class_;
  bool lists_added_tokens_ = false;
  std::string by_id_context_;                               // the file of by_id_
  std::vector<AddedToken> by_id_;                           // "added_tokens_decoder", or added_tokens.json
  std::map<std::string, std::optional<AddedToken>> roles_;  // "bos_token" to its token, or none
  std::optional<std::vector<AddedToken>> additional_;       // "extra_special_tokens", "additional_special_tokens"
  std::size_t extra_ids_ = 100;                             // T5's
  std::optional<std::size_t> model_max_length_;
  Side padding_side_ = Side::kRight;
  Side truncation_side_ = Side::kRight;
  bool adds_prefix_space_ = false;
};

/// Parses an added token: {"content", "lstrip", "rstrip", "normalized", "single_word", "special"}, and in
/// tokenizer.json "id". Throws Error for tokens that match only single words, which is not supported.
[[nodiscard]] AddedToken parse_added_token(const nlohmann::json& value, const std::string& context);

/// Adds a token to `parts`, and to the vocabulary if it is missing there. Throws Error if it is too long, or if the
/// vocabulary has another id for it.
void add_token(TokenizerParts& parts, const AddedToken& token, const std::string& context);

}  // namespace headroom
