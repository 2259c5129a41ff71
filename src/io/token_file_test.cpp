#include "io/token_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAreArray;
using testing::HasSubstr;

TEST(TokenFile, ReadsWhatItWrote) {
  const TempFolder folder;
  const std::vector<std::uint16_t> ids = {0, 1, 65535, 7};
  write_token_file(folder / "data.bin", ids, 0x123456789ABCDEF0U);
  const TokenFile file = TokenFile::open(folder / "data.bin");
  EXPECT_THAT(std::vector(file.ids().begin(), file.ids().end()), ElementsAreArray(ids));
  EXPECT_EQ(file.hash(), 0x123456789ABCDEF0U);
  const std::string bytes = read_file(folder / "data.bin");  // as llm.c reads it
  EXPECT_EQ(bytes.size(), 1024U + 8U);
  std::int32_t words[3];
  std::memcpy(words, bytes.data(), sizeof words);
  EXPECT_EQ(words[0], 20240520);
  EXPECT_EQ(words[1], 1);
  EXPECT_EQ(words[2], 4);
  EXPECT_EQ(bytes.substr(1024 + 4, 2), "\xff\xff");
}

TEST(TokenFile, SaysWhatIsWrongWithAFile) {
  const TempFolder folder;
  write_token_file(folder / "data.bin", std::vector<std::uint16_t>{1, 2, 3}, 0);
  const std::string whole = read_file(folder / "data.bin");
  const auto error_with = [&](const std::string& bytes) {
    write_file_atomically(folder / "other.bin", bytes);
    return error_of([&] { static_cast<void>(TokenFile::open(folder / "other.bin")); });
  };
  EXPECT_EQ(error_with(whole), "(no error)");
  EXPECT_THAT(error_with(whole.substr(0, 100)), HasSubstr("it has 100 bytes, expected a header of 1024"));
  EXPECT_THAT(error_with(whole.substr(0, whole.size() - 1)), HasSubstr("3 tokens of 2 bytes, but 5 bytes follow"));
  EXPECT_THAT(error_with(whole + "x"), HasSubstr("but 7 bytes follow"));
  std::string other = whole;
  other[0] = 'x';
  EXPECT_THAT(error_with(other), HasSubstr("is no file of tokens: it begins with"));
  other = whole;
  other[4] = 2;
  EXPECT_THAT(error_with(other), HasSubstr("has the version 2, expected 1"));
  other = whole;
  other[11] = '\x80';
  EXPECT_THAT(error_with(other), HasSubstr("its header says -2147483645 tokens"));
}

}  // namespace
}  // namespace headroom
