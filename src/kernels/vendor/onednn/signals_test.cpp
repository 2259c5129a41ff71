// Signals that are handled while oneDNN's kernels run, as Ctrl-C is, or a timer of whoever uses the library. Version
// 2.6.3 keeps data of its f32 matmul below the stack pointer, where the frame of a handler on the same stack would lie.

#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/interrupt.hpp"

namespace headroom {
namespace {

constexpr const char* kVariable = "HEADROOM_TEST_SIGNALS";

std::atomic<int> handled = 0;

/// Writes over as much of the stack that it runs on as a handler may.
void handle(int /*signal*/) {
  volatile char frame[8192];
  for (volatile char& byte : frame) byte = 0x5A;
  ++handled;
}

/// In the process that the test starts, signals come all the time, and are handled as the program does.
class Flood final : public testing::Environment {
 public:
  void SetUp() override {
    if (std::getenv(kVariable) == nullptr) return;
    take_signals_on_own_thread();
    struct sigaction action {};
    action.sa_handler = handle;
    action.sa_flags = SA_RESTART;
    sigaction(SIGTERM, &action, nullptr);
    sender_ = std::make_unique<std::jthread>([](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        kill(getpid(), SIGTERM);
        std::this_thread::sleep_for(std::chrono::microseconds(20));
      }
    });
  }
  void TearDown() override {
    if (sender_ == nullptr) return;
    sender_.reset();
    EXPECT_GT(handled, 100);
  }

 private:
  std::unique_ptr<std::jthread> sender_;
};

testing::Environment* const kFlood = testing::AddGlobalTestEnvironment(new Flood);

/// The tests of all oneDNN kernels, run again by this program in a process of its own.
TEST(OnednnSignals, ChangeNoResult) {
  ASSERT_NE(kFlood, nullptr);
  std::string flood = std::string(kVariable) + "=1";
  std::string wait = "OMP_WAIT_POLICY=PASSIVE";  // spinning helps nobody on a machine that runs other tests
  std::string name = "kernels_tests";
  std::string filter = "--gtest_filter=Onednn*.*-OnednnSignals.*";
  std::vector<char*> environment{flood.data(), wait.data()};
  for (char** other = environ; *other != nullptr; ++other)
    if (!std::string(*other).starts_with("GTEST_")) environment.push_back(*other);
  environment.push_back(nullptr);
  char* const arguments[] = {name.data(), filter.data(), nullptr};
  pid_t process = 0;
  ASSERT_EQ(posix_spawn(&process, "/proc/self/exe", nullptr, nullptr, arguments, environment.data()), 0);
  int status = -1;
  waitpid(process, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "its output is above; status " << status;
}

}  // namespace
}  // namespace headroom
