// Frames through a small network, between readers and writers that behave like all kinds of videos.

#include "cli/streams/stream_runner.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "cli/streams/stream_controls.hpp"
#include "media/video/test_video.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr VideoFormat kFormat{.width = 16, .height = 16, .rate = {30, 1}};
using Pixels = std::vector<std::uint8_t>;

/// Observations of the test at both ends of a video.
struct Ends {
  std::mutex mutex;
  std::condition_variable changed;
  bool input_is_read = false;
  std::vector<Pixels> written;
  bool is_finished = false;
  std::atomic<bool> input_is_over = false;  ///< the input has no frames beyond those that have been read
};

struct Script {
  std::int64_t frames = 10;
  std::int64_t broken_at = -1;           ///< this frame cannot be read
  std::int64_t interrupted_at = -1;      ///< before this frame is read, the user presses Ctrl-C
  std::int64_t unwritable_at = -1;       ///< this frame cannot be written
  bool writes_when_all_is_read = false;  ///< writes only after everything was read
};

class ScriptedReader final : public VideoReader {
 public:
  ScriptedReader(const Script& script, Ends& ends) : script_(script), ends_(ends) {}
  [[nodiscard]] const VideoFormat& format() const override { return kFormat; }
  [[nodiscard]] bool read(std::span<std::uint8_t> rgb) override {
    if (next_ == script_.broken_at) fail("in.y4m: frame {} is cut off", next_);
    if (next_ == script_.interrupted_at) std::raise(SIGINT);
    if (next_ == script_.frames || ends_.input_is_over) {
      const std::lock_guard lock(ends_.mutex);
      ends_.input_is_read = true;
      ends_.changed.notify_all();
      return false;
    }
    draw_test_frame(kFormat, next_++, rgb);
    return true;
  }

 private:
  Script script_;
  Ends& ends_;
  std::int64_t next_ = 0;
};

class ScriptedWriter final : public VideoWriter {
 public:
  ScriptedWriter(const Script& script, Ends& ends) : script_(script), ends_(ends) {}
  void write(std::span<const std::uint8_t> rgb) override {
    std::unique_lock lock(ends_.mutex);
    if (script_.writes_when_all_is_read) ends_.changed.wait(lock, [&] { return ends_.input_is_read; });
    if (std::ssize(ends_.written) == script_.unwritable_at) fail("nobody reads the output any more");
    ends_.written.emplace_back(rgb.begin(), rgb.end());
  }
  void finish() override { ends_.is_finished = true; }

 private:
  Script script_;
  Ends& ends_;
};

class StreamRunnerTest : public testing::Test {
 protected:
  StreamEnd run(const Script& script, const StreamRunOptions& options = {}, const std::string& switches = "lossless") {
    FrameStream stream(*model_, *backend_, weights_, options_of(switches));
    LiveView view(facts_of(stream, "cpu", 0), controls_of(stream.request()));
    StreamRunner runner(std::make_unique<ScriptedReader>(script, ends_),
                        std::make_unique<ScriptedWriter>(script, ends_), stream, view, options);
    const StreamEnd end = runner.run();
    EXPECT_TRUE(view.counters().ended);
    EXPECT_EQ(view.counters().shown, end.latency.shown);
    EXPECT_EQ(view.counters().dropped, end.latency.dropped);
    return end;
  }
  static StreamOptions options_of(const std::string& switches) {
    return {.size = {.height = kFormat.height, .width = kFormat.width}, .switches = SwitchSet::parse(switches)};
  }
  /// The output of a stream without time pressure, for the first `frames` frames.
  std::vector<Pixels> expected(std::int64_t frames) {
    FrameStream stream(*model_, *backend_, weights_, options_of("lossless"));
    const auto slot = stream.make_slot();
    std::vector<Pixels> shown;
    for (std::int64_t i = 0; i < frames; ++i) {
      draw_test_frame(kFormat, i, slot->in());
      if (i == 0) stream.begin(slot->in());
      stream.submit(*slot);
      stream.wait(*slot);
      shown.emplace_back(slot->out().begin(), slot->out().end());
    }
    return shown;
  }

