#include "run/copy_folder.hpp"

#include <algorithm>
#include <system_error>

#include "base/error.hpp"
#include "base/files/file.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// Resolves links.
fs::path without_links(const fs::path& path) {
  std::error_code error;
  fs::path result = fs::canonical(path, error);
  if (error) fail("cannot read {}: {}", path.native(), error.message());
  return result;
}

/// Whether a path without links is the folder or below it.
bool is_within(const fs::path& path, const fs::path& folder) {
  return !folder.empty() && std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// The files that a snapshot's links point to.
fs::path find_blobs(const fs::path& root) {
  for (fs::path at = root; at.has_relative_path(); at = at.parent_path()) {
    if (at.parent_path().filename() != "snapshots") continue;
    const fs::path blobs = at.parent_path().parent_path() / "blobs";
    std::error_code unknown;
    if (fs::is_directory(blobs, unknown)) return without_links(blobs);
  }
  return {};
}

}  // namespace

FolderCopy::FolderCopy(const fs::path& root, const fs::path& out)
    : root_(without_links(root)), out_(without_links(out)), blobs_(find_blobs(root_)) {}

void FolderCopy::copy(const fs::path& from, const fs::path& to, const IsLeft& is_left) const {
  copy_contents(resolve(from), to, is_left);
}

fs::path FolderCopy::resolve(const fs::path& path) const {
  fs::path target = without_links(path);
  if (!is_within(target, root_) && !is_within(target, blobs_))
    fail("{} is a link to {}, which is not in {}: only what the folder holds is copied", path.native(), target.native(),
         root_.native());
  return target;
}

void FolderCopy::copy_contents(const fs::path& from, const fs::path& to, const IsLeft& is_left) const {
  for (const fs::path& path : list_folder(from)) {
    if (is_left && is_left(path.filename().string())) continue;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(path, error);
    if (error) fail("cannot read {}: {}", path.native(), error.message());
    if (!fs::is_directory(status)) {
      copy_file(path, to / path.filename());
    } else if (path != out_) {
      make_folder(to / path.filename());
      copy_contents(path, to / path.filename(), {});
    }
  }
}

void FolderCopy::copy_file(const fs::path& from, const fs::path& to) const {
  const fs::path file = resolve(from);
  std::error_code error;
  const fs::file_status status = fs::status(file, error);
  if (fs::is_directory(status))
    fail("{} is a link to a folder, but only folders themselves and links to files are copied", from.native());
  if (!fs::is_regular_file(status))
    fail("{} is a device, pipe or socket, but only files and folders are copied", from.native());
  fs::copy_file(file, to, error);
  if (error)
    fail("cannot copy {} to {}: {}", from.native(), to.native(),
         reason_not_written(error.value(), to.parent_path(), 0));
}

}  // namespace headroom
