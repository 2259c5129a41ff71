#include "media/orientation.hpp"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "media/test_util.hpp"

namespace headroom {
namespace {

int exif_orientation(std::string_view exif) { return orientation_of({.exif = std::string(exif), .xmp = {}}); }

/// A TIFF header with a directory of one entry, little-endian.
std::string exif_with(char tag, char type, char count, char value) {
  const std::string header("II*\0\x08\0\0\0\x01\0", 10);
  return header + std::string{tag, 1, type, 0, count, 0, 0, 0, value, 0, 0, 0} + std::string(4, '\0');
}

TEST(Orientation, IsReadInBothByteOrders) {
  EXPECT_EQ(exif_orientation(exif_with(0x12, 3, 1, 6)), 6);
  EXPECT_EQ(exif_orientation(std::string("MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 22)), 8);
}

TEST(Orientation, IsUprightWhereNothingSaysOtherwise) {
  EXPECT_EQ(exif_orientation(""), 1);
  EXPECT_EQ(exif_orientation("II"), 1);
  EXPECT_EQ(exif_orientation(exif_with(0x13, 3, 1, 6)), 1) << "another tag";
  for (const char type : {'\1', '\2', '\7'}) EXPECT_EQ(exif_orientation(exif_with(0x12, type, 1, 6)), 1) << "no number";
  EXPECT_EQ(exif_orientation(exif_with(0x12, 3, 0, 6)), 1) << "no value";
  EXPECT_EQ(exif_orientation(exif_with(0x12, 3, 3, 6)), 1) << "values that are not there";
  for (const char value : {'\0', '\x09', '\x7F'}) EXPECT_EQ(exif_orientation(exif_with(0x12, 3, 1, value)), 1);
  std::string other = exif_with(0x12, 3, 1, 6);
  other[0] = 'X';
  EXPECT_EQ(exif_orientation(other), 1) << "no TIFF";
  other = exif_with(0x12, 3, 1, 6);
  other[2] = 43;
  EXPECT_EQ(exif_orientation(other), 1) << "BigTIFF";
}

TEST(Orientation, ReadsNothingBehindTheEnd) {
  const std::string whole = exif_with(0x12, 3, 1, 6);
  for (std::size_t size = 0; size < 20; ++size) {
    const std::vector<char> cut(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(size));  // ends a heap block
    EXPECT_EQ(exif_orientation({cut.data(), cut.size()}), 1) << size;
  }
  EXPECT_EQ(exif_orientation(std::string("II*\0\xFF\xFF\xFF\xFF", 8)), 1);
  EXPECT_EQ(exif_orientation(std::string("II*\0\x04\0\0\0\xFF\xFF\xFF\xFF", 12)), 1);
}

TEST(Orientation, OfXmpIsTheFirstWhereExifSaysNothing) {
  const auto of = [](std::string exif, std::string xmp) {
    return orientation_of({.exif = std::move(exif), .xmp = std::move(xmp)});
  };
  EXPECT_EQ(of("", "<a tiff:Orientation=\"6\" b/>"), 6);
  EXPECT_EQ(of("", "<tiff:Orientation>8</tiff:Orientation> tiff:Orientation=\"6\""), 8);
  EXPECT_EQ(of("", "tiff:Orientation='6' tiff:Orientation=\"x\" tiff:Orientation=\"3\""), 3);
  EXPECT_EQ(of("", "tiff:Orientation=\"0\" tiff:Orientation=\"3\""), 1);
  for (const char* const cut : {"tiff:Orientation", "tiff:Orientation=", "tiff:Orientation=\"", "tiff:Orientation>"})
    EXPECT_EQ(of("", cut), 1) << cut;
  EXPECT_EQ(of(exif_with(0x13, 3, 1, 3), "tiff:Orientation=\"6\""), 6);
  EXPECT_EQ(of(exif_with(0x12, 3, 1, 3), "tiff:Orientation=\"6\""), 3);
  EXPECT_EQ(of("broken", "tiff:Orientation=\"6\""), 1);
}

TEST(Orientation, OfARawProfileIsExif) {
  EXPECT_EQ(exif_of_raw_profile("\nexif\n       3\n4949\n2a\n"), "II*");
  EXPECT_EQ(exif_of_raw_profile("\nexif\n 2\n 49 49 "), "II");
  for (const char* const none :
       {"", "\nexif\n", "\nexif\n 1\n4", "\nexif\n 1\n4x", "\nexif\n 1\n+1", "4949", "\nexif\n 1\n4 9"})
    EXPECT_EQ(exif_of_raw_profile(none), "") << none;
}

TEST(Upright, TurnsAndMirrors) {
  const Image lying{.width = 3,
                    .height = 2,
                    .channels = 1,
                    .pixels = {1, 2, 3,  //
                               4, 5, 6}};
  const auto expect = [&](int orientation, int width, const std::vector<std::uint8_t>& pixels) {
    EXPECT_EQ(upright(lying, orientation),
              (Image{.width = width, .height = 6 / width, .channels = 1, .pixels = pixels}))
        << orientation;
  };
  expect(1, 3, {1, 2, 3, 4, 5, 6});
  expect(2, 3, {3, 2, 1, 6, 5, 4});
  expect(3, 3, {6, 5, 4, 3, 2, 1});
  expect(4, 3, {4, 5, 6, 1, 2, 3});
  expect(5, 2, {1, 4, 2, 5, 3, 6});
  expect(6, 2, {4, 1, 5, 2, 6, 3});
  expect(7, 2, {6, 3, 5, 2, 4, 1});
  expect(8, 2, {3, 6, 2, 5, 1, 4});
  EXPECT_THROW((void)upright(lying, 0), std::logic_error);
  EXPECT_THROW((void)upright(lying, 9), std::logic_error);
}

TEST(Upright, KeepsChannelsTogether) {
  const Image pair{.width = 2, .height = 1, .channels = 3, .pixels = {1, 2, 3, 4, 5, 6}};
  EXPECT_EQ(upright(pair, 8), (Image{.width = 1, .height = 2, .channels = 3, .pixels = {4, 5, 6, 1, 2, 3}}));
}

}  // namespace
}  // namespace headroom
