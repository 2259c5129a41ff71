#include "base/files/file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/fsuid.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

int count_files(const fs::path& folder) {
  return static_cast<int>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
}

/// Limits the size of files that this process may write, to simulate a full disk, until the end of the scope.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    EXPECT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
  void (*handler_)(int);
};

TEST(AtomicFile, AppearsOnlyAtCommit) {
  const TempFolder folder;
  const fs::path path = folder / "out.txt";
  AtomicFile file(path);
  file.write("one ");
  file.write("two");
  EXPECT_FALSE(fs::exists(path));
  file.commit();
  EXPECT_EQ(read_file(path), "one two");
  EXPECT_EQ(count_files(folder.path()), 1);
}

TEST(AtomicFile, LeavesTheOldFileWithoutCommit) {
  const TempFolder folder;
  const fs::path path = folder / "out.txt";
  write_file_atomically(path, "old");
  { AtomicFile(path).write("new"); }
  EXPECT_EQ(read_file(path), "old");
  EXPECT_EQ(count_files(folder.path()), 1);
}

TEST(AtomicFile, MayBeFilledInOutOfOrder) {
  const TempFolder folder;
  const auto bytes = [](std::string_view text) { return std::as_bytes(std::span(text)); };
  AtomicFile file(folder / "a");
  file.write_at(4, bytes("later"));
  file.write_at(0, bytes("then"));
  file.write_at(4, bytes("L"));
  EXPECT_FALSE(fs::exists(folder / "a"));
  file.commit();
  EXPECT_EQ(read_file(folder / "a"), "thenLater");
}

TEST(AtomicFile, TwoWritersOfOneNameDoNotMix) {
  const TempFolder folder;
  AtomicFile first(folder / "out.txt");
  AtomicFile second(folder / "out.txt");
  first.write("first");
  second.write("second");
  second.commit();
  first.commit();
  EXPECT_EQ(read_file(folder / "out.txt"), "first");
  EXPECT_EQ(count_files(folder.path()), 1);
}

TEST(AtomicFile, MovedFromOwnsNothing) {
  const TempFolder folder;
  AtomicFile first(folder / "out.txt");
  {
    AtomicFile second(std::move(first));
    second.write("x");
    second.commit();
  }
  EXPECT_EQ(read_file(folder / "out.txt"), "x");
}

TEST(AtomicFile, KeepsModeAndFollowsSymbolicLinks) {
  const TempFolder folder;
  fs::create_directory(folder / "real");
  write_file_atomically(folder / "real/out.txt", "old");
  fs::permissions(folder / "real/out.txt", fs::perms(0640));
  fs::create_symlink("real/out.txt", folder / "link.txt");
  write_file_atomically(folder / "link.txt", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "link.txt"));
  EXPECT_EQ(read_file(folder / "real/out.txt"), "new");
  EXPECT_EQ(fs::status(folder / "real/out.txt").permissions(), fs::perms(0640));
}

TEST(AtomicFile, FileTooLargeLeavesNothing) {
  const TempFolder folder;
  write_file_atomically(folder / "out.bin", "old");
  const std::string content(200000, 'x');
  const FileSizeLimit limit(100000);
  EXPECT_EQ(error_of([&] { write_file_atomically(folder / "out.bin", content); }),
            "cannot write " + (folder / "out.bin").string() + ": files in " + folder.path().string() +
                " may not become so large: 200000 bytes needed");
  EXPECT_EQ(read_file(folder / "out.bin"), "old");
  EXPECT_EQ(count_files(folder.path()), 1);
}

TEST(ReasonNotWritten, NamesWhatIsFull) {
  EXPECT_EQ(reason_not_written(ENOSPC, "/mnt/small", 12345), "no space left on /mnt/small: 12345 bytes needed");
  EXPECT_EQ(reason_not_written(EDQUOT, "/home/me", 0), "no space left on /home/me");
  EXPECT_EQ(reason_not_written(EACCES, "/mnt/small", 12345), "Permission denied");
}

TEST(AtomicFile, FullDeviceIsAnError) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no writable /dev/full here";
  EXPECT_EQ(error_of([] { write_file_atomically("/dev/full", "text"); }),
            "cannot write /dev/full: no space left on /dev/full: 4 bytes needed");
  EXPECT_EQ(error_of([] {
              AtomicFile file("/dev/full", 1000);
              file.write("text");
            }),
            "cannot write /dev/full: no space left on /dev/full: 1000 bytes needed");
  EXPECT_TRUE(fs::is_character_file("/dev/full"));
}

