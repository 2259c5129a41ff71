#include "media/read_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AnyOf;
using testing::StartsWith;

/// The output of tests/goldens/make_media.py.
const fs::path& media() {
  static const fs::path folder = fs::path(kSourceDir) / "tests/goldens/media";
  return folder;
}
fs::path picture(std::string_view name) { return media() / "pictures" / name; }

std::vector<std::uint8_t> from_hexadecimal(const std::string& text) {
  std::vector<std::uint8_t> bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes.push_back(static_cast<std::uint8_t>(std::stoi(text.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// Compares the images of a folder with Pillow's results in its JSON file.
void expect_read_as(const std::string& kind, std::size_t at_least) {
  const nlohmann::json read_as = parse_json(read_file(media() / (kind + ".json")), kind);
  EXPECT_GE(read_as.size(), at_least);
  for (const auto& [name, expected] : read_as.items()) {
    const Image image = read_image(media() / kind / name);
    EXPECT_EQ(image.width, expected.at("width").get<int>()) << name;
    EXPECT_EQ(image.height, expected.at("height").get<int>()) << name;
    EXPECT_EQ(image.channels, 3) << name;
    EXPECT_EQ(image.pixels, from_hexadecimal(expected.at("rgb").get<std::string>())) << name;
  }
}

TEST(ReadImage, GivesTheBytesThatPillowGives) { expect_read_as("pictures", 45); }

TEST(ReadImage, TurnsWhatPillowTurns) { expect_read_as("turned", 100); }

TEST(ReadImage, GoesByContentRatherThanName) {
  const TempFolder folder;
  fs::copy_file(picture("rgb.jpg"), folder / "a.png");
  EXPECT_EQ(read_image(folder / "a.png"), read_image(picture("rgb.jpg")));
}

TEST(ReadImage, SaysWhatIsWrongWithAFile) {
  const TempFolder folder;
  const auto error = [](const fs::path& path) { return error_of([&] { (void)read_image(path); }); };
  const std::string none = (folder / "none.png").string();
  EXPECT_EQ(error(none), "cannot read " + none + ": No such file or directory");
  EXPECT_EQ(error(folder.path()),
            "cannot read " + folder.path().string() + ": it is a folder, but a regular file was expected");

  const std::string file = (folder / "file").string();
  write_file_atomically(file, "");
  EXPECT_EQ(error(file), file + " is empty; expected a PNG or a JPEG");
  write_file_atomically(file, "GIF89a");
  EXPECT_EQ(error(file), file + " cannot be read as a picture; expected a PNG or a JPEG");
  fs::resize_file(file, (std::uintmax_t{1} << 30) + 1);  // sparse
  EXPECT_EQ(error(file), file + " is too large a file for a picture: 1073741825 bytes, at most 1073741824 are read");

  EXPECT_EQ(
      error(picture("cmyk.jpg")),
      picture("cmyk.jpg").string() + " is a JPEG in CMYK, for print; expected one in gray or colour (YCbCr or RGB)");
}

TEST(ReadImage, RefusesMorePixelsThanAreAllowed) {
  for (const char* name : {"rgb8.png", "gray.jpg"}) {
    const std::string file = read_file(picture(name));
    EXPECT_EQ(decode_image(file, name, 13 * 9).pixels.size(), 13 * 9 * 3U);
    EXPECT_EQ(error_of([&] { (void)decode_image(file, name, 13 * 9 - 1); }),
              std::string(name) + " is too large a picture: 13 by 9 pixels, at most 116 are read");
  }
}

/// The image in these bytes; empty if it is refused, with one line that begins with its name.
std::optional<Image> read_if_sound(const std::string& file, const std::string& what) {
  try {
    return decode_image(file, "it", 10'000);
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AnyOf(StartsWith("it is "), StartsWith("it cannot be read"))) << what;
    EXPECT_EQ(std::string_view(error.what()).find('\n'), std::string_view::npos) << what;
    return std::nullopt;
  }
}

TEST(ReadImage, RefusesEveryFileThatIsCutOff) {
  for (const char* name :
       {"rgb8.png", "rgba16_interlaced.png", "rgb8_exif_behind.png", "progressive.jpg", "gray.jpg"}) {
    const std::string whole = read_file(picture(name));
    // As in Pillow, the end marker of a JPEG with one scan may be missing.
    const std::size_t needed = std::string_view(name) == "gray.jpg" ? whole.size() - 2 : whole.size();
    for (std::size_t size = 0; size < needed; ++size) {
      const std::optional<Image> image = read_if_sound(whole.substr(0, size), name);
      if (!image) continue;
      EXPECT_EQ(*image, decode_image(whole, name)) << name << ", " << size << " bytes";
      EXPECT_GE(size + 1, needed) << name;  // padding bits of the last byte
    }
    EXPECT_TRUE(read_if_sound(whole.substr(0, needed), name)) << name;
  }
}

TEST(ReadImage, ReadsOrRefusesEveryFileWithAByteChanged) {
  int refused = 0;
  for (const char* name : {"rgb8.png", "palette2_interlaced.png", "texts.png", "rgb8_exif.png", "progressive.jpg",
                           "subsampling2.jpg", "orientation6.jpg", "../turned/raw.png", "../turned/xmp_6.jpg"}) {
    const std::string whole = read_file(picture(name));
    for (std::size_t at = 0; at < whole.size(); ++at)
      for (const int change : {0x01, 0x80, 0xFF}) {
        std::string damaged = whole;
        damaged[at] = static_cast<char>(damaged[at] ^ change);
        const std::optional<Image> image = read_if_sound(damaged, name);
        if (image) check_image(*image);
        if (!image) ++refused;
      }
  }
  EXPECT_GT(refused, 1000);
}

TEST(ReadImage, RefusesAJpegThatAsksForWorkWithoutEnd) {
  const std::string whole = read_file(picture("progressive.jpg"));
  const std::size_t last_scan = whole.rfind("\xFF\xDA");
  std::string many = whole.substr(0, whole.size() - 2);
  for (int i = 0; i < 200; ++i) many += whole.substr(last_scan, whole.size() - 2 - last_scan);
  many += "\xFF\xD9";
  EXPECT_EQ(error_of([&] { (void)decode_image(many, "it"); }), "it is not a readable JPEG: it has more than 100 scans");
}

}  // namespace
}  // namespace headroom
