#include "train/tokenize_files.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "io/token_file.hpp"
#include "text/byte_alphabet.hpp"
#include "text/tokenizer.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<TokenId> ids_of(const fs::path& path) {
  const TokenFile file = TokenFile::open(path);
  return {file.ids().begin(), file.ids().end()};
}

/// The bytes of the tokens, with "|" where a text ends.
std::string text_of(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
  std::string text;
  for (const TokenId id : ids) {
    const std::string& piece = tokenizer.piece(id);
    text += piece == "<|endoftext|>" ? "|" : alphabet_to_bytes(piece).value();
  }
  return text;
}

class TokenizeFiles : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text) {
    write_file_atomically(folder_ / name, text);
    return folder_ / name;
  }
  std::string error(const TokenizeRequest& request) {
    return error_of([&] { static_cast<void>(tokenize_files(request)); });
  }
  TempFolder folder_;
};

TEST_F(TokenizeFiles, GiveTheirTextBack) {
  const std::string one = "the cat sat on the mat\n\n  \xe2\x98\x83 and the hat", two = "\tthe end of the cat";
  const TokenizeRequest request{.files = {write("one.txt", one), write("none.txt", ""), write("two.txt", two)},
                                .out = folder_ / "data.bin",
                                .vocabulary = 270};
  const TokenizedFiles made = tokenize_files(request);
  EXPECT_EQ(made.bytes, std::ssize(one) + std::ssize(two));
  EXPECT_EQ(made.vocabulary, 270);
  EXPECT_EQ(made.tokenizer, folder_ / "tokenizer.json");
  const Tokenizer tokenizer = open_tokenizer(folder_.path());
  const std::vector<TokenId> ids = ids_of(folder_ / "data.bin");
  EXPECT_EQ(text_of(tokenizer, ids), "|" + one + "|" + two);
  EXPECT_EQ(made.tokens, std::ssize(ids));
  EXPECT_LT(made.tokens, std::ssize(one) + std::ssize(two));
  EXPECT_FALSE(fs::exists(folder_ / "data.val.bin"));

  // The vocabulary that was written gives the same tokens, with or without training it again.
  EXPECT_EQ(tokenize_files(request).hash, made.hash);
  TokenizeRequest again = request;
  again.tokenizer = folder_.path();
  again.out = folder_ / "again.bin";
  EXPECT_EQ(tokenize_files(again).hash, made.hash);
  EXPECT_EQ(read_file(folder_ / "again.bin"), read_file(folder_ / "data.bin"));
}

TEST_F(TokenizeFiles, HaveTheIdsOfAKnownTokenizer) {
  const fs::path goldens = source_dir(kSourceDir) / "tests/goldens/text";
  const nlohmann::json strings = read_json(goldens / "strings.json"), expected = read_json(goldens / "bpe/ids.json");
  std::vector<fs::path> files;
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < strings.size(); ++i) {
    files.push_back(write(std::to_string(i), strings[i].get<std::string>()));
    if (expected[i].empty()) continue;
    ids.push_back(0);
    for (const nlohmann::json& id : expected[i]) ids.push_back(id.get<TokenId>());
  }
  const TokenizedFiles made =
      tokenize_files({.files = files, .out = folder_ / "data.bin", .tokenizer = goldens / "bpe"});
  EXPECT_EQ(ids_of(folder_ / "data.bin"), ids);
  EXPECT_EQ(made.vocabulary, 900);
  EXPECT_TRUE(made.tokenizer.empty());
}

TEST_F(TokenizeFiles, HoldBackTheEndOfEachFile) {
  const TokenizeRequest request{.files = {write("a", "0123456789"), write("b", "abcdefghij"), write("c", "xy")},
                                .out = folder_ / "data.bin",
                                .vocabulary = 257,
                                .validation = 0.2};
  const TokenizedFiles made = tokenize_files(request);
  const Tokenizer tokenizer = open_tokenizer(folder_.path());
  EXPECT_EQ(made.validation, folder_ / "data.val.bin");
  EXPECT_EQ(text_of(tokenizer, ids_of(folder_ / "data.bin")), "|01234567|abcdefgh|xy");
  EXPECT_EQ(text_of(tokenizer, ids_of(made.validation)), "|89|ij");
  EXPECT_EQ(made.validation_tokens, 6);
  EXPECT_EQ(TokenFile::open(made.validation).hash(), TokenFile::open(request.out).hash());
}

TEST_F(TokenizeFiles, HashAllThatWentIn) {
  const auto hash = [&](const std::vector<std::string>& texts, std::int64_t vocabulary, double validation) {
    fs::remove(folder_ / "tokenizer.json");
    std::vector<fs::path> files;
    for (const std::string& text : texts) files.push_back(write("text" + std::to_string(files.size()), text));
    return tokenize_files(
               {.files = files, .out = folder_ / "data.bin", .vocabulary = vocabulary, .validation = validation})
        .hash;
  };
  const std::string whole = hash({"aaaa bbbb", "aaaa"}, 260, 0.5);
  EXPECT_EQ(hash({"aaaa bbbb", "aaaa"}, 260, 0.5), whole);
  EXPECT_NE(hash({"aaaa bbbb", "aaab"}, 260, 0.5), whole);
  EXPECT_NE(hash({"aaaa", "aaaa bbbb"}, 260, 0.5), whole);
  EXPECT_NE(hash({"aaaa bbbb", "aaaa"}, 259, 0.5), whole);
  EXPECT_NE(hash({"aaaa bbbb", "aaaa"}, 260, 0.4), whole);
}

TEST_F(TokenizeFiles, SayWhatIsWrong) {
  const fs::path text = write("a.txt", "abc"), bad = write("bad.txt", "a\xff"), empty = write("empty.txt", "");
  const fs::path out = folder_ / "data.bin";
  EXPECT_THAT(error({.files = {text, bad}, .out = out, .vocabulary = 300}), HasSubstr((folder_ / "bad.txt").string()));
  EXPECT_THAT(error({.files = {folder_ / "none"}, .out = out, .vocabulary = 300}), HasSubstr("none"));
  EXPECT_FALSE(fs::exists(folder_ / "tokenizer.json"));
  EXPECT_THAT(error({.files = {empty}, .out = out, .vocabulary = 300}), HasSubstr("the files have no text"));
  EXPECT_THAT(error({.files = {text}, .out = out, .vocabulary = 300, .validation = 0.1}),
              HasSubstr("less than a token"));
  EXPECT_FALSE(fs::exists(folder_ / "tokenizer.json")) << "a vocabulary without tokens";
  write_json(folder_ / "tokenizer.json", {{"version", "1.0"}});
  EXPECT_THAT(error({.files = {text}, .out = out, .vocabulary = 300}), HasSubstr("is there already and has another"));
  EXPECT_EQ(read_json(folder_ / "tokenizer.json"), (nlohmann::json{{"version", "1.0"}})) << "which stays";
  EXPECT_FALSE(fs::exists(out));
}

TEST_F(TokenizeFiles, RefuseIdsOfMoreThan16Bits) {
  nlohmann::json file = read_json(source_dir(kSourceDir) / "tests/goldens/text/bpe/tokenizer.json");
  file["model"]["vocab"]["zzzz"] = 65536;
  write_json(folder_ / "tokenizer.json", file);
  EXPECT_THAT(error({.files = {write("a.txt", "abc")}, .out = folder_ / "data.bin", .tokenizer = folder_.path()}),
              HasSubstr("its vocabulary has 65537 ids, expected at most 65536"));
}

}  // namespace
}  // namespace headroom
