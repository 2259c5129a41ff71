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

/// What `tokenizer_config.json` says beside a vocabulary, and, where that does not list added tokens by id, what
/// `special_tokens_map.json` and `added_tokens.json` say; so transformers reads them, whose older versions wrote the last
/// two. All may be missing. A special token is looked for in the text as any added token is.
class TokenizerConfig {
 public:
  static TokenizerConfig read(const std::filesystem::path& folder);

  /// "tokenizer_class", without the "Fast" at its end; empty where it is not given.
  [[nodiscard]] const std::string& tokenizer_class() const { return tokenizer_class_; }
  /// Names the class where the files do not.
  void set_default_class(std::string_view name);
  /// Whether a token ("bos_token") is named or said to be none.
  [[nodiscard]] bool says(const std::string& role) const { return roles_.contains(role); }
  /// Names a token where the files do not.
  void set_default(const std::string& role, const std::string& content);
  /// Names the special tokens without a role where the files do not.
  void set_default_additional(const std::vector<std::string>& contents);
  [[nodiscard]] std::optional<std::string> content_of(const std::string& role) const;
  [[nodiscard]] std::size_t extra_ids() const { return extra_ids_; }
  /// Whether "added_tokens_decoder" is there, beside which no other list of added tokens is read.
  [[nodiscard]] bool lists_added_tokens() const { return lists_added_tokens_; }
  [[nodiscard]] bool adds_prefix_space() const { return adds_prefix_space_; }

  /// Puts into `parts` the added and special tokens that it has not, with ids behind its last one where the vocabulary
  /// has none for them, and the ids of their roles, the sides and the length. `context` names the vocabulary's file.
  void apply_to(TokenizerParts& parts, const std::string& context) const;

 private:
  void read_config(const nlohmann::json& config, const std::string& context);
  void read_special_tokens(const nlohmann::json& file, const std::string& context);
  void read_added_tokens(const nlohmann::json& file, const std::string& context);

  std::string tokenizer_class_;
  bool lists_added_tokens_ = false;
  std::string by_id_context_;                               // the file of by_id_
  std::vector<AddedToken> by_id_;                           // "added_tokens_decoder", or added_tokens.json
  std::map<std::string, std::optional<AddedToken>> roles_;  // "bos_token" to its token, perhaps none
  std::optional<std::vector<AddedToken>> additional_;       // "extra_special_tokens", "additional_special_tokens"
  std::size_t extra_ids_ = 100;                             // T5's
  std::optional<std::size_t> model_max_length_;
  Side padding_side_ = Side::kRight;
  Side truncation_side_ = Side::kRight;
  bool adds_prefix_space_ = false;
};

/// An added token as the files write it: {"content", "lstrip", "rstrip", "normalized", "single_word", "special"}, and
/// in tokenizer.json "id". Throws Error where it is to match single words, which is not supported.
[[nodiscard]] AddedToken parse_added_token(const nlohmann::json& value, const std::string& context);

/// Adds a token to `parts`, to the vocabulary too where it is not there. Throws Error where it is too long, or the vocabulary
/// has another id for it.
void add_token(TokenizerParts& parts, const AddedToken& token, const std::string& context);

}  // namespace headroom