TEST(AtomicFile, DeviceIsWrittenInPlace) {
  write_file_atomically("/dev/null", "text");
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

TEST(AtomicFile, RefusesWhatCannotBeWritten) {
  const TempFolder folder;
  EXPECT_EQ(error_of([&] { AtomicFile file(folder / "missing/out.txt"); }),
            "cannot write " + (folder / "missing/out.txt").string() + ": No such file or directory");
  EXPECT_EQ(error_of([&] { AtomicFile file(folder.path()); }),
            "cannot write " + folder.path().string() + ": it is a directory");
}

TEST(AtomicFile, RefusesAFolderWithoutPermission) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  const TempFolder folder;
  fs::create_directory(folder / "locked");
  fs::permissions(folder / "locked", fs::perms(0500));
  EXPECT_EQ(error_of([&] { AtomicFile file(folder / "locked/out.txt"); }),
            "cannot write " + (folder / "locked/out.txt").string() + ": Permission denied");
}

TEST(CheckWritable, FailsAsWritingWouldAndTouchesNothing) {
  const TempFolder folder;
  write_file_atomically(folder / "old.txt", "old");
  fs::create_symlink("missing/out.txt", folder / "dangling");
  EXPECT_EQ(error_of([&] { check_writable(folder / "new.txt"); }), "(no error)");
  EXPECT_EQ(error_of([&] { check_writable(folder / "old.txt"); }), "(no error)");
  EXPECT_EQ(error_of([] { check_writable("/dev/null"); }), "(no error)");
  for (const fs::path& path : {folder / "missing/out.txt", folder / "old.txt/out.txt", folder / "dangling",
                               folder.path(), folder / std::string(300, 'x'), fs::path("/proc/out.txt")})
    EXPECT_EQ(error_of([&] { check_writable(path); }), error_of([&] { write_file_atomically(path, "text"); }));
  EXPECT_EQ(error_of([] { check_writable(""); }), "cannot write '': expected the name of a file");
  EXPECT_EQ(read_file(folder / "old.txt"), "old");
  EXPECT_EQ(count_files(folder.path()), 2);
}

TEST(CheckWritable, LeavesAPipeAndItsReaderAlone) {
  const TempFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  check_writable(pipe);  // opening it would wait for a reader
}

TEST(CheckWritable, AFolderThatWillBeMadeIsNotLeft) {
  const TempFolder folder;
  fs::create_directory(folder / "old");
  write_file_atomically(folder / "file", "text");
  EXPECT_EQ(error_of([&] { check_writable_in(folder / "a/b/c/", "out.txt"); }), "(no error)");
  EXPECT_EQ(error_of([&] { check_writable_in(folder / "old", "out.txt"); }), "(no error)");
  EXPECT_EQ(error_of([&] { check_writable_in(folder / "file/a", "out.txt"); }),
            (folder / "file/a").string() + ": cannot make the folder: Not a directory");
  EXPECT_EQ(error_of([&] { check_writable_in(folder / "old/new", "missing/out.txt"); }),
            "cannot write " + (folder / "old/new/missing/out.txt").string() + ": No such file or directory");
  EXPECT_TRUE(fs::exists(folder / "old"));
  EXPECT_FALSE(fs::exists(folder / "old/new"));
  EXPECT_EQ(count_files(folder.path()), 2);
}

TEST(ReadFile, ReadsAllAndNamesWhatIsMissing) {
  const TempFolder folder;
  std::string content(200003, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 % 251);
  write_file_atomically(folder / "a", content);
  EXPECT_EQ(read_file(folder / "a"), content);
  write_file_atomically(folder / "empty", "");
  EXPECT_EQ(read_file(folder / "empty"), "");
  EXPECT_THAT(read_file("/proc/self/status"), HasSubstr("Name:"));
  EXPECT_EQ(error_of([&] { (void)read_file(folder / "b"); }),
            "cannot read " + (folder / "b").string() + ": No such file or directory");
  EXPECT_EQ(error_of([&] { (void)read_file(folder.path()); }),
            "cannot read " + folder.path().string() + ": it is a folder, but a regular file was expected");
}

TEST(ReadFile, ReadsRegularFilesAndLinksToThemAlone) {
  const TempFolder folder;
  write_file_atomically(folder / "file", "text");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("link", folder / "link to a link");
  EXPECT_EQ(read_file(folder / "link to a link"), "text");
  EXPECT_EQ(MappedFile(folder / "link to a link").size(), 4U);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  fs::create_symlink("pipe", folder / "link to a pipe");
  fs::create_symlink("/dev/zero", folder / "zero");
  fs::create_symlink("itself", folder / "itself");
  fs::create_symlink("two", folder / "one");
  fs::create_symlink("one", folder / "two");
  fs::create_directory(folder / "folder");
  const std::map<std::string, std::string> reasons = {
      {"pipe", "it is a pipe, but a regular file was expected"},
      {"link to a pipe", "it is a pipe, but a regular file was expected"},
      {"zero", "it is a device, but a regular file was expected"},
      {"folder", "it is a folder, but a regular file was expected"},
      {"itself", "Too many levels of symbolic links"},
      {"one", "Too many levels of symbolic links"},
      {"file/in", "Not a directory"},
  };
  for (const auto& [name, reason] : reasons) {
    const std::string message = fmt::format("cannot read {}: {}", (folder / name).native(), reason);
    EXPECT_EQ(error_of([&, &name = name] { (void)read_file(folder / name); }), message);
    EXPECT_EQ(error_of([&, &name = name] { MappedFile file(folder / name); }), message);
  }
}

