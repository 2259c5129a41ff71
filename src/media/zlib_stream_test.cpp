#include "media/zlib_stream.hpp"

#include <gtest/gtest.h>
#include <zlib.h>

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace headroom {
namespace {

std::string inflated(std::string_view stream, std::size_t bytes) {
  std::string made(bytes + 1, '\0');  // with room to detect excess output
  uLongf size = made.size();
  const int status = ::uncompress(reinterpret_cast<Bytef*>(made.data()), &size,
                                  reinterpret_cast<const Bytef*>(stream.data()), stream.size());
  EXPECT_EQ(status, Z_OK);
  made.resize(size);
  return made;
}

std::string deflated_in_one_go(std::string_view text) {
  std::string made(::compressBound(text.size()), '\0');
  uLongf size = made.size();
  EXPECT_EQ(::compress2(reinterpret_cast<Bytef*>(made.data()), &size, reinterpret_cast<const Bytef*>(text.data()),
                        text.size(), 3),
            Z_OK);
  made.resize(size);
  return made;
}

std::string random_text(std::size_t bytes, unsigned letters) {
  std::mt19937 random(7);
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>(random() % letters);
  return text;
}

constexpr std::size_t kPiece = 65536;

TEST(ZlibStream, HoldsWhatItWasMadeOf) {
  for (const std::size_t bytes :
       {std::size_t{0}, std::size_t{1}, std::size_t{100}, kPiece - 1, kPiece, kPiece + 1, 3 * kPiece, 5 * kPiece + 17})
    for (const unsigned letters : {1U, 4U, 256U}) {
      const std::string text = random_text(bytes, letters);
      EXPECT_EQ(inflated(zlib_stream(text), bytes), text) << bytes << " bytes of " << letters << " letters";
    }
}

TEST(ZlibStream, IsTheSameEachTime) {
  const std::string text = random_text(9 * kPiece, 40);
  EXPECT_EQ(zlib_stream(text), zlib_stream(text));
}

/// Matches at a distance of 20 KiB are found across the boundaries of pieces.
TEST(ZlibStream, IsAsShortAsOneMadeInOneGo) {
  const std::string part = random_text(20'000, 256);
  std::string text;
  while (text.size() < 12 * kPiece) text += part;
  EXPECT_LT(static_cast<double>(zlib_stream(text).size()), 1.05 * static_cast<double>(deflated_in_one_go(text).size()));
}

}  // namespace
}  // namespace headroom
