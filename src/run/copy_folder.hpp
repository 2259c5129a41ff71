#pragma once

#include <filesystem>
#include <functional>
#include <string>

namespace headroom {

/// Copies the content of a model's folder: regular files and folders, and the targets of links, as files. A link may
/// point to a file of the folder. If the folder is a snapshot in a cache of the Hugging Face Hub
/// (`models--NAME/snapshots/REVISION`), it may also point to that model's `blobs`. Folders may come from untrusted
/// sources: other link targets would be published with the copy.
class FolderCopy {
 public:
  /// `root` is the model's folder, which links may not leave. `out` is the folder of the copy; it may be inside
  /// `root` and is then not copied. Throws Error if one cannot be read.
  FolderCopy(const std::filesystem::path& root, const std::filesystem::path& out);

  using IsLeft = std::function<bool(const std::string& name)>;
  /// Copies the contents of `from`, a folder in the root or a link to one, into the folder `to`. Names in `from`
  /// itself for which `is_left` holds are left out. Throws Error for the first link that leads outside, to a folder
  /// or to nothing; for the first device, pipe or socket; and for files that cannot be read or written.
  void copy(const std::filesystem::path& from, const std::filesystem::path& to, const IsLeft& is_left) const;

 private:
  void copy_contents(const std::filesystem::path& from, const std::filesystem::path& to, const IsLeft& is_left) const;
  void copy_file(const std::filesystem::path& from, const std::filesystem::path& to) const;
  /// The file or folder that `path` resolves to. Throws Error if it is outside.
  [[nodiscard]] std::filesystem::path resolve(const std::filesystem::path& path) const;

  std::filesystem::path root_;   // without links
  std::filesystem::path out_;    // without links
  std::filesystem::path blobs_;  // without links; empty if the root is not a snapshot
};

}  // namespace headroom
