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

/// The ids of tokens with a special role, if the tokenizer has them.
struct SpecialTokens {
  std::optional<TokenId> begin;  ///< of the beginning of a text
  std::optional<TokenId> end;
  std::optional<TokenId> padding;
  std::optional<TokenId> unknown;
};

enum class Padding : std::uint8_t { kNone, kToMaxLength };

struct EncodeOptions {
  /// The maximum number of ids, including those that the tokenizer adds around a text. Unlimited by default.
  std::optional<std::size_t> max_length = std::nullopt;
  Padding padding = Padding::kNone;
  bool truncate = true;            ///< truncates to max_length; the ids around the text are kept
  bool add_special_tokens = true;  ///< adds the tokenizer's ids around the text
};

struct EncodedText {
  std::vector<TokenId> ids;
  std::vector<std::uint8_t> attention_mask;  ///< 0 for padding, else 1; as long as `ids`
};

struct TokenizerParts;

/// Converts text to ids, exactly as the reference libraries do for the same files; docs/architecture.md names the
/// libraries. Thread-safe.
class Tokenizer {
 public:
  explicit Tokenizer(TokenizerParts parts);
  ~Tokenizer();
  Tokenizer(Tokenizer&&) noexcept;
  Tokenizer& operator=(Tokenizer&&) noexcept;

  /// Throws Error if `text` is not UTF-8, if the tokenizer's steps take too much work (TextBudget), or if the text has
  /// too many ids and may not be truncated. The options cause an Error if max_length is too small for the ids around
  /// a text, or if padding is requested without max_length or a padding token.
  [[nodiscard]] EncodedText encode(std::string_view text, const EncodeOptions& options = {}) const;

  [[nodiscard]] const SpecialTokens& special_tokens() const;
  /// The highest id plus one: the number of rows that an embedding needs.
  [[nodiscard]] TokenId vocabulary_size() const;
  /// A piece as in the vocabulary ("\u2581hello", "hello</w>"), and its id.
  [[nodiscard]] const std::string& piece(TokenId id) const;
  [[nodiscard]] std::optional<TokenId> find(std::string_view piece) const;
  /// The maximum text length of the model (tokenizer_config.json), if stated.
  [[nodiscard]] std::optional<std::size_t> model_max_length() const;

 private:
  [[nodiscard]] std::vector<TokenId> encode_text(std::string_view text) const;

  std::unique_ptr<const TokenizerParts> parts_;
};

/// Opens the tokenizer of a folder as published with a text encoder: `tokenizer.json` if it exists, else
/// `vocab.json` and `merges.txt`, else `spiece.model`. Added tokens also come from `tokenizer_config.json`,
/// `special_tokens_map.json` and `added_tokens.json`. `class_name` is the class in a pipeline's index
/// ("T5TokenizerFast"), for a folder that names none. Throws Error with file and key for anything missing, broken
/// or unknown.
[[nodiscard]] Tokenizer open_tokenizer(const std::filesystem::path& folder, std::string_view class_name = {});

}  // namespace headroom
