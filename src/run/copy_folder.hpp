#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace headroom {

/// Copies what a model's folder holds: regular files and folders, and files that links point to, as files. A link may
/// point to a file of the folder, or where the folder is a snapshot in a cache of the Hugging Face Hub
/// (`models--NAME/snapshots/REVISION`) to one of that model's `blobs`. A folder comes from strangers, and what it points
/// to elsewhere would be published with the copy.
class FolderCopy {
 public:
  /// `root` is the model's folder, which links may not leave, and `out` that of the copy, which may lie in it and is not
  /// copied. Throws Error where one cannot be read.
  FolderCopy(const std::filesystem::path& root, const std::filesystem::path& out);

  using IsLeft = std::function<bool(const std::string& name)>;
  /// Copies the contents of `from`, a folder in the root or a link to one, into the folder `to`, but for what `is_left`
  /// says of names in `from` itself. Throws Error that names the first link that leads out, to a folder or to nothing,
  /// the first device, pipe or socket, and what cannot be read or written.
  void copy(const std::filesystem::path& from, const std::filesystem::path& to, const IsLeft& is_left) const;

 private:
  void copy_contents(const std::filesystem::path& from, const std::filesystem::path& to, const IsLeft& is_left) const;
  void copy_file(const std::filesystem::path& from, const std::filesystem::path& to) const;
  /// The file or folder behind `path`, all links followed. Throws Error where it is outside.
  [[nodiscard]] std::filesystem::path resolve(const std::filesystem::path& path) const;

  std::filesystem::path root_;   // without links
  std::filesystem::path out_;    // without links
  std::filesystem::path blobs_;  // without links; empty where the root is no snapshot
};

}  // namespace headroom
