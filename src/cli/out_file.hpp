#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "media/byte_stream.hpp"

namespace headroom {

/// Whether --out names standard output. A file of that name is written as ./-.
[[nodiscard]] inline bool is_standard_output(const std::string& out) { return out == "-"; }

/// What --out names: a file, or for `-` standard output, whose bytes are first written to a temporary file, complete or not at all.
class OutFile {
 public:
  /// Throws Error where it cannot be written, or standard output is a terminal.
  explicit OutFile(const std::string& out);
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  /// The file to write.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Sends what was written on to standard output, where that is meant.
  void finish();

 private:
  std::string path_;
  std::filesystem::path folder_;          // the temporary one; empty for a file
  std::unique_ptr<OutputStream> stream_;  // none for a file
};

}  // namespace headroom
