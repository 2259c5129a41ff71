#include "media/read_image.hpp"

#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "media/jpeg.hpp"
#include "media/orientation.hpp"
#include "media/png.hpp"

namespace headroom {
namespace fs = std::filesystem;

Image decode_image(std::string_view file, std::string_view name, std::uint64_t most_pixels) {
  if (file.starts_with("\x89PNG\r\n\x1a\n")) {
    PngContents png = parse_png(file, name, most_pixels);
    return upright(std::move(png.image), orientation_of(png.metadata));
  }
  if (file.starts_with("\xFF\xD8\xFF")) {
    JpegContents jpeg = parse_jpeg(file, name, most_pixels);
    return upright(std::move(jpeg.image), orientation_of(jpeg.metadata));
  }
  fail("{} {}; expected a PNG or a JPEG", name, file.empty() ? "is empty" : "cannot be read as a picture");
}

Image read_image(const fs::path& path) {
  // A larger file, such as a checkpoint given by mistake, is rejected without reading all of it.
  constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 30;
  std::error_code unknown;
  const std::uint64_t size = fs::is_regular_file(path, unknown) ? fs::file_size(path, unknown) : 0;
  if (!unknown && size > kMostBytes)
    fail("{} is too large a file for a picture: {} bytes, at most {} are read", path.native(), size, kMostBytes);
  return decode_image(read_file(path, {.most_bytes = kMostBytes, .takes_pipes = true}), path.native());
}

}  // namespace headroom
