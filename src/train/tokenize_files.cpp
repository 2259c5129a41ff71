#include "train/tokenize_files.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string_view>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/hash.hpp"
#include "base/text/json.hpp"
#include "io/token_file.hpp"
#include "text/bpe_trainer.hpp"
#include "text/tokenizer.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// The files that a tokenizer may be made of.
constexpr std::string_view kTokenizerFiles[] = {
    "tokenizer.json",          "vocab.json",       "merges.txt", "spiece.model", "tokenizer_config.json",
    "special_tokens_map.json", "added_tokens.json"};

class FileTokenizer {
 public:
  FileTokenizer(const TokenizeRequest& request, const std::function<void(std::int64_t, std::int64_t)>& progress)
      : request_(request), progress_(progress), trains_(!request.tokenizer) {
    hash_.add("headroom tokens 1").add(request.validation);
  }

  /// Removes a vocabulary without tokens, since another one would be refused next to it.
  ~FileTokenizer() {
    std::error_code ignored;
    if (!is_done_ && is_new_) fs::remove(made_.tokenizer, ignored);
  }
  FileTokenizer(const FileTokenizer&) = delete;
  FileTokenizer& operator=(const FileTokenizer&) = delete;

  TokenizedFiles run() {
    const fs::path folder = request_.tokenizer ? *request_.tokenizer : request_.out.parent_path();
    if (trains_) train_vocabulary(folder / "tokenizer.json");
    const Tokenizer tokenizer = open_tokenizer(folder.empty() ? fs::path(".") : folder);
    made_.vocabulary = tokenizer.vocabulary_size();
    if (made_.vocabulary > TokenFile::kMostIds)
      fail("{}: its vocabulary has {} ids, expected at most {}, which 16 bits hold", folder.native(), made_.vocabulary,
           TokenFile::kMostIds);
    for (const std::string_view name : kTokenizerFiles)
      if (const fs::path file = folder / name; is_there(file)) hash_.add(name).add(read_file(file));
    encode(tokenizer);
    write();
    is_done_ = true;
    return std::move(made_);
  }

 private:
  std::string read_document(const fs::path& path) {
    std::string text = read_file(path, {.takes_pipes = true});
    if (progress_) progress_(++done_, std::ssize(request_.files) * (trains_ ? 2 : 1));
    return text;
  }

  template <class Function>
  static auto in_file(const fs::path& path, const Function& function) {
    try {
      return function();
    } catch (const Error& error) {
      throw Error(fmt::format("{}: {}", path.native(), error.what()), error.code());
    }
  }

  void train_vocabulary(const fs::path& path) {
    BpeTrainer trainer;
    bool has_text = false;
    for (const fs::path& file : request_.files) {
      const std::string text = read_document(file);
      in_file(file, [&] { trainer.add(text); });
      has_text = has_text || !text.empty();
    }
    if (!has_text) fail_without_text();
    const nlohmann::json vocabulary = trainer.train(static_cast<std::size_t>(request_.vocabulary));
    is_new_ = !is_there(path);
    if (!is_new_ && read_json(path) != vocabulary)
      fail("{} is there already and has another vocabulary: use it by --tokenizer, or write to another folder",
           path.native());
    write_json(path, vocabulary);
    made_.tokenizer = path;
  }

  void encode(const Tokenizer& tokenizer) {
    const std::optional<TokenId> known = tokenizer.special_tokens().end;
    const std::optional<TokenId> end = known ? known : tokenizer.find(kEndOfText);
    for (const fs::path& file : request_.files) {
      const std::string text = read_document(file);
      hash_.add(text);
      made_.bytes += std::ssize(text);
      const std::vector<TokenId> ids =
          in_file(file, [&] { return tokenizer.encode(text, {.add_special_tokens = false}).ids; });
      const auto held_back = static_cast<std::size_t>(request_.validation * static_cast<double>(ids.size()));
      append(std::span(ids).first(ids.size() - held_back), end, ids_);
      append(std::span(ids).last(held_back), end, validation_);
    }
  }

  static void append(std::span<const TokenId> ids, std::optional<TokenId> end, std::vector<std::uint16_t>& to) {
    if (ids.empty()) return;
    if (end) to.push_back(static_cast<std::uint16_t>(*end));
    for (const TokenId id : ids) to.push_back(static_cast<std::uint16_t>(id));
  }

  [[noreturn]] void fail_without_text() const {
    fail("the files have no text, so there are no tokens to write to {}", request_.out.native());
  }

  void write() {
    if (ids_.empty()) fail_without_text();
    made_.tokens = std::ssize(ids_);
    made_.validation_tokens = std::ssize(validation_);
    made_.hash = hash_.hex();
    if (request_.validation > 0) {
      if (validation_.empty())
        fail("a share of {} of the text is less than a token in every file; give a larger --validation",
             request_.validation);
      made_.validation = fs::path(request_.out).replace_extension(".val" + request_.out.extension().native());
      write_token_file(made_.validation, validation_, hash_.digest());
    }
    write_token_file(request_.out, ids_, hash_.digest());
  }

  const TokenizeRequest& request_;
  const std::function<void(std::int64_t, std::int64_t)>& progress_;
  bool trains_;
  bool is_new_ = false;  // the tokenizer's file
  bool is_done_ = false;
  std::int64_t done_ = 0;
  Hasher hash_;
  std::vector<std::uint16_t> ids_, validation_;
  TokenizedFiles made_;
};

}  // namespace

TokenizedFiles tokenize_files(const TokenizeRequest& request,
                              const std::function<void(std::int64_t, std::int64_t)>& progress) {
  return FileTokenizer(request, progress).run();
}

}  // namespace headroom
