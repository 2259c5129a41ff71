#include "io/idx_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include <string>
#include <string_view>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kArray(
    "\0\0\x08\x02\0\0\0\x02\0\0\0\x03"
    "abcdef",
    18);

class IdxFileTest : public testing::Test {
 protected:
  [[nodiscard]] std::string error(std::string_view content) const {
    write_file_atomically(folder_ / "a", content);
    return error_of([&] { static_cast<void>(read_idx_file(folder_ / "a")); });
  }
  TempFolder folder_;
};

TEST_F(IdxFileTest, IsReadPlainAndCompressed) {
  write_file_atomically(folder_ / "a", kArray);
  gzFile file = gzopen((folder_ / "a.gz").c_str(), "wb");
  ASSERT_EQ(gzwrite(file, kArray.data(), static_cast<unsigned>(kArray.size())), static_cast<int>(kArray.size()));
  gzclose(file);
  for (const char* name : {"a", "a.gz"}) {
    const IdxArray array = read_idx_file(folder_ / name);
    EXPECT_THAT(array.extents, ElementsAre(2, 3));
    EXPECT_EQ(array.bytes, "abcdef");
  }
}

TEST_F(IdxFileTest, IsRefusedUnlessWhole) {
  EXPECT_THAT(error(kArray.substr(0, 17)), HasSubstr("a: has 17 bytes, expected 12 of its header and 6 elements"));
  EXPECT_THAT(error(kArray + "g"), HasSubstr("has 19 bytes"));
  EXPECT_THAT(error(kArray.substr(0, 9)), HasSubstr("the header of 2 axes is cut off"));
  EXPECT_THAT(error("PNG"), HasSubstr("is no file of bytes in idx format"));
  std::string floats = kArray, large = kArray, empty = kArray;
  floats[2] = 0x0D;
  EXPECT_THAT(error(floats), HasSubstr("is no file of bytes in idx format"));
  large[4] = large[8] = 0x7F;
  EXPECT_THAT(error(large), HasSubstr("axis 1 has the extent 2130706434"));
  empty[7] = 0;
  EXPECT_THAT(error(empty), HasSubstr("axis 1 has the extent 0"));
}

}  // namespace
}  // namespace headroom
