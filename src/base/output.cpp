#include "base/output.hpp"

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/terminal.hpp"
#include "base/text/printable.hpp"

namespace headroom {
namespace {

/// The place that is full when a stream cannot be written: the device, or the folder of its file.
std::filesystem::path place_of(int descriptor) {
  std::error_code error;
  const std::filesystem::path file = std::filesystem::read_symlink(fmt::format("/proc/self/fd/{}", descriptor), error);
  if (error) return "its device";
  return std::filesystem::is_regular_file(file, error) ? file.parent_path() : file;
}

}  // namespace

void write_output(int descriptor, std::string_view text) {
  const std::string shown = printable(text);
  erase_bar();
  for (std::string_view rest = shown; !rest.empty();) {
    const ssize_t written = ::write(descriptor, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int error = errno;
      fail("cannot write to standard {}: {}", descriptor == STDOUT_FILENO ? "output" : "error",
           reason_not_written(error, place_of(descriptor), shown.size()));
    }
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace headroom
