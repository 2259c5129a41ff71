#include "base/files/leftovers.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <set>
#include <string>

#include "base/files/file.hpp"
#include "base/files/file_lock.hpp"
#include "base/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::UnorderedElementsAre;

/// The number of a process that has ended.
pid_t gone() {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  return child;
}

std::set<std::string> names_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder)) names.insert(entry.path().filename());
  return names;
}

void write(const fs::path& path) {
  const int descriptor = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  ASSERT_GE(descriptor, 0);
  ::close(descriptor);
}

TEST(Leftovers, OfProcessesThatAreGoneAreRemoved) {
  const TempFolder folder;
  const pid_t dead = gone();
  write(folder / fmt::format("a.png.{}-0.tmp", dead));
  write(folder / fmt::format("a.png.{}-17.tmp", dead));
  write(folder / fmt::format("a.png.{}-0.tmp", getpid()));  // a reused process number: nobody holds the lock
  fs::create_directories(folder / fmt::format("a.png.partial.{}/inner", dead));
  write(folder / fmt::format("a.png.partial.{}/inner/file", dead));
  remove_leftovers(folder / "a.png");
  EXPECT_TRUE(names_in(folder.path()).empty());
}

TEST(Leftovers, NothingElseIs) {
  const TempFolder folder;
  const pid_t dead = gone();
  const std::set<std::string> others = {"a.png",
                                        "a.png.tmp",
                                        "a.png.partial.",
                                        "a.png.partial.x",
                                        "a.png.1-.tmp",
                                        "a.png.-1-0.tmp",
                                        fmt::format("b.png.{}-0.tmp", dead),
                                        fmt::format("a.png.{}-0.tmp.bak", dead),
                                        fmt::format("a.png.{}-0", dead),
                                        fmt::format("a.png.{}-0.tmp", getppid()),  // a running process
                                        fmt::format("a.png.partial.{}.old", dead)};
  for (const std::string& name : others) write(folder / name);
  fs::create_symlink(folder / "a.png", folder / fmt::format("a.png.{}-1.tmp", dead));
  const std::set<std::string> before = names_in(folder.path());
  remove_leftovers(folder / "a.png");
  EXPECT_EQ(names_in(folder.path()), before);
}

TEST(Leftovers, AreNoneWhileSomebodyHoldsThem) {
  const TempFolder folder;
  const fs::path held = folder / fmt::format("a.{}-0.tmp", gone());
  write(held);
  const int descriptor = ::open(held.c_str(), O_RDONLY | O_CLOEXEC);
  EXPECT_TRUE(hold_temporary(descriptor));
  remove_leftovers(folder / "a");
  EXPECT_TRUE(fs::exists(held));
  ::close(descriptor);
  remove_leftovers(folder / "a");
  EXPECT_FALSE(fs::exists(held));
}

TEST(Leftovers, AFileThatIsBeingRemovedIsNotHeld) {
  const TempFolder folder;
  write(folder / "a");
  const int writer = ::open((folder / "a").c_str(), O_WRONLY | O_CLOEXEC);
  const int remover = ::open((folder / "a").c_str(), O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(::flock(remover, LOCK_EX | LOCK_NB), 0);
  EXPECT_FALSE(hold_temporary(writer));
  ::unlink((folder / "a").c_str());
  ::close(remover);
  EXPECT_FALSE(hold_temporary(writer)) << "its name is gone";
  ::close(writer);
}

// Leftovers as of a program that was killed while writing.
TEST(Leftovers, OfAKilledProgramGoWithTheNextFileOfThatName) {
  const TempFolder folder;
  const pid_t child = fork();
  if (child == 0) {
    AtomicFile file(folder / "out.json");
    file.write(std::string_view("half of i"));
    const PartialFolder converted(folder / "model");
    kill(getpid(), SIGKILL);
  }
  waitpid(child, nullptr, 0);
  EXPECT_THAT(names_in(folder.path()),
              UnorderedElementsAre(fmt::format("out.json.{}-0.tmp", child), fmt::format("model.partial.{}", child)));
  AtomicFile first(folder / "out.json");  // two with the same target at once: neither is the other's leftover
  AtomicFile second(folder / "out.json");
  first.write(std::string_view("first"));
  second.write(std::string_view("second"));
  first.commit();
  second.commit();
  EXPECT_EQ(read_file(folder / "out.json"), "second");
  {
    const PartialFolder dropped(folder / "model");
    write(dropped.path() / "weights");
  }
  PartialFolder converted(folder / "model");
  write(converted.path() / "weights");
  converted.commit();
  EXPECT_THAT(names_in(folder.path()), ElementsAre("model", "out.json"));
  EXPECT_TRUE(fs::exists(folder / "model/weights"));
}

TEST(Leftovers, CheckWritableRemovesThem) {
  const TempFolder folder;
  write(folder / fmt::format("out.json.{}-0.tmp", gone()));
  check_writable(folder / "out.json");
  EXPECT_TRUE(names_in(folder.path()).empty());
}

}  // namespace
}  // namespace headroom
