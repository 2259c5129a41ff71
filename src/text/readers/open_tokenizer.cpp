#include <filesystem>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "text/readers/tokenizer_config.hpp"
#include "text/readers/tokenizer_json.hpp"
#include "text/readers/vocab_merges.hpp"
#include "text/t5_tokenizer.hpp"
#include "text/tokenizer.hpp"

namespace headroom {
namespace fs = std::filesystem;

Tokenizer open_tokenizer(const fs::path& folder, std::string_view class_name) {
  if (!fs::is_directory(folder)) fail("there is no tokenizer folder {}", folder.native());
  TokenizerConfig config = TokenizerConfig::read(folder);
  config.set_default_class(class_name);
  const bool is_t5 = config.tokenizer_class() == "T5Tokenizer";
  if (const fs::path json = folder / "tokenizer.json"; fs::exists(json)) {
    if (is_t5) return Tokenizer(read_t5_json(json, config));
    TokenizerParts parts = read_tokenizer_json(json);
    config.apply_to(parts, json.native());
    return Tokenizer(std::move(parts));
  }
  if (fs::exists(folder / "vocab.json") && fs::exists(folder / "merges.txt"))
    return Tokenizer(read_vocab_and_merges(folder, config));
  if (const fs::path spiece = folder / "spiece.model"; fs::exists(spiece)) {
    if (!config.tokenizer_class().empty() && !is_t5)
      fail("{} has no tokenizer.json in its folder, and its class {} is not T5Tokenizer", spiece.native(),
           config.tokenizer_class());
    return Tokenizer(read_t5_spiece(spiece, config));
  }
  fail("{} has no tokenizer: none of tokenizer.json, vocab.json with merges.txt, and spiece.model is there",
       folder.native());
}

}  // namespace headroom
