#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "media/byte_stream.hpp"

namespace headroom {

/// Whether --out means standard output. A file of that name is written as ./-.
[[nodiscard]] inline bool is_standard_output(const std::string& out) { return out == "-"; }

/// The destination of --out: a file, or standard output for `-`. The bytes for standard output first go to a
/// temporary file, so that they are sent completely or not at all.
class OutFile {
 public:
  /// Throws Error if the file cannot be written, or if standard output is a terminal.
  explicit OutFile(const std::string& out);
  ~OutFile();
  OutFile(const OutFile&) = delete;
  OutFile& operator=(const OutFile&) = delete;

  /// The path to write to.
  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// Copies the written file to standard output, if that is the destination.
  void finish();

 private:
  std::string path_;
  std::filesystem::path folder_;          // the temporary folder; empty for a file
  std::unique_ptr<OutputStream> stream_;  // null for a file
};

}  // namespace headroom
