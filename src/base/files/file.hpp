#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace headroom {

/// Why `bytes` (0: an unknown number) could not be written to `place`, a folder or device: the system's words for its
/// errno value, or where room is missing, where and how much of it.
[[nodiscard]] std::string reason_not_written(int error, const std::filesystem::path& place, std::uint64_t bytes);

/// A file that appears under its name complete or not at all. Bytes go to a temporary name in the same directory;
/// commit() flushes them to the disk and renames. Without a commit the temporary file is removed and whatever stood at
/// `path` is untouched. A symbolic link is followed, so that what it names is replaced. A device or pipe (/dev/stdout)
/// cannot be replaced and is written in place.
/// Every step is checked: an Error names the path and the system's reason, and where there is no space left on what
/// folder or device, and for how many bytes.
class AtomicFile {
 public:
  /// `expected_bytes` is how long the file will become, as far as that is known, for the words of an Error.
  explicit AtomicFile(std::filesystem::path path, std::uint64_t expected_bytes = 0);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&&) = delete;

  /// Appends. After an Error the file can only be destroyed.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }
  /// Writes at `offset`, for formats that go back and fill in; not beside write(). A pipe cannot.
  void write_at(std::uint64_t offset, std::span<const std::byte> bytes);
  /// Makes the file visible under its name; nothing may be written afterwards.
  void commit();

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }

 private:
  void discard() noexcept;
  [[noreturn]] void fail_to_write(int error);

  std::filesystem::path path_;       // as the user gave it, for messages
  std::filesystem::path target_;     // with symbolic links resolved
  std::filesystem::path temporary_;  // empty where the target is written in place
  std::uint64_t expected_bytes_;
  std::uint64_t given_bytes_ = 0;  // to write()
  bool is_device_ = false;         // or a pipe: written in place
  int descriptor_ = -1;
};

/// Writes a whole file through an AtomicFile.
void write_file_atomically(const std::filesystem::path& path, std::span<const std::byte> bytes);
void write_file_atomically(const std::filesystem::path& path, std::string_view text);

/// Makes a folder and those above it that are missing.
void make_folder(const std::filesystem::path& folder);

/// Throws the Error that writing a file there would throw, as far as that is known before there is anything to write.
/// What stands at `path` is left alone.
void check_writable(const std::filesystem::path& path);
/// The same for a file in a folder that make_folder() will make; it is not there afterwards if it was not before.
void check_writable_in(const std::filesystem::path& folder, const std::filesystem::path& name);

/// Whether `path` names something, links followed. Throws Error where nobody can tell: a link to itself or to nothing, a
/// folder that may not be searched.
[[nodiscard]] bool is_there(const std::filesystem::path& path);
/// The same for a folder; anything else is none.
[[nodiscard]] bool is_folder(const std::filesystem::path& path);
/// What a folder holds, by name in order. Throws Error where it cannot be read.
[[nodiscard]] std::vector<std::filesystem::path> list_folder(const std::filesystem::path& folder);

/// What is read of a file: a regular one, or a link to one, up to a size. A device may have no end, and a pipe may never
/// have a beginning.
struct ReadLimits {
  std::uint64_t most_bytes = std::uint64_t{64} << 20;  ///< tokenizers and indices of shards take up to half of it
  bool takes_pipes = false;                            ///< for files that the user names, as the shell's <(...) does
};

/// The whole content of a file. Throws Error where it cannot be opened or read, is no regular file, or is larger than
/// the limit. A pipe that nobody writes to is empty.
[[nodiscard]] std::string read_file(const std::filesystem::path& path, const ReadLimits& limits = {});

/// A regular file mapped read-only into memory. The mapping does not move when the object is moved. The file should not
/// be truncated meanwhile: see base/files/truncated_file.hpp. release() throws then, as require_whole() does.
class MappedFile {
 public:
  explicit MappedFile(std::filesystem::path path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;

  [[nodiscard]] const std::filesystem::path& path() const noexcept { return path_; }
  [[nodiscard]] std::uint64_t size() const noexcept { return bytes_.size(); }
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Tells the system that the file will be read from front to back, so that it reads ahead further.
  void advise_sequential() const noexcept;
  /// Gives back the memory of bytes [offset, offset + length), and of some of their neighbours, so that streamed
  /// weights do not stay resident. Reading them again is allowed; they then come from the file again.
  void release(std::uint64_t offset, std::uint64_t length) const;

 private:
  std::filesystem::path path_;
  std::span<const std::byte> bytes_;
};

}  // namespace headroom
