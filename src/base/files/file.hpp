#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// The reason why `bytes` (0: an unknown number) could not be written to `place`, a folder or device. It is the
/// system's message for the errno value, or, if space is missing, where and how much.
[[nodiscard]] std::string reason_not_written(int error, const std::filesystem::path& place, std::uint64_t bytes);

/// A file that appears under its name complete or not at all. Bytes go to a temporary file in the same folder;
/// commit() flushes it to the disk and renames it. Without a commit the temporary file is removed, and an existing
/// file at `path` is unchanged. Symbolic links are followed, so that their target is replaced. A device or pipe
/// (/dev/stdout) cannot be replaced and is written in place.
/// Every step is checked. An Error names the path and the system's reason; if no space is left, also the folder or
/// device and the number of bytes.
class AtomicFile {
 public:
  /// `expected_bytes` is the final size of the file, if known, for error messages.
  explicit AtomicFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  /// Appends. After an Error the file can only be destroyed.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes at `offset`, for formats that fill in earlier parts. Must not be combined with write(). Not possible
  /// for pipes.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Makes the file visible under its name. Nothing may be written afterwards.
  void commit();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void discard() noexcept;
  [[noreturn]] void fail_to_write(int error);

  std::filesystem::path path_;       // as given by the user, for messages
  std::filesystem::path target_;     // with symbolic links resolved
  std::filesystem::path temporary_;  // empty if the target is written in place
  std::uint64_t expected_bytes_;
  std::uint64_t given_bytes_ = 0;  // passed to write()
  bool is_device_ = false;         // or a pipe: written in place
  int descriptor_ = -1;
};

/// Writes a whole file through an AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Creates a folder and its missing parents.
void make_folder(const std::filesystem::path& folder);

/// Throws the Error that writing a file there would throw, as far as it can be known in advance. An existing file
/// at `path` is unchanged.
void check_writable(const std::filesystem::path& path);
/// The same for a file in a folder that make_folder() will create. The folder is not created by this call.
void check_writable_in(const std::filesystem::path& folder, const std::filesystem::path& name);

/// Whether `path` exists, following links. Throws Error if this cannot be determined: a circular or dangling link,
/// or a folder without search permission.
[[nodiscard]] bool is_there(const std::filesystem::path& path);
/// Whether `path` is a folder. Throws Error as is_there() does.
[[nodiscard]] bool is_folder(const std::filesystem::path& path);
/// The entries of a folder, sorted by name. Throws Error if it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

/// Restricts reading to regular files, or links to them, of a limited size. A device may have no end, and a pipe
/// may block forever.
struct ReadLimits {
  std::uint64_t most_bytes = std::uint64_t{64} << 20;  ///< tokenizers and shard indices need up to half of it
  /// for files that the user names, since the shell's <(...) is a pipe
  bool takes_pipes = false;
};

/// The whole content of a file. Throws Error if it cannot be opened or read, is not a regular file, or exceeds the
/// limit. A pipe without a writer is empty.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, const ReadLimits& limits = {});

/// A regular file mapped read-only into memory. Moving the object does not move the mapping. The file should not be
/// truncated in the meantime (see base/files/truncated_file.hpp); release() and require_whole() then throw.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Advises the system that the file will be read sequentially, so that it reads ahead further.
  void advise_sequential() const noexcept;
  /// Releases the memory of bytes [offset, offset + length), and of some neighbours, so that streamed weights do
  /// not stay resident. Later reads fetch the bytes from the file again.
  void release(std::uint64_t offset, std::uint64_t length) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace headroom
