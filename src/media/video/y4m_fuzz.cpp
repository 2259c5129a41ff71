// A libFuzzer target. Any bytes either are a YUV4MPEG2 stream whose frames are read completely, or are refused with
// an Error of one line. Built by cmake/fuzz.cmake; seeds are the streams in tests/fuzz/y4m.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "media/video/y4m.hpp"

namespace {

/// A file in memory, because the reader needs a file or pipe.
class MemoryFile {
 public:
  MemoryFile(const std::uint8_t* data, std::size_t size) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    HR_CHECK(descriptor_ >= 0);
    HR_CHECK(::write(descriptor_, data, size) == static_cast<ssize_t>(size));
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  [[nodiscard]] std::string name() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace

// NOLINTNEXTLINE(readability-identifier-naming): libFuzzer asks for this name
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::size_t kMostBytes = 3 << 16;  // small, so that a run tests many streams
  const MemoryFile file(data, size);
  try {
    const auto reader = headroom::open_y4m_reader(file.name(), {});
    const headroom::VideoFormat& format = reader->format();
    HR_CHECK(format.width >= 1 && format.height >= 1 && format.rate.per_second() > 0);
    if (format.frame_bytes() > kMostBytes) return 0;
    std::vector<std::uint8_t> rgb(format.frame_bytes());
    std::size_t frames = 0;
    while (reader->read(rgb)) ++frames;
    HR_CHECK_LE(frames, size);
  } catch (const headroom::Error& error) {
    const std::string_view message = error.what();
    HR_CHECK(message.starts_with("/proc/self/fd/") && message.find('\n') == std::string_view::npos);
  }
  return 0;
}
