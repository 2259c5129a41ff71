// A libFuzzer target. Any bytes either are an image with the number of pixels that its header states, or are
// refused with an Error of one line. Built by cmake/fuzz.cmake; seeds are the images in tests/goldens/media.

#include <zlib.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.hpp"
#include "media/image.hpp"
#include "media/read_image.hpp"

namespace {

std::uint32_t big_endian(std::span<const std::uint8_t> bytes) {
  return std::uint32_t{bytes[0]} << 24U | std::uint32_t{bytes[1]} << 16U | std::uint32_t{bytes[2]} << 8U | bytes[3];
}

/// Corrects the checksums of a PNG's chunks: a length, a name of four bytes, the content, its CRC-32.
void mend_checksums(std::span<std::uint8_t> file) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kAround = 12;  // bytes of a chunk without its content
  if (file.size() < kSignature || file[0] != 0x89) return;
  std::span<std::uint8_t> rest = file.subspan(kSignature);
  while (rest.size() >= kAround) {
    const std::size_t length = big_endian(rest);
    if (length > rest.size() - kAround) return;
    const auto sum = static_cast<std::uint32_t>(::crc32(0, rest.data() + 4, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i) rest[length + 8 + i] = static_cast<std::uint8_t>(sum >> (24 - 8 * i));
    rest = rest.subspan(length + kAround);
  }
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): libFuzzer asks for these names
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) mend_checksums({data, size});  // otherwise few mutations would reach the pixels
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint64_t kMostPixels = 1 << 16;  // small, so that a run tests many files
  try {
    const headroom::Image image =
        headroom::decode_image({reinterpret_cast<const char*>(data), size}, "input", kMostPixels);
    headroom::check_image(image);
    HR_CHECK_LE(image.pixels.size(), 3 * kMostPixels);
    unsigned sum = 0;
    for (const std::uint8_t byte : image.pixels) sum += byte;
    HR_CHECK_LE(sum, 255 * image.pixels.size());  // uses the result of the reads, which the sanitizer checks
  } catch (const headroom::Error& error) {
    const std::string_view message = error.what();
    constexpr std::string_view kOtherFile = "input cannot be read as a picture; expected a PNG or a JPEG";
    HR_CHECK(message == kOtherFile ||
             (message.starts_with("input is ") && message.find('\n') == std::string_view::npos));
  }
  return 0;
}
// NOLINTEND(readability-identifier-naming)
