#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace headroom {

/// Text files to be made into training data (io/token_file.hpp).
struct TokenizeRequest {
  std::vector<std::filesystem::path> files;  ///< each one document in UTF-8
  std::filesystem::path out;                 ///< "data.bin"
  /// The folder of a tokenizer (open_tokenizer()).
  std::optional<std::filesystem::path> tokenizer = std::nullopt;
  /// Otherwise the number of tokens of a vocabulary that is trained on the files and written as `tokenizer.json` next
  /// to `out`.
  std::int64_t vocabulary = 0;
  /// The share of each document, its end, that goes to a file of its own, "data.val.bin"; 0 for no such file.
  double validation = 0;
};

struct TokenizedFiles {
  std::int64_t bytes = 0;  ///< of text
  std::int64_t tokens = 0;
  std::int64_t validation_tokens = 0;
  std::int64_t vocabulary = 0;       ///< the highest id that the tokenizer may give, plus one
  std::string hash;                  ///< of files, tokenizer and split, in hexadecimal
  std::filesystem::path tokenizer;   ///< the file that was written; empty if none was
  std::filesystem::path validation;  ///< likewise
};

/// Reads all files and writes the outputs, each complete or not at all, `out` last. The token that ends a text begins
/// every document, if the tokenizer has one. Calls `progress` with the number of files that are done in this and later
/// rounds, and their total. Throws Error for a file that cannot be read or is not UTF-8, for a vocabulary of more ids
/// than 16 bits hold, and if a tokenizer.json of another vocabulary is there.
[[nodiscard]] TokenizedFiles tokenize_files(
    const TokenizeRequest& request, const std::function<void(std::int64_t done, std::int64_t total)>& progress = {});

}  // namespace headroom