  std::unique_ptr<Backend> backend_ = make_backend(DeviceKind::kCpu);
  Component network_ = open_component((source_dir(kSourceDir) / "tests/goldens/live_stream/three-levels").string());
  WeightStore weights_{*backend_, std::span<const Component>(&network_, 1)};
  std::unique_ptr<StreamModel> model_ = make_stream_model(network_);
  Ends ends_;
  const Interruptible until_finished_;  // clears interruptions of earlier tests
};

TEST_F(StreamRunnerTest, EveryFrameComesOutInItsPlace) {
  const StreamEnd end = run({.frames = 25});
  EXPECT_EQ(ends_.written, expected(25));
  EXPECT_TRUE(ends_.is_finished);
  EXPECT_EQ(end.latency.came, 25);
  EXPECT_EQ(end.latency.shown, 25);
  EXPECT_EQ(end.latency.frame.front(), 0);
  EXPECT_EQ(end.latency.frame.back(), 24);
  EXPECT_TRUE(end.input_error.empty());
  check_latency(end.latency, "it");
}

TEST_F(StreamRunnerTest, EndsAfterSoManyFrames) {
  EXPECT_EQ(run({.frames = 25}, {.frames = 7}).latency.shown, 7);
  EXPECT_TRUE(ends_.is_finished);
}

TEST_F(StreamRunnerTest, WhatWasReadOfABrokenInputIsShownAndFinished) {
  const StreamEnd end = run({.frames = 25, .broken_at = 9});
  EXPECT_EQ(end.input_error, "in.y4m: frame 9 is cut off");
  EXPECT_EQ(ends_.written, expected(9));
  EXPECT_TRUE(ends_.is_finished);
}

TEST_F(StreamRunnerTest, AnInputWithoutAFrameIsAnError) {
  EXPECT_THAT(error_of([&] { (void)run({.frames = 0}); }), HasSubstr("has no frame"));
  EXPECT_THAT(error_of([&] { (void)run({.broken_at = 0}); }), HasSubstr("frame 0 is cut off"));
  EXPECT_FALSE(ends_.is_finished);
}

TEST_F(StreamRunnerTest, AnOutputThatNobodyReadsEndsTheStream) {
  EXPECT_THAT(error_of([&] { (void)run({.frames = 1'000'000, .unwritable_at = 5}); }), HasSubstr("nobody reads"));
  EXPECT_EQ(ends_.written.size(), 5U);
  EXPECT_FALSE(ends_.is_finished);
}

TEST_F(StreamRunnerTest, AnInterruptionLeavesAWholeOutput) {
  const StreamEnd end = run({.frames = 1'000'000, .interrupted_at = 12});
  EXPECT_TRUE(end.is_interrupted);
  EXPECT_TRUE(ends_.is_finished);
  EXPECT_GE(end.latency.shown, 1);
  EXPECT_EQ(std::ssize(ends_.written), end.latency.shown);
  EXPECT_EQ(ends_.written, expected(end.latency.shown));
}

