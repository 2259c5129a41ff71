#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer_parts.hpp"

namespace headroom {

/// What `tokenizer_config.json` and `special_tokens_map.json` say beside a vocabulary; both may be missing. A special
/// token is looked for in the text as any added token is.
class TokenizerConfig {
 public:
  static TokenizerConfig read(const std::filesystem::path& folder);

  /// "tokenizer_class", without the "Fast" at its end; empty where it is not given.
  [[nodiscard]] const std::string& tokenizer_class() const { return tokenizer_class_; }
  /// Whether a token ("bos_token") is named or said to be none.
  [[nodiscard]] bool says(const std::string& role) const { return roles_.contains(role); }
  /// Names a token where the files do not.
  void set_default(const std::string& role, const std::string& content);
  [[nodiscard]] std::optional<std::string> content_of(const std::string& role) const;
  [[nodiscard]] std::size_t extra_ids() const { return extra_ids_; }
  [[nodiscard]] bool has_added_tokens() const { return !by_id_.empty(); }
  [[nodiscard]] bool adds_prefix_space() const { return adds_prefix_space_; }

  /// Puts into `parts` the added and special tokens that it has not, with ids behind its last one where the vocabulary
  /// has none for them, and the ids of their roles, the sides and the length. `context` names the vocabulary's file.
  void apply_to(TokenizerParts& parts, const std::string& context) const;

 private:
  std::string tokenizer_class_;
  std::vector<AddedToken> by_id_;                           // "added_tokens_decoder"
  std::map<std::string, std::optional<AddedToken>> roles_;  // "bos_token" to its token, perhaps none
  std::vector<AddedToken> additional_;                      // "additional_special_tokens"
  std::size_t extra_ids_ = 100;                             // T5's
  std::optional<std::size_t> model_max_length_;
  Side padding_side_ = Side::kRight;
  Side truncation_side_ = Side::kRight;
  bool adds_prefix_space_ = false;
};

/// An added token as the files write it: {"content", "lstrip", "rstrip", "normalized", "single_word", "special"}, and
/// in tokenizer.json "id". Throws Error where it is to match single words, which is not supported.
[[nodiscard]] AddedToken parse_added_token(const nlohmann::json& value, const std::string& context);

/// Adds a token to `parts`, to the vocabulary too where it is not there.
void add_token(TokenizerParts& parts, const AddedToken& token, const std::string& context);

}  // namespace headroom
