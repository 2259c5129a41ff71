#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "media/ffmpeg/libraries.hpp"
#include "media/video/video.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;
using Frame = std::vector<std::uint8_t>;

/// A test of FFmpeg's libraries; skipped if they are not installed.
class Ffmpeg : public testing::Test {
 protected:
  void SetUp() override {
    const std::string missing = error_of([] { (void)ffmpeg(); });
    if (missing != "(no error)") GTEST_SKIP() << missing;
  }

  /// Runs the program ffmpeg in the folder; skips the test if it is not installed.
  bool run_ffmpeg(const std::string& arguments) {
    const std::string command = "cd " + folder_.path().string() + " && ffmpeg -v error -nostdin -y " + arguments;
    const bool is_there = std::system("command -v ffmpeg >/dev/null") == 0;  // NOLINT(concurrency-mt-unsafe)
    EXPECT_TRUE(!is_there || std::system(command.c_str()) == 0) << command;  // NOLINT(concurrency-mt-unsafe)
    return is_there;
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_ / name; }

  TempFolder folder_;
};

/// Smooth moving colours, as in films.
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
    // By default ffmpeg drops every other chroma sample and assumes centred siting.
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
  struct Colors {
    const char *space, *range, *pixels;
  };
  constexpr Colors kColors[] = {
      {"bt709", "tv", "yuv420p"},         {"bt709", "pc", "yuv420p"},     {"smpte170m", "tv", "yuv420p"},
      {"bt470bg", "pc", "yuv444p"},       {"bt2020nc", "tv", "yuv422p"},  {"bt2020nc", "pc", "yuv420p10le"},
      {"smpte170m", "tv", "yuv420p10le"}, {"bt709", "pc", "yuv444p10le"},
  };
  for (const auto& [space, range, pixels] : kColors) {
    const std::string what = std::string(space) + " " + range + " " + pixels;
    const std::string scale = std::string(",format=rgb24,scale=out_color_matrix=") + space + ":out_range=" + range;
    if (!run_ffmpeg("-f lavfi -i color=c=0xC02040:s=64x64:r=25:d=0.2" + scale + ",format=" + pixels +
                    " -c:v libx264 -qp 1 -colorspace " + space + " -color_range " + range + " a.mkv"))
      GTEST_SKIP() << "there is no program ffmpeg";
    const auto frames = read_video(file("a.mkv"));
    ASSERT_EQ(frames.size(), 5U);
    const auto middle = frames[4].begin() + 3 * (32 * 64 + 32);
    EXPECT_NEAR(middle[0], 0xC0, 3) << what;
    EXPECT_NEAR(middle[1], 0x20, 3) << what;
    EXPECT_NEAR(middle[2], 0x40, 3) << what;
  }
}

TEST_F(Ffmpeg, MatrixAndRangeThatAreGivenGoBeforeThoseOfTheFile) {
  constexpr VideoFormat kRed{.width = 64, .height = 64, .rate = {25, 1}};
  std::vector<std::uint8_t> red(kRed.frame_bytes());
  for (std::size_t i = 0; i < red.size(); i += 3) red[i] = 255, red[i + 1] = red[i + 2] = 32;
  const auto write = [&](const VideoWriteOptions& options) {
    const auto writer = open_video_writer(file("a.mkv"), kRed, options);
    for (int i = 0; i < 3; ++i) writer->write(red);
    writer->finish();
  };
  const auto read = [&](const VideoReadOptions& options) {
    const std::vector<std::uint8_t> frame = read_video(file("a.mkv"), options).at(2);
    const auto middle = frame.begin() + 3 * (32 * 64 + 32);
    return std::vector<int>(middle, middle + 3);
  };
  const auto is_near = [](const std::vector<int>& a, const std::vector<int>& b) {
    return std::abs(a[0] - b[0]) <= 4 && std::abs(a[1] - b[1]) <= 4 && std::abs(a[2] - b[2]) <= 4;
  };
  const std::vector<int> as_made = {255, 32, 32};
  for (const ColorMatrix matrix : {ColorMatrix::kBt601, ColorMatrix::kBt709})
    for (const ColorRange range : {ColorRange::kLimited, ColorRange::kFull}) {
      write({.matrix = matrix, .range = range, .quality = 1});
      EXPECT_TRUE(is_near(read({}), as_made)) << "as the file says";
      EXPECT_TRUE(is_near(read({.matrix = matrix, .range = range}), as_made));
      const ColorMatrix other = matrix == ColorMatrix::kBt601 ? ColorMatrix::kBt709 : ColorMatrix::kBt601;
      const ColorRange wrong = range == ColorRange::kFull ? ColorRange::kLimited : ColorRange::kFull;
      EXPECT_FALSE(is_near(read({.matrix = other}), as_made));
      EXPECT_FALSE(is_near(read({.range = wrong}), as_made));
    }
}

