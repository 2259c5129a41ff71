#include "media/video/test_video.hpp"

#include <gtest/gtest.h>

#include <vector>

#include "base/error.hpp"

namespace headroom {
namespace {

TEST(TestVideo, HasAsManyFramesAsItsNameSays) {
  const auto video = open_test_video("test:48x32@60:3");
  EXPECT_EQ(video->format(), (VideoFormat{.width = 48, .height = 32, .rate = {60, 1}}));
  std::vector<std::uint8_t> frame(video->format().frame_bytes()), before;
  for (std::int64_t i = 0; i < 3; ++i) {
    ASSERT_TRUE(video->read(frame));
    EXPECT_EQ(number_of_test_frame(video->format(), frame), i);
    EXPECT_NE(frame, before) << "it moves";
    before = frame;
  }
  EXPECT_FALSE(video->read(frame));
}

TEST(TestVideo, NumbersAreReadFromChangedFrames) {
  const VideoFormat format{.width = 64, .height = 64, .rate = {30, 1}};
  std::vector<std::uint8_t> frame(format.frame_bytes());
  for (const std::int64_t number : {std::int64_t{0}, std::int64_t{1}, std::int64_t{99'999}, std::int64_t{16'777'215}}) {
    draw_test_frame(format, number, frame);
    for (std::size_t i = 0; i < frame.size(); ++i) frame[i] = static_cast<std::uint8_t>(40 + frame[i] / 2 + i % 7);
    EXPECT_EQ(number_of_test_frame(format, frame), number);
  }
}

TEST(TestVideo, ShowsASceneThroughACamera) {
  const auto video = open_test_video("scene:32x32@25:2");
  EXPECT_EQ(video->format(), (VideoFormat{.width = 32, .height = 32, .rate = {25, 1}}));
  std::vector<std::uint8_t> first(video->format().frame_bytes()), second = first;
  ASSERT_TRUE(video->read(first));
  ASSERT_TRUE(video->read(second));
  EXPECT_NE(first, second);
  EXPECT_FALSE(video->read(second));
  const auto again = open_test_video("scene:32x32@25");
  ASSERT_TRUE(again->read(second));
  EXPECT_EQ(first, second) << "the same each time";
  EXPECT_THROW(static_cast<void>(open_test_video("scene:32x48@25")), Error);
}

TEST(TestVideo, RefusesOtherNames) {
  for (const char* wrong :
       {"test:", "test:64x64", "test:64x64@", "test:64x64@0:10", "test:64x64@30:0", "test:0x64@30:1",
        "test:64x64@30:10x", "scene:", "scene:64x64@25:0", "test:64x64@30 :10", "test:99999x64@30:1"})
    EXPECT_THROW(static_cast<void>(open_test_video(wrong)), Error) << wrong;
  EXPECT_NO_THROW(static_cast<void>(open_test_video("test:64x64@30")));
  EXPECT_TRUE(is_test_video("test:1x1@1:1"));
  EXPECT_FALSE(is_test_video("test.mp4"));
  EXPECT_TRUE(is_null_video("null:"));
}

}  // namespace
}  // namespace headroom
