#include "cli/streams/live_view.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

using std::chrono::milliseconds;

StreamFacts small_stream() {
  return {.model = "tiny",
          .device = "cpu",
          .switches = "fuse",
          .width = 2,
          .height = 1,
          .fps = 25,
          .takes_prompt = true,
          .takes_strength = true};
}

std::vector<std::uint8_t> pixels(int value) { return std::vector<std::uint8_t>(6, static_cast<std::uint8_t>(value)); }

TEST(LiveView, GivesTheNewestFrameToThoseWhoWatch) {
  LiveView view(small_stream(), {});
  LiveView::Frame frame;
  view.show({.frame = 0}, pixels(1), pixels(2));
  EXPECT_FALSE(view.wait_for_frame(0, milliseconds(0), frame)) << "nobody watched";

  const LiveView::Watching watching(view);
  view.show({.frame = 1}, pixels(3), pixels(4));
  view.show({.frame = 2}, pixels(5), pixels(6));
  ASSERT_TRUE(view.wait_for_frame(0, milliseconds(0), frame));
  EXPECT_EQ(frame.serial, 3);
  EXPECT_EQ(frame.input, pixels(5));
  EXPECT_EQ(frame.output, pixels(6));
  EXPECT_FALSE(view.wait_for_frame(frame.serial, milliseconds(0), frame)) << "it is still the newest";
}

TEST(LiveView, WakesThoseWhoWaitWhenItEnds) {
  LiveView view(small_stream(), {});
  bool has_frame = true;
  std::jthread watcher([&] {
    LiveView::Frame frame;
    has_frame = view.wait_for_frame(0, std::chrono::hours(1), frame);
  });
  view.end();
  watcher.join();
  EXPECT_FALSE(has_frame);
  EXPECT_TRUE(view.counters().ended);
}

TEST(LiveView, RemembersTheLastTimes) {
  LiveView view(small_stream(), {});
  constexpr std::int64_t kShown = LiveView::kRemembered + 7;
  for (std::int64_t i = 0; i < kShown; ++i)
    view.show({.frame = i, .latency_ms = 1.5, .repeated = i % 2 == 1}, pixels(0), pixels(0));
  view.drop();
  const LiveView::Times all = view.times_after(0);
  EXPECT_EQ(all.serial, kShown);
  ASSERT_EQ(all.frames.size(), LiveView::kRemembered);
  EXPECT_EQ(all.frames.front().frame, 7);
  EXPECT_EQ(all.frames.back().frame, kShown - 1);
  const LiveView::Times last = view.times_after(kShown - 2);
  ASSERT_EQ(last.frames.size(), 2U);
  EXPECT_EQ(last.frames.front().frame, kShown - 2);
  EXPECT_TRUE(view.times_after(kShown).frames.empty());
  EXPECT_EQ(view.counters().shown, kShown);
  EXPECT_EQ(view.counters().repeated, kShown / 2);
  EXPECT_EQ(view.counters().dropped, 1);
  EXPECT_GT(view.counters().fps, 0);
}

TEST(LiveView, HandsOnWhatIsWishedForOnce) {
  LiveView view(small_stream(), {.prompt = "a fox"});
  EXPECT_EQ(view.take_wanted(), std::nullopt);
  StreamControls wish = view.controls();
  wish.prompt = "an owl";
  view.want(wish);
  wish.strength = 0.25;
  view.want(wish);
  EXPECT_EQ(view.take_wanted(), wish);
  EXPECT_EQ(view.take_wanted(), std::nullopt);
  EXPECT_EQ(view.controls().prompt, "a fox") << "it has not come true yet";
  EXPECT_EQ(view.goal(), wish);
  view.answer(wish);
  EXPECT_EQ(view.controls(), wish);
  view.answer(wish, "the prompt is too long");
  EXPECT_EQ(view.obstacle(), "the prompt is too long");
}

TEST(LiveView, ForgetsAGoalThatCouldNotBeReached) {
  const StreamControls now{.prompt = "a fox"};
  LiveView view(small_stream(), now);
  view.want({.prompt = "too long"});
  ASSERT_TRUE(view.take_wanted());
  view.want({.prompt = "an owl"});
  view.answer(now, "the prompt is too long");
  EXPECT_EQ(view.goal().prompt, "an owl") << "it is still to be taken";
  ASSERT_TRUE(view.take_wanted());
  view.answer(now, "the prompt is too long");
  EXPECT_EQ(view.goal(), now);
}

TEST(LiveView, RefusesWhatMakesNoSense) {
  using testing::HasSubstr;
  const auto refusal = [](const auto& change) {
    LiveView view(small_stream(), {});
    StreamControls wish = view.controls();
    change(wish);
    try {
      view.want(wish);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(refusal([](StreamControls& wish) { wish.strength = 1; }), "taken");
  EXPECT_THAT(refusal([](StreamControls& wish) { wish.strength = 0; }), HasSubstr("strength is 0, expected"));
  EXPECT_THAT(refusal([](StreamControls& wish) { wish.steps = 0; }), HasSubstr("steps is 0, expected 1 to 100"));
  EXPECT_THAT(refusal([](StreamControls& wish) { wish.similarity = 1; }), HasSubstr("similarity is 1, expected"));
  EXPECT_THAT(refusal([](StreamControls& wish) { wish.seed = 1; }), HasSubstr("takes no seed"));
  EXPECT_THAT(refusal([](StreamControls& wish) { wish.paused = true; }), HasSubstr("takes no pause"));
  EXPECT_THAT(refusal([](StreamControls& wish) { wish.guidance_scale = std::numeric_limits<double>::quiet_NaN(); }),
              HasSubstr("guidance_scale is nan"));
}

}  // namespace
}  // namespace headroom
