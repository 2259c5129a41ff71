#include "base/interrupt.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>

namespace headroom {
namespace {

/// The exit status of a child process that runs `body`: its exit code, or 128 plus its signal.
template <class Body>
int in_child(const Body& body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool has_come() {
  try {
    Interruptible::check();
    return false;
  } catch (const Interrupted&) {
    return true;
  }
}

void wait_for_a_signal() {
  while (!has_come()) std::this_thread::sleep_for(std::chrono::microseconds(100));
}

std::atomic<pid_t> handled_by = 0;
void note_thread(int /*signal*/) { handled_by = gettid(); }

TEST(Interrupt, WaitsUntilItIsAskedFor) {
  EXPECT_EQ(in_child([] {
              take_signals_on_own_thread();
              const Interruptible here;
              if (has_come()) return 1;
              kill(getpid(), SIGTERM);
              wait_for_a_signal();
              return 0;
            }),
            0);
}

TEST(Interrupt, EndsTheProcessWhereNothingWaitsForIt) {
  for (const int signal : kEndingSignals)
    EXPECT_EQ(in_child([&] {
                take_signals_on_own_thread();
                { const Interruptible here; }
                kill(getpid(), signal);
                pause();
                return 0;
              }),
              128 + signal);
}

TEST(Interrupt, ASecondOneEndsTheProcess) {
  EXPECT_EQ(in_child([] {
              take_signals_on_own_thread();
              const Interruptible here;
              kill(getpid(), SIGINT);
              wait_for_a_signal();
              kill(getpid(), SIGINT);
              pause();
              return 0;
            }),
            128 + SIGINT);
}

TEST(Interrupt, ThatIsIgnoredStaysIgnored) {
  EXPECT_EQ(in_child([] {
              std::signal(SIGHUP, SIG_IGN);
              take_signals_on_own_thread();
              const Interruptible here;
              kill(getpid(), SIGHUP);
              kill(getpid(), SIGTERM);
              wait_for_a_signal();
              try {
                Interruptible::check();
              } catch (const Interrupted& interrupted) {
                return interrupted.signal == SIGTERM ? 0 : 1;
              }
              return 2;
            }),
            0);
}

TEST(Interrupt, IsRaisedAgainAtTheEnd) {
  for (const int signal : kEndingSignals)
    EXPECT_EQ(in_child([&] {
                take_signals_on_own_thread();
                const Interruptible here;
                end_by_signal(signal);
                return 0;
              }),
              128 + signal);
}

/// No handler runs on the stack of a compute thread.
TEST(Interrupt, IsHandledOnAThreadThatDoesNothingElse) {
  EXPECT_EQ(in_child([] {
              take_signals_on_own_thread();
              struct sigaction action {};
              action.sa_handler = note_thread;
              sigaction(SIGTERM, &action, nullptr);
              const pid_t main_thread = gettid();
              std::atomic<pid_t> other_thread = 0;
              std::atomic<bool> is_done = false;
              std::thread other([&] {
                other_thread = gettid();
                while (!is_done) std::this_thread::sleep_for(std::chrono::milliseconds(1));
              });
              for (int i = 0; i < 100; ++i) {
                handled_by = 0;
                kill(getpid(), SIGTERM);
                while (handled_by == 0) std::this_thread::yield();
                if (handled_by == main_thread || handled_by == other_thread) return 1;
              }
              is_done = true;
              other.join();
              return 0;
            }),
            0);
}

TEST(Interrupt, ReachesAProgramThatIsStarted) {
  EXPECT_EQ(in_child([] {
              take_signals_on_own_thread();
              const pid_t started = fork();
              if (started == 0) {
                restore_signal_mask();
                execlp("sleep", "sleep", "60", nullptr);
                _exit(1);
              }
              kill(started, SIGTERM);
              int status = 0;
              waitpid(started, &status, 0);
              return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM ? 0 : 1;
            }),
            0);
}

}  // namespace
}  // namespace headroom
