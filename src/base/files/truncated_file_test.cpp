#include "base/files/truncated_file.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t kBytes = std::size_t{1} << 16;

class TruncatedFile : public testing::Test {
 protected:
  TruncatedFile() { write_file_atomically(path_, std::string(kBytes, 'x')); }
  ~TruncatedFile() override { std::signal(SIGBUS, SIG_DFL); }

  [[nodiscard]] static unsigned sum(std::span<const std::byte> bytes) {
    unsigned sum = 0;
    for (const std::byte byte : bytes) sum += std::to_integer<unsigned>(byte);
    return sum;
  }

  TempFolder folder_;
  std::filesystem::path path_ = folder_ / "weights.safetensors";
};

TEST_F(TruncatedFile, ReadsAsZerosAndIsAnError) {
  survive_truncated_files();
  const MappedFile file(path_);
  require_whole(file.bytes());
  std::filesystem::resize_file(path_, kBytes / 4);
  EXPECT_EQ(sum(file.bytes()), unsigned{'x'} * kBytes / 4);
  EXPECT_THAT(error_of([&] { require_whole(file.bytes()); }),
              AllOf(HasSubstr(path_.string()), HasSubstr("became shorter while it was read")));
  EXPECT_THAT(error_of([&] { file.release(0, 1); }), HasSubstr("became shorter"));
  EXPECT_THAT(error_of([&] { require_whole(file.bytes().subspan(kBytes - 1)); }), HasSubstr("became shorter"));
}

/// Pages read after the file has grown again have the new content, except those that were missing before.
TEST_F(TruncatedFile, StaysAnErrorWhenItIsLongerAgain) {
  survive_truncated_files();
  const MappedFile file(path_);
  std::filesystem::resize_file(path_, 0);
  EXPECT_EQ(sum(file.bytes()), 0U);
  std::filesystem::resize_file(path_, kBytes);
  EXPECT_THAT(error_of([&] { require_whole(file.bytes()); }), HasSubstr("became shorter"));
}

/// Less than a page is missing, which causes no fault.
TEST_F(TruncatedFile, ByAByteIsAnErrorToo) {
  const MappedFile file(path_);
  std::filesystem::resize_file(path_, kBytes - 1);
  EXPECT_EQ(sum(file.bytes().last(1)), 0U);
  EXPECT_THAT(error_of([&] { require_whole(file.bytes()); }), HasSubstr("became shorter"));
}

TEST_F(TruncatedFile, CostsNoOtherFile) {
  survive_truncated_files();
  const std::filesystem::path other_path = folder_ / "other";
  write_file_atomically(other_path, std::string(kBytes, 'y'));
  const MappedFile other(other_path);
  MappedFile moved(path_);
  const MappedFile file(std::move(moved));
  std::filesystem::resize_file(path_, 0);
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) readers.emplace_back([&] { EXPECT_EQ(sum(file.bytes()), 0U); });
  for (std::thread& reader : readers) reader.join();
  EXPECT_THROW(require_whole(file.bytes()), Error);
  require_whole(other.bytes());
  require_whole(other.bytes());
  EXPECT_EQ(sum(other.bytes()), unsigned{'y'} * kBytes);
  const std::string no_mapping = "bytes of no file";
  require_whole(std::as_bytes(std::span(no_mapping)));
}

TEST_F(TruncatedFile, OpenedAgainIsWhatItIsThen) {
  survive_truncated_files();
  {
    const MappedFile file(path_);
    std::filesystem::resize_file(path_, kBytes / 2);
    EXPECT_EQ(sum(file.bytes()), unsigned{'x'} * kBytes / 2);
  }
  const MappedFile again(path_);
  EXPECT_EQ(again.size(), kBytes / 2);
  require_whole(again.bytes());
}

/// A fault elsewhere is a bug, and a signal sent by a process is intended.
TEST_F(TruncatedFile, OtherBusErrorsEndTheProcess) {
  const auto end_of = [](const auto& body) {
    const pid_t child = fork();
    if (child == 0) {
      survive_truncated_files();
      body();
      _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  };
  EXPECT_EQ(end_of([] { kill(getpid(), SIGBUS); }), SIGBUS);
  EXPECT_EQ(end_of([&] {
              std::FILE* const file = std::fopen(path_.c_str(), "r+");
              void* const mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fileno(file), 0);
              std::filesystem::resize_file(path_, 0);
              static_cast<void>(sum({static_cast<const std::byte*>(mapped), kBytes}) == 1 ? write(2, "", 0) : 0);
            }),
            SIGBUS);
}

}  // namespace
}  // namespace headroom