TEST_F(Ffmpeg, PicturesAreTurnedUpright) {
  for (const char* turn : {"90", "180", "270"}) {
    const std::string metadata = std::string("-c copy -metadata:s:v rotate=") + turn;
    if (!run_ffmpeg("-f lavfi -i testsrc=s=48x32:r=25:d=0.2 -pix_fmt yuv444p a.mp4") ||
        !run_ffmpeg("-i a.mp4 " + metadata + " turned.mp4") || !run_ffmpeg("-i turned.mp4 -f yuv4mpegpipe turned.y4m"))
      GTEST_SKIP() << "there is no program ffmpeg";
    EXPECT_EQ(open_video_reader(file("turned.mp4"))->format(), open_video_reader(file("turned.y4m"))->format());
    EXPECT_EQ(read_video(file("turned.mp4")), read_video(file("turned.y4m"))) << turn;
  }
}

TEST_F(Ffmpeg, AVaryingRateIsMadeConstant) {
  if (!run_ffmpeg("-f lavfi -i testsrc=s=48x32:r=25:d=2 -vf 'select=not(mod(n\\,3))+lt(n\\,20)' -vsync vfr a.mkv") ||
      !run_ffmpeg("-i a.mkv -vf fps=25 -pix_fmt yuv444p -f yuv4mpegpipe a.y4m"))
    GTEST_SKIP() << "there is no program ffmpeg";
  const auto ours = read_video(file("a.mkv"));
  auto theirs = read_video(file("a.y4m"));
  ASSERT_GE(ours.size(), 48U);
  ASSERT_GE(theirs.size(), ours.size());  // ffmpeg may repeat the last frame
  theirs.resize(ours.size());
  EXPECT_EQ(ours, theirs);
}

TEST_F(Ffmpeg, AVideoWithoutAConstantRateIsTakenAtItsMean) {
  // Times in whole milliseconds, as browsers record them: 120 frames in 4 seconds.
  if (!run_ffmpeg(
          "-f lavfi -i testsrc=s=48x32:r=1000:d=4 -vf \"select='lt(mod(n*7919\\,1000)\\,30)',"
          "setpts=N*33/TB/1000+mod(N*7\\,11)/TB/1000\" -vsync vfr -enc_time_base 1/1000 -c:v libvpx browser.webm"))
    GTEST_SKIP() << "there is no program ffmpeg";
  const auto reader = open_video_reader(file("browser.webm"));
  EXPECT_EQ(reader->format().rate, (FrameRate{30, 1}));
  EXPECT_THAT(reader->notes(), ElementsAre(file("browser.webm") +
                                           " has no constant rate, and is taken at 30 frames a second, the mean of its "
                                           "first frames; --input-fps gives another rate"));
  EXPECT_NEAR(static_cast<double>(read_video(file("browser.webm")).size()), 120, 3);
  EXPECT_NEAR(static_cast<double>(read_video(file("browser.webm"), {.rate = FrameRate{10, 1}}).size()), 40, 2);
  const VideoReadOptions paced{.rate_where_none = FrameRate{15, 1}};
  EXPECT_NEAR(static_cast<double>(read_video(file("browser.webm"), paced).size()), 60, 2);
  EXPECT_THAT(open_video_reader(file("browser.webm"), paced)->notes(), ElementsAre());
  // The same times in other containers; a file with a rate keeps it, whatever pace is requested.
  run_ffmpeg("-i browser.webm -c:v libx264 -enc_time_base 1/90000 -vsync passthrough browser.mkv");
  EXPECT_EQ(open_video_reader(file("browser.mkv"))->format().rate, (FrameRate{30, 1}));
  write_video(file("constant.mkv"), kSmall, 10);
  EXPECT_EQ(open_video_reader(file("constant.mkv"), paced)->format().rate, kSmall.rate);
  EXPECT_THAT(open_video_reader(file("constant.mkv"), paced)->notes(), ElementsAre());
  write_video(file("fast.mp4"), {.width = 96, .height = 64, .rate = {240, 1}}, 60);
  EXPECT_EQ(open_video_reader(file("fast.mp4"))->format().rate, (FrameRate{240, 1}));
  EXPECT_EQ(read_video(file("fast.mp4")).size(), 60U);
}