TEST_F(StreamRunnerTest, WhatIsLateIsDroppedAndTheRestKeepsItsOrder) {
  const StreamEnd end = run({.frames = 60, .writes_when_all_is_read = true}, {.fps = 100'000, .drops = true});
  EXPECT_EQ(end.latency.came, 60);
  EXPECT_GT(end.latency.dropped, 0);
  EXPECT_EQ(end.latency.came, end.latency.shown + end.latency.dropped);
  EXPECT_EQ(end.latency.frame.back(), 59) << "the newest is kept";
  EXPECT_EQ(end.latency.input_fps, 100'000);
  check_latency(end.latency, "it");
}

TEST_F(StreamRunnerTest, WhatIsLateIsWaitedForUnlessItIsDropped) {
  const StreamEnd end = run({.frames = 40}, {.fps = 100'000});
  EXPECT_EQ(end.latency.shown, 40);
  EXPECT_EQ(end.latency.dropped, 0);
  EXPECT_EQ(ends_.written, expected(40));
}

/// Frames still in a batch when the input ends also come out.
TEST(StreamRunner, BatchesAreEmptiedAtTheEnd) {
  const Interruptible until_finished;
  const auto backend = make_backend(DeviceKind::kCpu);
  const auto pipeline = open_pipeline((source_dir(kSourceDir) / "tests/goldens/pipelines/sd-2.1").string());
  WeightStore weights(*backend, pipeline->components());
  const auto model = make_stream_model(*pipeline);
  const auto run = [&](const std::string& switches) {
    Ends ends;
    FrameStream stream(*model, *backend, weights,
                       {.size = {.height = kFormat.height, .width = kFormat.width},
                        .steps = 3,
                        .prompt = "a fox",
                        .switches = SwitchSet::parse(switches)});
    LiveView view(facts_of(stream, "cpu", 0), controls_of(stream.request()));
    StreamRunner runner(std::make_unique<ScriptedReader>(Script{.frames = 5}, ends),
                        std::make_unique<ScriptedWriter>(Script{}, ends), stream, view, {});
    const StreamEnd end = runner.run();
    EXPECT_THAT(end.latency.frame, ElementsAre(0, 1, 2, 3, 4)) << switches;
    check_latency(end.latency, switches);
    return ends.written;
  };
  const std::vector<Pixels> alone = run("lossless"), batched = run("lossless,stream-batch=3");
  ASSERT_EQ(alone.size(), batched.size());
  for (std::size_t i = 0; i < alone.size(); ++i)
    for (std::size_t k = 0; k < alone[i].size(); ++k) ASSERT_NEAR(alone[i][k], batched[i][k], 1) << i;
}

/// A stream that is paused and resumed, in steps that do not depend on time.
class PausedStream {
 public:
  PausedStream(FrameStream& stream, const Script& script, Ends& ends, const StreamRunOptions& options)
      : view_(facts_of(stream, "cpu", 0), controls_of(stream.request())),
        runner_(std::make_unique<ScriptedReader>(script, ends), std::make_unique<ScriptedWriter>(script, ends), stream,
                view_, options) {}

  /// `while_paused` is called between frames and returns whether to resume; `after` is called on resuming.
  StreamEnd run(const std::function<bool(std::int64_t calls)>& while_paused, const std::function<void()>& after = {}) {
    return runner_.run([&](const LatencyLog& log) {
      if (!is_asked_ && log.shown() >= 5) want((is_asked_ = true));
      if (!is_asked_ || goes_on_) {
        if (after && goes_on_) after();
        return;
      }
      if (!view_.controls().paused) return;
      if (calls_ == 0) shown_before_ = log.shown();
      if (while_paused(++calls_)) want(!(goes_on_ = true));
    });
  }
  [[nodiscard]] const LiveView& view() const { return view_; }
  [[nodiscard]] std::int64_t shown_before() const { return shown_before_; }

 private:
  void want(bool is_paused) {
    StreamControls wish = view_.goal();
    wish.paused = is_paused;
    view_.want(wish);
  }

  LiveView view_;
  StreamRunner runner_;
  bool is_asked_ = false, goes_on_ = false;
  std::int64_t calls_ = 0, shown_before_ = 0;
};

constexpr std::int64_t kUnderWay = 6;  // frames at most in flight

TEST_F(StreamRunnerTest, AFileWaitsWhileTheStreamIsPaused) {
  FrameStream stream(*model_, *backend_, weights_, options_of("lossless"));
  PausedStream paused(stream, {.frames = 40}, ends_, {});
  std::int64_t shown_then = 0;
  const StreamEnd end = paused.run([&](std::int64_t calls) {
    shown_then = paused.view().counters().shown;
    return calls == 2 * kUnderWay;  // more than are in flight: a stream that was not paused would have shown more
  });
  EXPECT_LE(shown_then, paused.shown_before() + kUnderWay);
  EXPECT_EQ(end.latency.shown, 40);
  EXPECT_EQ(end.latency.dropped, 0);
  EXPECT_EQ(ends_.written, expected(40));
  EXPECT_FALSE(paused.view().controls().paused);
}

TEST_F(StreamRunnerTest, ACameraRunsOnWhileTheStreamIsPaused) {
  constexpr std::int64_t kMissed = 50;
  for (const StreamRunOptions& options : {StreamRunOptions{.is_live = true}, StreamRunOptions{.fps = 100'000}}) {
    ends_.input_is_over = false;
    FrameStream stream(*model_, *backend_, weights_, options_of("lossless"));
    PausedStream paused(stream, {.frames = -2}, ends_, options);
    std::uint64_t allocations = 0;
    std::int64_t shown_then = 0, shown_after = 0;
    const StreamEnd end = paused.run(
        [&](std::int64_t calls) {
          if (calls == 1) allocations = backend_->memory_use().allocations;
          shown_then = paused.view().counters().shown;
          return paused.view().counters().dropped >= kMissed;
        },
        [&] { ends_.input_is_over = ++shown_after >= 10; });
    EXPECT_EQ(backend_->memory_use().allocations, allocations);
    EXPECT_LE(shown_then, paused.shown_before() + kUnderWay);
    EXPECT_GT(end.latency.shown, shown_then) << "it goes on";
    EXPECT_GE(end.latency.dropped, kMissed);
    EXPECT_EQ(end.latency.came, end.latency.shown + end.latency.dropped);
    EXPECT_TRUE(std::ranges::is_sorted(end.latency.frame, std::less_equal<>())) << "each once, in order";
    std::int64_t widest = 0;
    for (std::size_t i = 1; i < end.latency.frame.size(); ++i)
      widest = std::max(widest, end.latency.frame[i] - end.latency.frame[i - 1]);
    EXPECT_GT(widest, kMissed) << "what came meanwhile is shown no more";
    check_latency(end.latency, "it");
  }
}

TEST_F(StreamRunnerTest, AStreamEndsWithItsCameraThoughItIsPaused) {
  FrameStream stream(*model_, *backend_, weights_, options_of("lossless"));
  PausedStream paused(stream, {.frames = -2}, ends_, {.is_live = true});
  const StreamEnd end = paused.run([&](std::int64_t) {
    ends_.input_is_over = true;
    return false;
  });
  EXPECT_TRUE(ends_.is_finished);
  EXPECT_TRUE(paused.view().controls().paused);
  EXPECT_EQ(end.latency.came, end.latency.shown + end.latency.dropped);
}

TEST_F(StreamRunnerTest, ACameraThatWasPausedThroughoutHadFrames) {
  FrameStream stream(*model_, *backend_, weights_, options_of("lossless"));
  LiveView view(facts_of(stream, "cpu", 0), controls_of(stream.request()));
  StreamRunner runner(std::make_unique<ScriptedReader>(Script{.frames = 30}, ends_),
                      std::make_unique<ScriptedWriter>(Script{}, ends_), stream, view, {.is_live = true});
  StreamControls wish = view.controls();
  wish.paused = true;
  view.want(wish);
  EXPECT_THAT(error_of([&] { (void)runner.run(); }), HasSubstr("no frame was shown: 30 frames came, and were dropped"));
}

TEST_F(StreamRunnerTest, WishesComeTrueBetweenFrames) {
  FrameStream stream(*model_, *backend_, weights_, options_of("lossless"));
  LiveView view(facts_of(stream, "cpu", 0), controls_of(stream.request()));
  StreamRunner runner(std::make_unique<ScriptedReader>(Script{.frames = 30}, ends_),
                      std::make_unique<ScriptedWriter>(Script{}, ends_), stream, view, {});
  StreamControls wish = view.controls();
  wish.seed = 9;
  wish.steps = 2;
  view.want(wish);
  static_cast<void>(runner.run());
  EXPECT_EQ(view.controls(), wish);
  EXPECT_EQ(stream.request().steps, 2);
  EXPECT_EQ(view.obstacle(), "");
  EXPECT_NE(ends_.written, expected(30));
}

}  // namespace
}  // namespace headroom
