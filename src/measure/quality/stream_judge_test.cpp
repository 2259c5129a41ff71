#include "measure/quality/stream_judge.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/error.hpp"
#include "measure/test_util.hpp"
#include "media/ink.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

constexpr int kSide = 24;

Image plain(std::uint8_t level) {
  Image image = make_image(2, 2, 3);
  for (std::uint8_t& byte : image.pixels) byte = level;
  return image;
}

/// A teacher whose picture is the scene itself, with a camera without noise.
StreamTeacher mirror() {
  return {.picture = [](const Image& scene) { return scene; }, .camera_noise = 0, .frames = 5};
}

std::string refusal(const FakeRoot& root) {
  try {
    static_cast<void>(open_stream_teacher(root.path()));
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted";
}

TEST(Flicker, IsTheDistanceFromTheMeanOfTheNeighbours) {
  EXPECT_EQ(flicker_of({plain(10), plain(20), plain(30), plain(40)}), 0);  // steady
  EXPECT_EQ(flicker_of({plain(10), plain(16), plain(10)}), 6);
  EXPECT_DOUBLE_EQ(flicker_of({plain(0), plain(8), plain(0), plain(0)}), std::sqrt((64.0 + 16.0) / 2));
  EXPECT_THROW(static_cast<void>(flicker_of({plain(1), plain(2)})), Error);
}

TEST(StreamJudge, MeasuresEachClipFromItsTeacher) {
  std::int64_t clips = 0, frames = 0;
  const StreamJudgement off_by_one = judge_stream(mirror(), 3, kSide, [&](const Image& seen, bool begins) {
    clips += begins ? 1 : 0;
    ++frames;
    Image shown = seen;
    for (std::uint8_t& byte : shown.pixels) byte = static_cast<std::uint8_t>(byte == 255 ? 254 : byte + 1);
    return shown;
  });
  EXPECT_EQ(clips, 3);
  EXPECT_EQ(frames, 15);
  EXPECT_NEAR(off_by_one.psnr_db.value, 20 * std::log10(255.0), 1e-6);
  ASSERT_TRUE(off_by_one.psnr_db.interval.has_value());
  EXPECT_NEAR(off_by_one.psnr_db.interval->high - off_by_one.psnr_db.interval->low, 0, 1e-6);
  EXPECT_NEAR(off_by_one.flicker.value, 1, 0.05);
  EXPECT_DOUBLE_EQ(off_by_one.teacher_flicker.value, 1);
}

TEST(StreamJudge, TellsAStillPictureAndAnEqualOne) {
  const auto still = [](const Image& seen, bool) { return make_image(seen.width, seen.height, 3); };
  EXPECT_EQ(judge_stream(mirror(), 1, kSide, still).flicker.value, 0);
  const StreamJudgement equal = judge_stream(mirror(), 1, kSide, [](const Image& seen, bool) { return seen; });
  EXPECT_EQ(equal.flicker.value, 1);
  EXPECT_NEAR(equal.psnr_db.value, 20 * std::log10(2 * 255.0), 1e-6);
  EXPECT_FALSE(equal.psnr_db.interval.has_value());
}

/// The formula applied to noisy input is close to the formula applied to clean input, but flickers more.
TEST(StreamJudge, SeesNoiseThatWasLeft) {
  const StreamTeacher ink{.picture = print_in_ink, .camera_noise = 0.03, .frames = 8};
  const StreamJudgement printed = judge_stream(ink, 4, 64, [](const Image& seen, bool) { return print_in_ink(seen); });
  const StreamJudgement seen = judge_stream(ink, 4, 64, [](const Image& frame, bool) { return frame; });
  EXPECT_GT(printed.psnr_db.value, 28);
  EXPECT_LT(seen.psnr_db.value, 15);
  EXPECT_LT(printed.teacher_flicker.value, printed.flicker.value);
  EXPECT_EQ(seen.flicker.value, 1);
}

TEST(StreamJudge, RefusesWhatIsOfAnotherSize) {
  EXPECT_THROW(
      static_cast<void>(judge_stream(mirror(), 1, kSide, [](const Image&, bool) { return make_image(8, 8, 3); })),
      Error);
  EXPECT_THROW(static_cast<void>(judge_stream(mirror(), 0, kSide, [](const Image& frame, bool) { return frame; })),
               Error);
}

TEST(StreamTeacher, IsNamedInTheFolderOfTheModel) {
  FakeRoot root;
  EXPECT_THAT(refusal(root), HasSubstr("names no `teacher` in a generation_config.json"));
  root.write("generation_config.json", R"({"teacher": {"name": "oil", "camera_noise": 0.03, "frames": 64}})");
  EXPECT_THAT(refusal(root), HasSubstr("'oil' is not known, expected ink"));
  root.write("generation_config.json", R"({"teacher": {"name": "ink", "camera_noise": 3, "frames": 64}})");
  EXPECT_THAT(refusal(root), HasSubstr("camera_noise is 3, expected 0 to 1"));
  root.write("generation_config.json", R"({"teacher": {"name": "ink", "camera_noise": 0.03, "frames": 2}})");
  EXPECT_THAT(refusal(root), HasSubstr("frames is 2, expected 3 or more"));
  root.write("generation_config.json", R"({"teacher": {"name": "ink", "camera_noise": 0.03, "frames": 64}})");
  const StreamTeacher teacher = open_stream_teacher(root.path());
  EXPECT_EQ(teacher.camera_noise, 0.03);
  EXPECT_EQ(teacher.frames, 64);
  EXPECT_EQ(teacher.picture(plain(200)), print_in_ink(plain(200)));
}

}  // namespace
}  // namespace headroom
