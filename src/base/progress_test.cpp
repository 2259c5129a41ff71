#include "base/progress.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdlib>
#include <thread>

#include "base/log.hpp"
#include "base/output.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

/// A pseudo-terminal: all() returns everything written to terminal().
class FakeTerminal {
 public:
  FakeTerminal() : screen_(::posix_openpt(O_RDWR | O_NOCTTY | O_NONBLOCK)) {
    if (screen_ < 0 || ::grantpt(screen_) != 0 || ::unlockpt(screen_) != 0) return;
    terminal_ = ::open(::ptsname(screen_), O_RDWR | O_NOCTTY);
    termios settings{};
    ::tcgetattr(terminal_, &settings);
    settings.c_oflag &= ~static_cast<tcflag_t>(OPOST);  // newlines arrive unchanged
    ::tcsetattr(terminal_, TCSANOW, &settings);
  }
  ~FakeTerminal() {
    if (terminal_ >= 0) ::close(terminal_);
    if (screen_ >= 0) ::close(screen_);
  }
  FakeTerminal(const FakeTerminal&) = delete;
  FakeTerminal& operator=(const FakeTerminal&) = delete;

  [[nodiscard]] bool works() const { return terminal_ >= 0; }
  [[nodiscard]] int terminal() const { return terminal_; }
  [[nodiscard]] std::string all() const {
    std::string text;
    std::array<char, 4096> buffer{};
    ssize_t count = 0;
    while ((count = ::read(screen_, buffer.data(), buffer.size())) > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    return text;
  }

 private:
  int screen_;
  int terminal_ = -1;
};

class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_.data(), O_NONBLOCK), 0); }
  ~Pipe() {
    ::close(ends_[0]);
    ::close(ends_[1]);
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  [[nodiscard]] int input() const { return ends_[1]; }
  [[nodiscard]] std::string all() const {
    std::array<char, 4096> buffer{};
    const ssize_t count = ::read(ends_[0], buffer.data(), buffer.size());
    return {buffer.data(), static_cast<std::size_t>(std::max<ssize_t>(count, 0))};
  }

 private:
  std::array<int, 2> ends_{};
};

TEST(FormatProgress, ShowsDoneElapsedAndRemaining) {
  EXPECT_EQ(format_progress("steps", 7, 28, 1.25, 80), "steps  [######------------------]  7/28  1.2 s, 3.8 s left");
  EXPECT_EQ(format_progress("steps", 0, 28, 0, 80), "steps  [------------------------]  0/28  0.0 s");
  EXPECT_EQ(format_progress("steps", 28, 28, 5, 80), "steps  [########################]  28/28  5.0 s");
  EXPECT_EQ(format_progress("x", 1, 2, 75, 80), "x  [############------------]  1/2  1:15 min, 1:15 min left");
  EXPECT_THAT(format_progress("x", 1, 2, 59.7, 80), HasSubstr("1:00 min"));
  EXPECT_THAT(format_progress("x", 1, 3, 7260, 80), HasSubstr("2:01 h, 4:02 h left"));
  EXPECT_EQ(format_progress("6 cells", 166, 1000, 1.66, 80, ProgressUnit::kPercent),
            "6 cells  [###---------------------]  16%  1.7 s, 8.3 s left");
}

TEST(FormatProgress, SurvivesOddNumbers) {
  EXPECT_THAT(format_progress("x", 5, 3, 1, 80), HasSubstr("[########################]  5/3"));
  EXPECT_THAT(format_progress("x", -1, 3, 1, 80), HasSubstr("[------------------------]  -1/3"));
  EXPECT_THAT(format_progress("x", 0, 0, 1, 80), HasSubstr("0/0"));
}

TEST(FormatProgress, IsCutToTheTerminal) {
  EXPECT_EQ(format_progress("steps", 7, 28, 1.25, 48), "steps  [###----------]  7/28  1.2 s, 3.8 s left");
  EXPECT_EQ(format_progress("steps", 7, 28, 1.25, 39), "steps  [#---]  7/28  1.2 s, 3.8 s left");
  EXPECT_EQ(format_progress("steps", 7, 28, 1.25, 38), "steps  7/28  1.2 s, 3.8 s left");
  EXPECT_EQ(format_progress("steps", 7, 28, 1.25, 12), "steps  7/28");
  EXPECT_EQ(format_progress("steps", 7, 28, 1.25, 0), "");
}

/// A clock that a test sets.
class ProgressIntoAPipe : public testing::Test {
 protected:
  void wait(double seconds) { now_ += std::chrono::milliseconds(std::llround(1000 * seconds)); }
  [[nodiscard]] Progress make(bool quiet = false, ProgressUnit unit = ProgressUnit::kSteps) {
    return {"steps", 10, quiet, pipe_.input(), unit, [this] { return now_; }};
  }
  [[nodiscard]] std::string all() const { return pipe_.all(); }

 private:
  Pipe pipe_;
  Progress::Clock::time_point now_;
};

TEST_F(ProgressIntoAPipe, IsALineEveryFiveSeconds) {
  Progress progress = make();
  wait(4.9);
  progress.advance(2);
  EXPECT_EQ(all(), "");
  wait(0.1);
  progress.advance();
  EXPECT_EQ(all(), "steps  3/10  5.0 s, 12 s left\n");
  wait(4.9);
  progress.advance();
  EXPECT_EQ(all(), "");
  wait(20);
  progress.advance();
  EXPECT_EQ(all(), "steps  5/10  30 s, 30 s left\n");
  progress.finish();
  wait(20);
  progress.set(10);
  EXPECT_EQ(all(), "");
}

