#include "run/copy_folder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

class CopyFolder : public testing::Test {
 protected:
  CopyFolder() {
    fs::create_directories(model_ / "scheduler");
    write_file_atomically(model_ / "model_index.json", "{}");
    write_file_atomically(model_ / "scheduler/config.json", "[1]");
    write_file_atomically(folder_ / "secret", "secret");
    fs::create_directories(out_);
  }
  void copy(const FolderCopy::IsLeft& is_left = {}) const { FolderCopy(model_, out_).copy(model_, out_, is_left); }
  [[nodiscard]] std::string error() const {
    return error_of([&] { copy(); });
  }
  /// The error with an additional file in the model's folder, which is removed afterwards.
  template <typename Make>
  [[nodiscard]] std::string error_with(const std::string& name, const Make& make) const {
    make(model_ / name);
    std::string refusal = error();
    fs::remove(model_ / name);
    fs::remove_all(out_);
    fs::create_directories(out_);
    return refusal;
  }
  [[nodiscard]] std::vector<std::string> copied() const {
    std::vector<std::string> names;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(out_)) {
      EXPECT_FALSE(entry.is_symlink());
      names.push_back(entry.path().lexically_relative(out_).string());
    }
    std::ranges::sort(names);
    return names;
  }

  TempFolder folder_;
  fs::path model_ = folder_ / "model";
  fs::path out_ = folder_ / "out";
};

TEST_F(CopyFolder, CopiesFilesFoldersAndLinksToFilesInside) {
  fs::create_symlink("../model_index.json", model_ / "scheduler/link");
  fs::create_symlink(model_ / "scheduler/link", model_ / "link to a link");
  copy([](const std::string& name) { return name == "left"; });
  EXPECT_THAT(copied(), ElementsAre("link to a link", "model_index.json", "scheduler", "scheduler/config.json",
                                    "scheduler/link"));
  EXPECT_EQ(read_file(out_ / "link to a link"), "{}");
  EXPECT_EQ(read_file(out_ / "scheduler/config.json"), "[1]");
}

TEST_F(CopyFolder, LeavesOutByNameAtTheTopAlone) {
  write_file_atomically(model_ / "scheduler/model_index.json", "{}");
  copy([](const std::string& name) { return name == "model_index.json"; });
  EXPECT_THAT(copied(), ElementsAre("scheduler", "scheduler/config.json", "scheduler/model_index.json"));
}

TEST_F(CopyFolder, FollowsNoLinkOut) {
  const std::string root = model_.string(), secret = (folder_ / "secret").string();
  const std::string refused = " is a link to " + secret + ", which is not in " + root + ": only what the folder holds";
  for (const std::string name : {"README.md", "scheduler/more.json"}) {
    EXPECT_THAT(error_with(name, [&](const fs::path& at) { fs::create_symlink(secret, at); }),
                HasSubstr((model_ / name).string() + refused));
    EXPECT_THAT(
        error_with(name, [&](const fs::path& at) { fs::create_symlink(fs::relative(secret, at.parent_path()), at); }),
        HasSubstr((model_ / name).string() + refused));
  }
  // Through a link inside the folder.
  fs::create_symlink(secret, folder_ / "outer");
  EXPECT_THAT(error_with("a", [&](const fs::path& at) { fs::create_symlink("../outer", at); }), HasSubstr(refused));
  // A folder whose name has the model's as a prefix.
  fs::create_directory(folder_ / "model2");
  write_file_atomically(folder_ / "model2/file", "secret");
  EXPECT_THAT(error_with("a", [&](const fs::path& at) { fs::create_symlink("../model2/file", at); }),
              HasSubstr("which is not in " + root));
  EXPECT_THAT(error_with("a", [&](const fs::path& at) { fs::create_symlink("/etc", at); }),
              HasSubstr("which is not in " + root));
  EXPECT_EQ(error(), "(no error)");
}

TEST_F(CopyFolder, FollowsNoLinkToAFolder) {
  for (const char* target : {".", "..", "scheduler", "loop"}) {
    const std::string refusal = error_with("loop", [&](const fs::path& at) { fs::create_symlink(target, at); });
    EXPECT_THAT(refusal, testing::StartsWith(target == std::string("loop") ? "cannot read " : "")) << target;
    EXPECT_THAT(refusal, HasSubstr((model_ / "loop").string())) << target;
    EXPECT_NE(refusal, "(no error)") << target;
  }
  EXPECT_EQ(error_with("loop", [&](const fs::path& at) { fs::create_symlink(".", at); }),
            (model_ / "loop").string() +
                " is a link to a folder, but only folders themselves and links to files are "
                "copied");
  EXPECT_EQ(error_with("gone", [&](const fs::path& at) { fs::create_symlink("nothing", at); }),
            "cannot read " + (model_ / "gone").string() + ": No such file or directory");
}

TEST_F(CopyFolder, CopiesNothingThatIsNoFile) {
  const std::string refused = " is a device, pipe or socket, but only files and folders are copied";
  EXPECT_EQ(error_with("pipe", [](const fs::path& at) { ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0); }),
            (model_ / "pipe").string() + refused);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(error_with("socket",
                       [&](const fs::path& at) {
                         sockaddr_un address{.sun_family = AF_UNIX, .sun_path = {}};
                         at.string().copy(address.sun_path, sizeof(address.sun_path) - 1);
                         ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
                       }),
            (model_ / "socket").string() + refused);
  ::close(socket);
}

/// The Hugging Face Hub's cache keeps a model's files outside its snapshots, which consist of links.
TEST_F(CopyFolder, FollowsASnapshotToItsBlobs) {
  const fs::path repository = folder_ / "models--a--b", snapshot = repository / "snapshots/1f";
  fs::create_directories(repository / "blobs");
  fs::create_directories(snapshot / "vae");
  write_file_atomically(repository / "blobs/0a", "{\"a\": 1}");
  fs::create_symlink("../../../blobs/0a", snapshot / "vae/config.json");
  FolderCopy(snapshot, out_).copy(snapshot, out_, {});
  EXPECT_THAT(copied(), ElementsAre("vae", "vae/config.json"));
  EXPECT_EQ(read_file(out_ / "vae/config.json"), "{\"a\": 1}");
  // A part of it, as a separate model.
  FolderCopy(snapshot / "vae", out_).copy(snapshot / "vae", out_ / "vae", [](const std::string&) { return true; });
  fs::remove_all(out_ / "vae");
  // A blob that is a link itself is rejected.
  fs::create_symlink(folder_ / "secret", repository / "blobs/0b");
  fs::create_symlink("../../../blobs/0b", snapshot / "vae/more.json");
  EXPECT_THAT(error_of([&] { FolderCopy(snapshot, out_).copy(snapshot, out_, {}); }), HasSubstr("which is not in "));
}

TEST_F(CopyFolder, EndsWhereTheCopyLiesInTheFolder) {
  const fs::path inside = model_ / "scheduler/new/int8";
  fs::create_directories(inside);
  FolderCopy(model_, inside).copy(model_, inside, {});
  EXPECT_TRUE(fs::exists(inside / "model_index.json"));
  EXPECT_TRUE(fs::exists(inside / "scheduler/config.json"));
  EXPECT_TRUE(fs::is_empty(inside / "scheduler/new"));
}

}  // namespace
}  // namespace headroom
