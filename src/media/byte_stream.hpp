#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "base/files/file.hpp"

namespace headroom {

/// Standard input, or a file or pipe, whose bytes are read one after another.
class InputStream {
 public:
  /// Standard input for "-". Throws Error where it cannot be opened, is a folder or is a terminal.
  explicit InputStream(const std::string& name);
  ~InputStream();
  InputStream(const InputStream&) = delete;
  InputStream& operator=(const InputStream&) = delete;

  /// The file's name, "standard input" for "-".
  [[nodiscard]] const std::string& name() const noexcept { return name_; }
  /// Fills `to` as far as there are bytes, and says how many. Blocks for a pipe. Throws Error where it cannot be read.
  [[nodiscard]] std::size_t read(std::span<std::uint8_t> to);
  /// Reads up to a line's end and leaves that out. Nothing where the stream is at its end. `is_whole` is false where
  /// the stream or `most_bytes` ends before the line.
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

/// Standard output, or a file or pipe, that is written one byte after another. A file appears under its name with
/// finish() (AtomicFile).
class OutputStream {
 public:
  /// Standard output for "-". Throws Error where it cannot be written or is a terminal.
  explicit OutputStream(const std::string& name);

  /// Throws Error, also where nobody reads a pipe any more: a signal (SIGPIPE) does not end the process.
  void write(std::span<const std::uint8_t> bytes);
  void finish();

 private:
  std::optional<AtomicFile> file_;  // none for standard output
};

}  // namespace headroom