TEST_F(ProgressIntoAPipe, IsTheSameOverPiecesThatAreShorterThanThat) {
  Progress progress = make(false, ProgressUnit::kPercent);
  for (const char* piece : {"first", "second"}) {
    wait(2);
    progress.begin(piece, 4);
  }
  EXPECT_EQ(all(), "");
  wait(1);
  progress.set(2);
  EXPECT_EQ(all(), "second  50%  1.0 s, 1.0 s left\n");
}

TEST_F(ProgressIntoAPipe, QuietWritesNothing) {
  Progress progress = make(true);
  wait(60);
  progress.advance(10);
  progress.finish();
  EXPECT_EQ(all(), "");
}

TEST(Progress, IsErasedOnATerminal) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    const Progress progress("steps", 10, false, screen.terminal());
    EXPECT_THAT(screen.all(), HasSubstr("0/10"));
  }
  EXPECT_EQ(screen.all(), "\r\x1b[K");
}

TEST(Progress, ShowsWhatWouldSteerTheTerminal) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  const Progress progress("\x1b[2J\nsteps", 10, false, screen.terminal());
  EXPECT_THAT(screen.all(), HasSubstr("\r\\x1b[2J\\x0asteps  ["));
}

TEST(Progress, StaysWhenFinished) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    Progress progress("steps", 10, false, screen.terminal());
    progress.advance(10);
    progress.finish();
  }
  const std::string text = screen.all();
  EXPECT_THAT(text, HasSubstr("10/10"));
  EXPECT_TRUE(text.ends_with("\x1b[K\n")) << text;
}

TEST(Progress, GoesBeforeWhatIsPrintedAndNotWithIt) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    const Progress progress("steps", 10, false, screen.terminal());
    EXPECT_THAT(screen.all(), HasSubstr("0/10"));
    write_output(screen.terminal(), "a line\nand ");
    EXPECT_EQ(screen.all(), "\r\x1b[Ka line\nand ");
    write_output(screen.terminal(), "another");
    EXPECT_EQ(screen.all(), "another");
  }
  EXPECT_EQ(screen.all(), "") << "the bar was erased already";
}

TEST(Progress, GoesBeforeWhatIsPrintedElsewhere) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  const int pager = ::open("/dev/null", O_WRONLY | O_CLOEXEC);
  const Progress progress("steps", 10, false, screen.terminal());
  EXPECT_THAT(screen.all(), HasSubstr("0/10"));
  write_output(pager, "a line\n");
  EXPECT_EQ(screen.all(), "\r\x1b[K");
  ::close(pager);
}

TEST(Progress, IsRedrawnTenTimesASecondAtMost) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  Progress progress("steps", 100000, false, screen.terminal());
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < 100; ++i) progress.advance();
  const std::string at_once = screen.all();
  const auto spent = std::chrono::steady_clock::now() - start;
  EXPECT_LE(std::ranges::count(at_once, '\r'), 1 + spent / std::chrono::milliseconds(100));
  std::this_thread::sleep_for(std::chrono::milliseconds(110));
  progress.advance();
  EXPECT_THAT(screen.all(), HasSubstr("101/100000"));
}

TEST(Progress, OfOtherWorkTakesThePlaceOfTheBar) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  Progress progress("first", 10, false, screen.terminal());
  progress.advance(3);
  static_cast<void>(screen.all());
  progress.begin("second", 4);
  const std::string text = screen.all();
  EXPECT_TRUE(text.starts_with("\rsecond  [------------------------]  0/4")) << text;
  EXPECT_TRUE(text.ends_with("\x1b[K")) << text;
}

TEST(Progress, QuietShowsNothing) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  {
    Progress progress("steps", 10, true, screen.terminal());
    progress.finish();
  }
  EXPECT_EQ(screen.all(), "");
}

TEST(Log, WritesLinesAndHonoursQuiet) {
  const Pipe pipe;
  Log(false, pipe.input()).info("loaded {} tensors", 3);
  EXPECT_EQ(pipe.all(), "loaded 3 tensors\n");
  Log(true, pipe.input()).info("loaded {} tensors", 3);
  EXPECT_EQ(pipe.all(), "");
  Log(true, pipe.input()).warning("no GPU");
  EXPECT_EQ(pipe.all(), "warning: no GPU\n");
}

TEST(Log, ClearsAProgressBarFirst) {
  const FakeTerminal screen;
  if (!screen.works()) GTEST_SKIP() << "no pseudo-terminals here";
  const Progress progress("steps", 10, false, screen.terminal());
  EXPECT_THAT(screen.all(), HasSubstr("0/10"));
  Log(false, screen.terminal()).info("hello");
  EXPECT_EQ(screen.all(), "\r\x1b[Khello\n");
}

TEST(Log, AMessageIsOneLine) {
  const Pipe pipe;
  Log(false, pipe.input()).info("wrote {}", "a.png\nheadroom: all is well\r\t\xE2\x80\xA8.png");
  EXPECT_EQ(pipe.all(), "wrote a.png\\x0aheadroom: all is well\\x0d\\x09\\u2028.png\n");
}

TEST(Log, ShowsWhatWouldSteerTheTerminal) {
  const Pipe pipe;
  Log(false, pipe.input()).info("no model '{}'", "\x1b[2Jgrößer");
  EXPECT_EQ(pipe.all(), "no model '\\x1b[2Jgrößer'\n");
}

}  // namespace
}  // namespace headroom
