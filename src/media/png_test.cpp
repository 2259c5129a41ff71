#include "media/png.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "media/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

/// A file made by tests/goldens/make_media.py.
std::filesystem::path png_picture(std::string_view name) {
  return std::filesystem::path(kSourceDir) / "tests/goldens/media/pictures" / name;
}

Image noise(int width, int height, int channels) {
  Image image = make_image(width, height, channels);
  std::mt19937 random(7);
  for (std::uint8_t& byte : image.pixels) byte = static_cast<std::uint8_t>(random() % 256);
  return image;
}

void expect_round_trip(const Image& image) {
  const TempFolder folder;
  write_png(folder / "a.png", image);
  EXPECT_EQ(parse_png(read_file(folder / "a.png"), "a").image,
            image.channels == 1 ? test::on_three_channels(image) : image)
      << image.width << " pixels wide, " << image.channels << " channels";
}

TEST(Png, RoundTripsGrayAndRgb) {
  for (const int channels : {1, 3})
    for (const int width : {1, 7, 300}) expect_round_trip(test::pattern(width, 5, channels));
}

/// Several pieces of 64 KiB that are compressed in parallel; RGB noise does not compress and takes more than one
/// IDAT chunk of 1 MiB.
TEST(Png, RoundTripsWhatIsOfSeveralPieces) {
  for (const int channels : {1, 3}) expect_round_trip(noise(700, 700, channels));
}

TEST(Png, IsAPngAndReproducible) {
  const TempFolder folder;
  const PngText text{{"prompt", "a cat"}};
  write_png(folder / "a.png", test::pattern(9, 5, 3), text);
  write_png(folder / "b.png", test::pattern(9, 5, 3), text);
  EXPECT_THAT(read_file(folder / "a.png"), StartsWith("\x89PNG\r\n\x1a\n"));
  EXPECT_EQ(read_file(folder / "a.png"), read_file(folder / "b.png"));
}

TEST(Png, KeepsTextsInTheNarrowestForm) {
  const TempFolder folder;
  const PngText text{{"Comment", ""},
                     {"seed", "7"},
                     {"prompt", "un café à Zürich\nline two"},
                     {"negative prompt", "雨, €, 😀"},
                     {"long", std::string(100'000, 'x')}};
  write_png(folder / "a.png", test::pattern(3, 2, 3), text);
  EXPECT_EQ(read_png_text(folder / "a.png"), text);
  const std::string bytes = read_file(folder / "a.png");
  EXPECT_THAT(bytes, HasSubstr("tEXtprompt" + std::string(1, '\0') + "un caf\xE9 \xE0 Z\xFCrich\nline two"));
  EXPECT_THAT(bytes, HasSubstr("iTXtnegative prompt" + std::string(5, '\0') + "雨, €, 😀"));
  write_png(folder / "a.png", test::pattern(3, 2, 3));
  EXPECT_EQ(read_png_text(folder / "a.png"), PngText{});
}

TEST(Png, ReadsTextsOfOthers) {
  // Made with Pillow: tEXt, a compressed zTXt in Latin-1, a compressed iTXt, a repeated keyword, one text after the
  // pixels.
  const PngText text = read_png_text(png_picture("texts.png"));
  EXPECT_EQ(text, (PngText{{"Software", "second"},
                           {"plain", "caf\u00e9"},
                           {"squeezed", std::string(500, 'a') + "\u00fc"},
                           {"wide", "\u96e8 \u96e8"},
                           {"behind", "the pixels"}}));
}

TEST(Png, RefusesTextsThatAPngCannotHold) {
  const TempFolder folder;
  const std::string path = (folder / "a.png").string();
  const auto error = [&](const std::string& value) {
    return error_of([&] { write_png(path, test::pattern(2, 2, 3), {{"prompt", value}}); });
  };
  EXPECT_EQ(error("caf\xE9"), "cannot write " + path + ": its text 'prompt' is not UTF-8");
  EXPECT_EQ(error(std::string("a\0b", 3)), "cannot write " + path + ": its text 'prompt' holds a NUL");
  EXPECT_FALSE(std::filesystem::exists(path));
  for (const std::string& key : {std::string(), std::string(" a"), std::string("a "), std::string(80, 'k'),
                                 std::string("caf\u00e9"), std::string("a\nb")})
    EXPECT_THROW(write_png(path, test::pattern(2, 2, 3), {{key, "x"}}), std::logic_error) << key;
}

TEST(Png, RefusesATextThatIsNotUtf8) {
  const std::string path = png_picture("text_not_utf8.png").string();
  EXPECT_EQ(parse_png(read_file(path), path).image.width, 13);  // the image is still readable
  EXPECT_EQ(error_of([&] { (void)read_png_text(path); }), path + " holds a text 'bad' that is not UTF-8");
}

TEST(Png, SaysWhatCannotBeReadOrWritten) {
  const TempFolder folder;
  const std::string path = (folder / "a.png").string();
  write_file_atomically(path, "not a png");
  EXPECT_THAT(error_of([&] { (void)read_png_text(path); }), StartsWith(path + " is not a readable PNG: "));
  EXPECT_THAT(error_of([&] { (void)read_png_text(folder / "none.png"); }), StartsWith("cannot read "));
  EXPECT_THAT(error_of([&] { write_png(folder / "none/a.png", test::pattern(2, 2, 1)); }), StartsWith("cannot write "));
}

/// Lengths are checked before libpng sees the file, which would allocate what a chunk states: a wrong checksum in the
/// header is not reached.
TEST(Png, RefusesAChunkThatStatesMoreThanTheFileHolds) {
  const TempFolder folder;
  write_png(folder / "a.png", test::pattern(2, 2, 3));
  const std::string png = read_file(folder / "a.png");
  std::string wrong = png;
  wrong[8 + 8 + 13] ^= 1;  // the checksum of IHDR
  EXPECT_THAT(error_of([&] { (void)parse_png(wrong, "it"); }), HasSubstr("CRC"));
  const std::string chunk("\0\x10\0\0tEXtkey", 11);  // states 1 MiB
  constexpr std::size_t kAfterHeader = 8 + 25;       // the signature and the chunk IHDR
  const std::string end = png.substr(png.size() - 12);
  for (const std::string& file : {wrong.substr(0, kAfterHeader) + chunk + wrong.substr(kAfterHeader),
                                  png.substr(0, png.size() - end.size()) + chunk, png.substr(0, png.size() - 1)})
    EXPECT_EQ(error_of([&] { (void)parse_png(file, "it"); }), "it is not a readable PNG: it ends too early");
  EXPECT_EQ(parse_png(png + chunk, "it").image, test::pattern(2, 2, 3)) << "what follows the end is not read";
}

TEST(Png, ChecksItsArgument) {
  Image image = test::pattern(4, 4, 3);
  image.pixels.pop_back();
  EXPECT_THROW(write_png("/dev/null", image), std::logic_error);
  EXPECT_THROW(write_png("/dev/null", Image{.width = 1, .height = 1, .channels = 2, .pixels = {1, 2}}),
               std::logic_error);
  EXPECT_THROW(write_png("/dev/null", Image{}), std::logic_error);
}

}  // namespace
}  // namespace headroom
