#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/vocabulary.hpp"

namespace headroom {

/// The ids of the tokens that have a part of their own, where a tokenizer has them.
struct SpecialTokens {
  std::optional<TokenId> begin;  ///< of a text
  std::optional<TokenId> end;
  std::optional<TokenId> padding;
  std::optional<TokenId> unknown;
};

enum class Padding : std::uint8_t { kNone, kToMaxLength };

struct EncodeOptions {
  /// How many ids there may be, those counted that the tokenizer puts around a text. Without it, any number.
  std::optional<std::size_t> max_length = std::nullopt;
  Padding padding = Padding::kNone;
  bool truncate = true;            ///< to max_length; what is put around the text stays
  bool add_special_tokens = true;  ///< put around the text what the tokenizer puts there
};

struct EncodedText {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> attention_mask;  ///< 0 for padding, else 1; as long as `ids`
};

struct TokenizerParts;

/// Text to ids, exactly as the field's own libraries do it for the same files; docs/architecture.md says which these
/// are. Safe to use from several threads.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Throws Error where `text` is not UTF-8, where the tokenizer's steps take too much work (TextBudget), where it may not be truncated and has too many ids, where max_length does
  /// not hold what is put around a text, and where padding is asked for without max_length or a padding token.
  [[nodiscard]] EncodedText encode(std::string_view text, const EncodeOptions& options = {}) const;

  [[nodiscard]] const SpecialTokens& special_tokens() const;
  /// One more than the highest id: an embedding needs so many rows.
  [[nodiscard]] TokenId vocabulary_size() const;
  /// A piece as the vocabulary has it ("\u2581hello", "hello</w>"), and its id.
  [[nodiscard]] const std::string& piece(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> find(std::string_view piece) const;
  /// How long a text the model was made for (tokenizer_config.json), where that is said.
  [[nodiscard]] std::optional<std::size_t> model_max_length() const;

 private:
  [[nodiscard]] std::vector<TokenId> encode_text(std::string_view text) const;

  std::unique_ptr<const TokenizerParts> parts_;
};

/// The tokenizer of a folder as published beside a text encoder: `tokenizer.json` where it is there, else `vocab.json`
/// and `merges.txt`, else `spiece.model`; with what `tokenizer_config.json`, `special_tokens_map.json` and
/// `added_tokens.json` say of added tokens. `class_name` is that of a pipeline's index ("T5TokenizerFast"), for a folder that
/// names none. Throws Error naming file and key for what is missing, broken or not known.
[[nodiscard]] Tokenizer open_tokenizer(const std::filesystem::path& folder, std::string_view class_name = {});

}  // namespace headroom
