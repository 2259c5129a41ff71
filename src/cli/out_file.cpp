#include "cli/out_file.hpp"

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <system_error>

#include "base/error.hpp"
#include "base/files/file.hpp"

namespace headroom {

namespace fs = std::filesystem;

OutFile::OutFile(const std::string& out) : path_(out) {
  if (!is_standard_output(out)) {
    check_writable(out);
    return;
  }
  stream_ = std::make_unique<OutputStream>(out);
  std::string name = (fs::temp_directory_path() / "headroom-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) fail("cannot make the folder {}: {}", name, std::strerror(errno));
  folder_ = name;
  path_ = (folder_ / "out").string();
}

OutFile::~OutFile() {
  std::error_code ignored;
  if (!folder_.empty()) fs::remove_all(folder_, ignored);
}

void OutFile::finish() {
  if (!stream_) return;
  const MappedFile file(path_);
  stream_->write({reinterpret_cast<const std::uint8_t*>(file.bytes().data()), file.bytes().size()});
  stream_->finish();
}

}  // namespace headroom