TEST_F(Ffmpeg, SoundThatIsLeftAsideIsNoted) {
  write_video(file("a.mkv"), kSmall, 10);
  EXPECT_THAT(open_video_reader(file("a.mkv"))->notes(), ElementsAre());
  for (const char* const name : {"b.mkv", "b.mp4", "b.webm"}) {
    const std::string codecs = std::string(name) == "b.webm" ? "-c:v libvpx -c:a libopus" : "-c:v copy -c:a aac";
    if (!run_ffmpeg("-i a.mkv -f lavfi -i sine=d=0.3 " + codecs + " " + name))
      GTEST_SKIP() << "there is no program ffmpeg";
    EXPECT_THAT(open_video_reader(file(name))->notes(),
                ElementsAre("the sound of " + file(name) + " is left aside: frames alone are read and written"));
  }
}

TEST_F(Ffmpeg, NothingIsReadButTheFileThatIsNamed) {
  write_video(file("whole.mp4"), kSmall, 10);
  write_video(file("whole.mkv"), kSmall, 10);
  if (!run_ffmpeg("-i whole.mp4 -c copy -f mpegts part.ts")) GTEST_SKIP() << "there is no program ffmpeg";
  EXPECT_EQ(read_video(file("part.ts")).size(), 10U);
  const std::string playlist =
      "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:10\n#EXTINF:1.0,\nNAME\n#EXT-X-ENDLIST\n";
  const auto naming = [&](std::string text, const std::string& name) {
    return text.replace(text.find("NAME"), 4, name);
  };
  const struct {
    const char* name;
    std::string content;
  } lists[] = {
      {"hls.mp4", naming(playlist, "part.ts")},
      {"hls.ts", naming(playlist, "file:" + file("part.ts"))},
      {"hls.mkv", naming(playlist, "whole.mp4")},
      {"concat.mp4", "ffconcat version 1.0\nfile whole.mp4\n"},
      {"concat.webm", "ffconcat version 1.0\nfile 'whole.mkv'\n"},
      {"variants.mp4", "#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=100000\nhls.mp4\n"},
      {"session.mp4", "v=0\no=- 0 0 IN IP4 127.0.0.1\ns=x\nm=video 0 RTP/AVP 96\n"},
      {"picture%d.png", "no picture"},
  };
  for (const auto& [name, content] : lists) {
    write_file_atomically(file(name), content);
    EXPECT_THAT(error_of([&] { (void)read_video(file(name)); }),
                testing::AnyOf(StartsWith(file(name) + " is none of the containers that are read"),
                               StartsWith(file(name) + " is no video that FFmpeg knows")))
        << name;
  }
}

TEST_F(Ffmpeg, SaysWhatCannotBeRead) {
  const auto complaint = [&](const char* name) {
    const std::string message = error_of([&] { (void)read_video(file(name)); });
    return message.starts_with(file(name)) ? message.substr(file(name).size() + 1) : message;
  };
  EXPECT_EQ(complaint("none.mp4"), "cannot read " + file("none.mp4") + ": No such file or directory");
  write_file_atomically(file("text.mp4"), "no video");
  EXPECT_EQ(complaint("text.mp4"), "is no video that FFmpeg knows");

  write_video(file("whole.mp4"), kSmall, 50);
  const std::string whole = read_file(file("whole.mp4"));
  write_file_atomically(file("cut.mp4"), whole.substr(0, whole.size() / 2));
  EXPECT_EQ(complaint("cut.mp4"), "is no video that FFmpeg knows");  // its index is at its end

  if (!run_ffmpeg("-f lavfi -i sine=d=1 sound.mkv")) GTEST_SKIP() << "there is no program ffmpeg";
  EXPECT_EQ(complaint("sound.mkv"), "has no video in it");
  run_ffmpeg("-i whole.mp4 -vf interlace -flags +ilme+ildct -c:v mpeg2video interlaced.mkv");
  EXPECT_EQ(complaint("interlaced.mkv"),
            "is interlaced (frame 0); expected whole frames: ffmpeg's filter yadif makes them");
  run_ffmpeg("-i whole.mp4 -pix_fmt yuv420p10le -color_trc smpte2084 -colorspace bt2020nc hdr.mkv");
  EXPECT_EQ(complaint("hdr.mkv"),
            "is HDR video (PQ), which 8 bits cannot show; expected SDR: ffmpeg's filter tonemap makes it");
  run_ffmpeg("-i whole.mp4 -c:v mpeg2video small.ts");
  run_ffmpeg("-i whole.mp4 -s 160x80 -c:v mpeg2video large.ts");
  write_file_atomically(file("both.ts"), read_file(file("small.ts")) + read_file(file("large.ts")));
  EXPECT_EQ(complaint("both.ts"), "has 160 by 80 pixels in frame 49 and 96 by 64 before; expected one size");
  run_ffmpeg("-i whole.mp4 -c copy -movflags faststart front.mp4");
  const std::string front = read_file(file("front.mp4"));
  write_file_atomically(file("cut.mp4"), front.substr(0, front.size() / 2));
  EXPECT_THAT(complaint("cut.mp4"), StartsWith("cannot be decoded from frame "));
}

