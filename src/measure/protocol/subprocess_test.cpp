#include "measure/protocol/subprocess.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/test_util.hpp"

namespace headroom {
namespace {

using std::chrono::steady_clock;

TEST(RunProcess, TellsHowItEndedAndWhatItWrote) {
  const ProcessOutcome outcome = run_process({"sh", "-c", "echo out; echo err >&2; cat; exit 3"});
  EXPECT_EQ(outcome.code, 3);
  EXPECT_EQ(outcome.signal, 0);
  EXPECT_EQ(outcome.out, "out\n") << "and there is no input";
  EXPECT_EQ(outcome.err, "err\n");
  EXPECT_EQ(run_process({"sh", "-c", "kill -TERM $$"}).signal, SIGTERM);
}

TEST(RunProcess, SaysWhatCannotBeStarted) {
  EXPECT_EQ(error_of([] { (void)run_process({"/no/such/program"}); }),
            "cannot run /no/such/program: No such file or directory");
}

/// Whether the process runs: a dead process that nobody has waited for does not.
bool is_running(pid_t process) {
  std::ifstream stat("/proc/" + std::to_string(process) + "/stat");
  std::string number, name;
  char state = 'X';
  stat >> number >> name >> state;
  return state != 'X' && state != 'Z';
}

template <typename Condition>
bool holds_within(std::chrono::seconds limit, const Condition& condition) {
  const auto deadline = steady_clock::now() + limit;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

TEST(RunProcess, EndsWithTheProcessThatAskedForIt) {
  const TempFolder folder;
  const std::string path = (folder / "pid").string();
  const pid_t asking = fork();
  ASSERT_GE(asking, 0);
  if (asking == 0) {
    (void)run_process({"sh", "-c", "echo $$ > " + path + ".new && mv " + path + ".new " + path + " && exec sleep 60"});
    _exit(0);
  }
  ASSERT_TRUE(holds_within(std::chrono::seconds(30), [&] { return std::filesystem::exists(path); }));
  pid_t started = 0;
  std::ifstream(path) >> started;
  EXPECT_TRUE(is_running(started));
  kill(asking, SIGKILL);
  waitpid(asking, nullptr, 0);
  EXPECT_TRUE(holds_within(std::chrono::seconds(30), [&] { return !is_running(started); }));
}

}  // namespace
}  // namespace headroom