TEST(ReadFile, ReadsUpToALimit) {
  const TempFolder folder;
  write_file_atomically(folder / "file", std::string(100'000, 'x'));
  EXPECT_EQ(read_file(folder / "file", {.most_bytes = 100'000}).size(), 100'000U);
  EXPECT_EQ(error_of([&] { (void)read_file(folder / "file", {.most_bytes = 99'999}); }),
            "cannot read " + (folder / "file").string() + ": it has 100000 bytes, but at most 99999 were expected");
  fs::resize_file(folder / "file", std::uint64_t{1} << 40);  // sparse
  EXPECT_THAT(error_of([&] { (void)read_file(folder / "file"); }),
              HasSubstr("it has 1099511627776 bytes, but at most"));
  // A file whose size is reported as 0, such as the system's.
  EXPECT_THAT(error_of([&] { (void)read_file("/proc/self/status", {.most_bytes = 100}); }),
              HasSubstr("it has more bytes, but at most 100 were expected"));
}

TEST(ReadFile, ReadsPipesWhereTheyAreAllowed) {
  const TempFolder folder;
  const fs::path pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(read_file(pipe, {.takes_pipes = true}), "") << "nobody writes to it";
  const std::string text(200'000, 'y');  // more than a pipe holds
  const auto read_what_is_written = [&](std::uint64_t most_bytes) {
    const int writer = ::open(pipe.c_str(), O_RDWR | O_CLOEXEC);  // does not wait for a reader
    std::jthread thread([&] {
      std::size_t written = 0;
      while (written < text.size()) {
        const ssize_t count = ::write(writer, text.data() + written, text.size() - written);
        if (count <= 0) break;
        written += static_cast<std::size_t>(count);
      }
      ::close(writer);
    });
    return read_file(pipe, {.most_bytes = most_bytes, .takes_pipes = true});
  };
  EXPECT_EQ(read_what_is_written(text.size()), text);
  EXPECT_EQ(error_of([&] { (void)read_file("/dev/zero", {.most_bytes = 100, .takes_pipes = true}); }),
            "cannot read /dev/zero: it is a device, but a regular file was expected");
}

TEST(IsThere, SaysWhatCannotBeDetermined) {
  const TempFolder folder;
  write_file_atomically(folder / "file", "text");
  fs::create_directory(folder / "folder");
  fs::create_symlink("file", folder / "link");
  fs::create_symlink("gone", folder / "broken");
  fs::create_symlink("itself", folder / "itself");
  EXPECT_TRUE(is_there(folder / "file"));
  EXPECT_TRUE(is_there(folder / "link"));
  EXPECT_TRUE(is_there(folder / "folder"));
  EXPECT_FALSE(is_there(folder / "gone"));
  EXPECT_FALSE(is_there(folder / "gone/below"));
  EXPECT_TRUE(is_folder(folder / "folder"));
  EXPECT_FALSE(is_folder(folder / "file"));
  EXPECT_FALSE(is_folder(folder / "gone"));
  EXPECT_EQ(error_of([&] { (void)is_there(folder / "broken"); }),
            "cannot read " + (folder / "broken").string() + ": it is a link to gone, which is not there");
  for (const char* name : {"itself", "itself/below"})
    EXPECT_EQ(error_of([&] { (void)is_folder(folder / name); }),
              "cannot read " + (folder / name).string() + ": Too many levels of symbolic links");
  EXPECT_THAT(error_of([&] { (void)is_there(folder / std::string(300, 'n')); }), HasSubstr(": File name too long"));
}

/// Runs as another user, for whom a folder's permissions take effect.
class Nobody {
 public:
  Nobody() { ::setfsuid(65534); }
  ~Nobody() { ::setfsuid(::geteuid()); }
  Nobody(const Nobody&) = delete;
  Nobody& operator=(const Nobody&) = delete;
};

TEST(ListFolder, NamesInOrder) {
  const TempFolder folder;
  EXPECT_TRUE(list_folder(folder.path()).empty());
  write_file_atomically(folder / "b", "");
  fs::create_directory(folder / "c");
  fs::create_symlink("a", folder / "a");
  EXPECT_THAT(list_folder(folder.path()), testing::ElementsAre(folder / "a", folder / "b", folder / "c"));
  EXPECT_EQ(error_of([&] { (void)list_folder(folder / "a"); }),
            "cannot read " + (folder / "a").string() + ": Too many levels of symbolic links");
  EXPECT_EQ(error_of([&] { (void)list_folder(folder / "b"); }),
            "cannot read " + (folder / "b").string() + ": Not a directory");
}

TEST(ListFolder, NamesAFolderThatMayNotBeRead) {
  const TempFolder folder;
  fs::permissions(folder.path(), fs::perms::others_exec, fs::perm_options::add);
  fs::create_directory(folder / "closed");
  write_file_atomically(folder / "closed/file", "");
  fs::permissions(folder / "closed", fs::perms::none);
  std::string listing, file;
  {
    const Nobody nobody;
    listing = error_of([&] { (void)list_folder(folder / "closed"); });
    file = error_of([&] { (void)is_there(folder / "closed/file"); });
  }
  EXPECT_EQ(listing, "cannot read " + (folder / "closed").string() + ": Permission denied");
  EXPECT_EQ(file, "cannot read " + (folder / "closed/file").string() + ": Permission denied");
  fs::permissions(folder / "closed", fs::perms::owner_all);
}

std::size_t resident_pages(const MappedFile& file) {
  // mincore would count the page cache; the mappings of this process are in smaps.
  const std::string smaps = read_file("/proc/self/smaps");
  const auto at = smaps.find(file.path().string());
  const auto rss = smaps.find("Rss:", at);
  if (at == std::string::npos || rss == std::string::npos) return 0;
  return std::strtoull(smaps.c_str() + rss + 4, nullptr, 10) * 1024 / static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

/// The system would truncate the name at the NUL byte.
TEST(Names, WithANulByteAreRefused) {
  const TempFolder folder;
  write_file_atomically(folder / "x.png", "old");
  const fs::path cut = folder / fs::path(std::string("x.png\0.png", 10));
  const auto expect_refused = [&](const auto& body) {
    EXPECT_THAT(error_of(body), HasSubstr("x.png\\x00.png': a name holds no NUL byte"));
  };
  expect_refused([&] { write_file_atomically(cut, "new"); });
  expect_refused([&] { check_writable(cut); });
  expect_refused([&] { check_writable_in(folder / cut, "y"); });
  expect_refused([&] { make_folder(cut); });
  expect_refused([&] { (void)read_file(cut); });
  expect_refused([&] { const MappedFile file(cut); });
  EXPECT_EQ(read_file(folder / "x.png"), "old");
}

TEST(MappedFile, WaitsForNoPipe) {
  const TempFolder folder;
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THAT(error_of([&] { const MappedFile file(folder / "pipe"); }),
              HasSubstr("it is a pipe, but a regular file was expected"));
}

TEST(MappedFile, ReadsReleasesAndReadsAgain) {
  const TempFolder folder;
  std::string content(std::size_t{4} << 20, '\0');
  for (std::size_t i = 0; i < content.size(); ++i) content[i] = static_cast<char>(i * 7 % 251);
  write_file_atomically(folder / "a", content);
  const MappedFile file(folder / "a");
  ASSERT_EQ(file.size(), content.size());
  file.advise_sequential();
  const auto equal = [&] {
    return std::string_view(reinterpret_cast<const char*>(file.bytes().data()), file.size()) == content;
  };
  EXPECT_TRUE(equal());
  const std::size_t before = resident_pages(file);
  EXPECT_GE(before, content.size() / static_cast<std::size_t>(sysconf(_SC_PAGESIZE)));
  file.release(5, content.size() / 2);  // neither end on a page boundary
  EXPECT_LE(resident_pages(file), before / 2 + 1);
  EXPECT_TRUE(equal());
  file.release(file.size(), 0);
  EXPECT_THROW(file.release(1, file.size()), std::logic_error);
  EXPECT_THROW(file.release(file.size() + 1, 0), std::logic_error);
}

TEST(MappedFile, EmptyAndMovedAndMissing) {
  const TempFolder folder;
  write_file_atomically(folder / "empty", "");
  EXPECT_EQ(MappedFile(folder / "empty").size(), 0U);
  write_file_atomically(folder / "a", "abc");
  MappedFile first(folder / "a");
  const std::byte* address = first.bytes().data();
  const MappedFile second(std::move(first));
  EXPECT_EQ(second.bytes().data(), address);
  EXPECT_EQ(second.bytes()[2], std::byte{'c'});
  EXPECT_EQ(error_of([&] { MappedFile file(folder / "b"); }),
            "cannot read " + (folder / "b").string() + ": No such file or directory");
  EXPECT_EQ(error_of([&] { MappedFile file(folder.path()); }),
            "cannot read " + folder.path().string() + ": it is a folder, but a regular file was expected");
}

}  // namespace
}  // namespace headroom
