#include <filesystem>

#include "base/error.hpp"
#include "text/sentencepiece.hpp"
#include "text/tokenizer.hpp"
#include "text/tokenizer_config.hpp"
#include "text/tokenizer_json.hpp"
#include "text/vocab_merges.hpp"

namespace headroom {
namespace fs = std::filesystem;

Tokenizer open_tokenizer(const fs::path& folder) {
  if (!fs::is_directory(folder)) fail("there is no tokenizer folder {}", folder.native());
  TokenizerConfig config = TokenizerConfig::read(folder);
  if (const fs::path json = folder / "tokenizer.json"; fs::exists(json)) {
    TokenizerParts parts = read_tokenizer_json(json);
    config.apply_to(parts, json.native());
    return Tokenizer(std::move(parts));
  }
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    return Tokenizer(read_vocab_and_merges(folder, config));
  if (const fs::path spiece = folder / "spiece.model"; fs::exists(spiece))
    return Tokenizer(read_spiece(spiece, config));
  fail("{} has no tokenizer: none of tokenizer.json, vocab.json with merges.txt, and spiece.model is there",
       folder.native());
}

}  // namespace headroom
