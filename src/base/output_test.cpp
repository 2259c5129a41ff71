#include "base/output.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <string>

#include "base/files/file.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

/// Opens a file for writing, until the end of the scope.
class Descriptor {
 public:
  explicit Descriptor(const std::string& path) : number_(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)) {}
  ~Descriptor() { ::close(number_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  [[nodiscard]] int number() const { return number_; }

 private:
  int number_;
};

TEST(Output, WritesAllWithoutWhatSteersATerminal) {
  const TempFolder folder;
  const std::string path = (folder / "out.txt").string();
  const std::string many(1 << 20, 'x');
  const Descriptor file(path);
  write_output(file.number(), "name \x1b]0;title\x07, größer\n");
  write_output(file.number(), many);
  EXPECT_EQ(read_file(path), "name \\x1b]0;title\\x07, größer\n" + many);
}

TEST(Output, SaysWhatHasNoSpaceLeft) {
  if (::access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no writable /dev/full here";
  const Descriptor full("/dev/full");
  EXPECT_EQ(error_of([&] { write_output(full.number(), "four"); }),
            "cannot write to standard error: no space left on /dev/full: 4 bytes needed");
}

TEST(Output, SaysWhatElseIsWrong) {
  EXPECT_EQ(error_of([] { write_output(-1, "text"); }), "cannot write to standard error: Bad file descriptor");
}

}  // namespace
}  // namespace headroom
