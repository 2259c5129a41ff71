#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/files/file.hpp"

namespace headroom {

/// Standard input, a file or a pipe, read sequentially.
class InputStream {
 public:
  /// Standard input for "-". Throws Error if it cannot be opened, is a folder or is a terminal.
  explicit InputStream(const std::string& name);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// The file's name, "standard input" for "-".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Fills `to` with the available bytes and returns their number. Blocks for a pipe. Throws Error if reading
  /// fails.
  [[nodiscard]] std::size_t read(std::span<std::uint8_t> to);
  /// Reads a line without its line end. Empty at the end of the stream. `is_whole` is false if the stream or
  /// `most_bytes` ends before the line.
  struct Line {
    std::string text;
    bool is_whole = false;
  };
  [[nodiscard]] std::optional<Line> read_line(std::size_t most_bytes);

 private:
  [[nodiscard]] std::size_t read_some(std::span<std::uint8_t> to);

  std::string name_;
  int descriptor_;
};

/// Standard output, a file or a pipe, written sequentially. A file appears under its name with finish()
/// (AtomicFile).
class OutputStream {
 public:
  /// Standard output for "-". Throws Error if it cannot be written or is a terminal.
  explicit OutputStream(const std::string& name);

  /// Throws Error, also if a pipe has no reader any more; SIGPIPE does not end the process.
  void write(std::span<const std::uint8_t> bytes);
  void finish();

 private:
  std::optional<AtomicFile> file_;  // empty for standard output
};

}  // namespace headroom
