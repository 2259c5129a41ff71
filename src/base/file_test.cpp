#include "base/file.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
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

/// Limits how long a file this process may write, as a full disk would, until the end of the scope.
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

TEST(CheckWritable, ToldAsWritingWouldTellAndNothingIsTouched) {
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
            "cannot read " + folder.path().string() + ": Is a directory");
}

std::size_t resident_pages(const MappedFile& file) {
  // mincore would count the page cache; what this process maps stands in smaps.
  const std::string smaps = read_file("/proc/self/smaps");
  const auto at = smaps.find(file.path().string());
  const auto rss = smaps.find("Rss:", at);
  if (at == std::string::npos || rss == std::string::npos) return 0;
  return std::strtoull(smaps.c_str() + rss + 4, nullptr, 10) * 1024 / static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
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
            "cannot map " + folder.path().string() + ": it is not a regular file");
}

}  // namespace
}  // namespace headroom