TEST_F(Ffmpeg, SaysWhatCannotBeWritten) {
  const auto complaint = [&](const std::string& name, const VideoFormat& format,
                             const VideoWriteOptions& options = {}) {
    return error_of([&] { (void)open_video_writer(name, format, options); });
  };
  EXPECT_EQ(complaint(file("a.xyz"), kSmall),
            file("a.xyz") +
                " has no suffix of a video container; expected .mp4, .mkv, .webm, .y4m or .rgb, or null: "
                "to discard the frames");
  for (const char* name : {"a.gif", "a.apng"})
    EXPECT_THAT(complaint(file(name), kSmall), HasSubstr("which has no 4:2:0; expected .mp4, ")) << name;
  EXPECT_THAT(complaint(file("a.png"), kSmall), HasSubstr("which is no file with a video"));
  EXPECT_THAT(complaint(file("a.wav"), kSmall), HasSubstr("which is no file with a video"));
  EXPECT_THAT(complaint("-", kSmall, {.container = VideoContainer::kFfmpeg}), StartsWith("standard output cannot be "));
  EXPECT_EQ(complaint(file("a.mp4"), kSmall, {.quality = 52}), "the quality of a video is 0 (the best) to 51, not 52");
  EXPECT_THAT(complaint(file("a.mp4"), kSmall, {.encoder = "libno"}), HasSubstr("has no encoder libno that"));
  EXPECT_THAT(complaint("/none/a.mp4", kSmall), StartsWith("cannot write /none/a.mp4: No such file or directory"));
  if (ffmpeg().avcodec_find_encoder_by_name("libx264") != nullptr) {
    EXPECT_EQ(complaint(file("a.mp4"), {.width = 35, .height = 8, .rate = {25, 1}}),
              "cannot write " + file("a.mp4") + ": H.264 takes frames of even width and height, not 35 by 8 pixels");
    EXPECT_THAT(complaint(file("a.mp4"), kSmall, {.preset = "quick"}), StartsWith("a video's preset is ultrafast, "));
  }
  EXPECT_TRUE(fs::is_empty(folder_.path()));
}

TEST_F(Ffmpeg, AFileAppearsWhenItIsWhole) {
  write_file_atomically(file("a.mp4"), "what stood there");
  {
    const auto writer = open_video_writer(file("a.mp4"), kSmall);
    for (int i = 0; i < 60; ++i) writer->write(moving_colors(kSmall, i));
  }
  EXPECT_EQ(read_file(file("a.mp4")), "what stood there");
  write_video(file("a.mp4"), kSmall, 60);
  EXPECT_EQ(read_video(file("a.mp4")).size(), 60U);
}

TEST_F(Ffmpeg, EveryEncoderTakesItsQuality) {
  for (const char* encoder : {"libx264", "libx265", "libvpx-vp9", "libvpx", "mpeg4"}) {
    if (ffmpeg().avcodec_find_encoder_by_name(encoder) == nullptr) continue;
    double last = 99;
    for (const int quality : {8, 28, 44}) {
      write_video(file("a.mkv"), kSmall, 5, {.quality = quality, .preset = "ultrafast", .encoder = encoder});
      const double least = least_psnr(read_video(file("a.mkv")), kSmall);
      EXPECT_LT(least, last) << encoder << " " << quality;
      last = least;
    }
    EXPECT_GE(last, 18) << encoder;
  }
}

}  // namespace
}  // namespace headroom
