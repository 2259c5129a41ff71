#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/file.hpp"
#include "base/test_util.hpp"
#include "media/ffmpeg/libraries.hpp"
#include "media/video.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::StartsWith;
using Frame = std::vector<std::uint8_t>;

/// A test of FFmpeg's libraries, which is skipped where they are not there.
class Ffmpeg : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = error_of([] { (void)ffmpeg(); });
    if (missing != "(no error)") GTEST_SKIP() << missing;
  }

  /// Runs the program ffmpeg in the folder; skips the test where there is none.
  bool run_ffmpeg(const std::string& arguments) {
    const std::string command = "cd " + folder_.path().string() + " && ffmpeg -v error -nostdin -y " + arguments;
    const bool is_there = std::system("command -v ffmpeg >/dev/null") == 0;  // NOLINT(concurrency-mt-unsafe)
    EXPECT_TRUE(!is_there || std::system(command.c_str()) == 0) << command;  // NOLINT(concurrency-mt-unsafe)
    return is_there;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

  TempFolder folder_;
};

/// Smooth colours that move, as films have them rather than noise.
Frame moving_colors(const VideoFormat& format, int index) {
  Frame frame;
  for (int y = 0; y < format.height; ++y)
    for (int x = 0; x < format.width; ++x)
      for (int c = 0; c < 3; ++c)
        frame.push_back(
            static_cast<std::uint8_t>(127.5 + 100 * std::sin(0.05 * (x * (c + 1) + y * (3 - c)) + 0.2 * index + c)));
  return frame;
}

void write_video(const std::string& path, const VideoFormat& format, int count, const VideoWriteOptions& options = {}) {
  const auto writer = open_video_writer(path, format, options);
  for (int i = 0; i < count; ++i) writer->write(moving_colors(format, i));
  writer->finish();
}

std::vector<Frame> read_video(const std::string& path, const VideoReadOptions& options = {}) {
  const auto reader = open_video_reader(path, options);
  std::vector<Frame> frames;
  Frame frame(reader->format().frame_bytes());
  while (reader->read(frame)) frames.push_back(frame);
  return frames;
}

double psnr(const Frame& a, const Frame& b) {
  EXPECT_EQ(a.size(), b.size());
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum == 0 ? 99 : 10 * std::log10(255.0 * 255.0 * static_cast<double>(a.size()) / sum);
}
double least_psnr(const std::vector<Frame>& frames, const VideoFormat& format) {
  double least = 99;
  for (std::size_t i = 0; i < frames.size(); ++i)
    least = std::min(least, psnr(frames[i], moving_colors(format, static_cast<int>(i))));
  return least;
}

constexpr VideoFormat kSmall = {.width = 96, .height = 64, .rate = {30000, 1001}};

TEST_F(Ffmpeg, WhatIsWrittenIsRead) {
  for (const char* name : {"a.mp4", "a.mkv", "a.webm", "a.mov", "a.avi"}) {
    write_video(file(name), kSmall, 20);
    const auto reader = open_video_reader(file(name));
    EXPECT_EQ(reader->format(), kSmall) << name;
    const auto frames = read_video(file(name));
    EXPECT_EQ(frames.size(), 20U) << name;
    EXPECT_GE(least_psnr(frames, kSmall), 34) << name;
  }
}

TEST_F(Ffmpeg, ColorsAgreeWithTheProgramFfmpeg) {
  for (const VideoFormat& format : {kSmall, VideoFormat{.width = 1280, .height = 16, .rate = {25, 1}}}) {
    write_video(file("ours.mp4"), format, 3);
    // Left to itself it takes every other sample of colour difference, and all to be in the middle.
    if (!run_ffmpeg("-i ours.mp4 -vf scale=flags=accurate_rnd+full_chroma_int+full_chroma_inp:in_h_chr_pos=0,"
                    "format=rgb24 -f rawvideo theirs.rgb"))
      GTEST_SKIP() << "there is no program ffmpeg";
    const auto theirs = read_video(file("theirs.rgb"), {.raw = format});
    ASSERT_EQ(theirs.size(), 3U);
    EXPECT_GE(least_psnr(theirs, format), 34);
    const auto ours = read_video(file("ours.mp4"));
    for (std::size_t i = 0; i < 3; ++i) EXPECT_GE(psnr(ours[i], theirs[i]), 45) << i;
    run_ffmpeg("-i ours.mp4 -f yuv4mpegpipe theirs.y4m");
    const auto piped = read_video(file("theirs.y4m"));
    ASSERT_EQ(piped.size(), 3U);
    for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(ours[i], piped[i]) << i;
  }
}

TEST_F(Ffmpeg, MatrixAndRangeOfTheFileAreKept) {
  for (const char* space : {"bt709", "smpte170m", "bt470bg", "bt2020nc"})
    for (const char* range : {"tv", "pc"})
      for (const char* pixels : {"yuv420p", "yuv444p", "yuv420p10le"}) {
        const std::string colors = std::string(" -colorspace ") + space + " -color_range " + range;
        if (!run_ffmpeg("-f lavfi -i color=c=0xC02040:s=64x64:r=25:d=0.2,format=rgb24,scale=out_color_matrix=" +
                        std::string(space) + ":out_range=" + range + ",format=" + pixels + " -c:v libx264 -qp 1" +
                        colors + " a.mkv"))
          GTEST_SKIP() << "there is no program ffmpeg";
        const auto frames = read_video(file("a.mkv"));
        EXPECT_EQ(frames.size(), 5U);
        const Frame& frame = frames.at(0);
        const std::size_t middle = 3 * (32 * 64 + 32);
        EXPECT_NEAR(frame[middle], 0xC0, 3) << space << " " << range << " " << pixels;
        EXPECT_NEAR(frame[middle + 1], 0x20, 3) << space << " " << range << " " << pixels;
        EXPECT_NEAR(frame[middle + 2], 0x40, 3) << space << " " << range << " " << pixels;
      }
}

}  // namespace
}  // namespace headroom
