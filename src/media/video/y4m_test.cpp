#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "media/video/video.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;

/// All frames of a file.
std::vector<std::vector<std::uint8_t>> frames_of(const fs::path& path, const VideoReadOptions& options = {}) {
  const auto reader = open_video_reader(path, options);
  std::vector<std::vector<std::uint8_t>> frames;
  std::vector<std::uint8_t> frame(reader->format().frame_bytes());
  while (reader->read(frame)) frames.push_back(frame);
  return frames;
}

/// The error for a stream of these bytes, without its name.
std::string complaint(const std::string& stream, const VideoReadOptions& options = {}) {
  const TempFolder folder;
  const std::string path = folder / "a.y4m";
  write_file_atomically(path, stream);
  const std::string message = error_of([&] { (void)frames_of(path, options); });
  return message.starts_with(path) ? message.substr(path.size() + 1) : message;
}

std::vector<std::uint8_t> first_pixel(const std::string& header, const std::string& samples,
                                      const VideoReadOptions& options = {}) {
  const TempFolder folder;
  write_file_atomically(folder / "a.y4m", "YUV4MPEG2 " + header + "\nFRAME\n" + samples);
  const auto frames = frames_of(folder / "a.y4m", options);
  return {frames.at(0).begin(), frames.at(0).begin() + 3};
}

TEST(Y4m, HeaderSaysSizeRateAndSamples) {
  const TempFolder folder;
  write_file_atomically(folder / "a.y4m", "YUV4MPEG2 W6 H4 F30000:1001 Ip A1:1 C420mpeg2 XYSCSS=420MPEG2\n");
  EXPECT_EQ(open_video_reader(folder / "a.y4m")->format(),
            (VideoFormat{.width = 6, .height = 4, .rate = {30000, 1001}}));
  EXPECT_TRUE(frames_of(folder / "a.y4m").empty());
  write_file_atomically(folder / "a.y4m", "YUV4MPEG2 H1 F0:0 W1");
  EXPECT_EQ(complaint("YUV4MPEG2 H1 F0:0 W1"), "has a header that does not end: 20 bytes");
  write_file_atomically(folder / "a.y4m", "YUV4MPEG2 H1 F0:0 W1\n");
  EXPECT_EQ(open_video_reader(folder / "a.y4m")->format(), (VideoFormat{.width = 1, .height = 1, .rate = {25, 1}}));
}

TEST(Y4m, RedIsRed) {
  EXPECT_THAT(first_pixel("W1 H1 C444", "\x51\x5A\xF0"), ElementsAre(254, 0, 0));
  EXPECT_THAT(first_pixel("W1 H1 C444", "\x3F\x66\xF0", {.matrix = ColorMatrix::kBt709}), ElementsAre(255, 1, 0));
  EXPECT_THAT(first_pixel("W1 H1 C420jpeg XCOLORRANGE=FULL", "\x4C\x55\xFF"), ElementsAre(254, 0, 0));
  EXPECT_THAT(first_pixel("W1 H1 Cmono", "\xEB"), ElementsAre(255, 255, 255));
  EXPECT_THAT(first_pixel("W1 H1 Cmono XCOLORRANGE=FULL", "\xEB"), ElementsAre(235, 235, 235));
  EXPECT_THAT(first_pixel("W1 H1 Cmono", "\xEB", {.range = ColorRange::kFull}), ElementsAre(235, 235, 235));
  EXPECT_THAT(first_pixel("W1 H1 Cmono XCOLORRANGE=FULL", "\xEB", {.range = ColorRange::kLimited}),
              ElementsAre(255, 255, 255));
}

TEST(Y4m, MatrixGoesBySizeUnlessItIsGiven) {
  const std::string red(std::size_t{1280} * 2, '\x3F');
  const std::string rest = std::string(1280, '\x66') + std::string(1280, '\xF0');
  EXPECT_THAT(first_pixel("W1280 H2 C422", red + rest), ElementsAre(255, 1, 0));
}

TEST(Y4m, LinesOfFramesMayHaveParameters) {
  const TempFolder folder;
  write_file_atomically(folder / "a.y4m",
                        "YUV4MPEG2 W1 H1 Cmono\nFRAME Ip\n\x10"
                        "FRAME Xab\n\xEB");
  EXPECT_THAT(frames_of(folder / "a.y4m"), ElementsAre(ElementsAre(0, 0, 0), ElementsAre(255, 255, 255)));
}

TEST(Y4m, SaysWhatIsWrong) {
  EXPECT_EQ(complaint(""), "is empty; expected a YUV4MPEG2 stream");
  EXPECT_EQ(complaint("RIFF\x01zzz"),
            "is no YUV4MPEG2 stream, as ffmpeg -f yuv4mpegpipe writes one: it begins with 'RIFF\\x01zzz'");
  EXPECT_EQ(complaint("YUV4MPEG2 W4\n"), "has no width or no height in its header");
  EXPECT_EQ(complaint("YUV4MPEG2 W-4 H4\n"), "has W-4 in its header, which is no number");
  EXPECT_EQ(complaint("YUV4MPEG2 W4x H4\n"), "has W4x in its header, which is no number");
  EXPECT_EQ(complaint("YUV4MPEG2 W99999999999 H4\n"), "has W99999999999 in its header, which is no number");
  EXPECT_EQ(complaint("YUV4MPEG2 W2000000000 H2000000000\n"),
            "is too large a picture: 2000000000 by 2000000000 pixels, at most 178956970 are read");
  EXPECT_EQ(complaint("YUV4MPEG2 W4 H4 F30\n"), "has the rate F30; expected two numbers");
  EXPECT_EQ(complaint("YUV4MPEG2 W4 H4 It\n"),
            "is interlaced (It); expected whole frames: ffmpeg's filter yadif makes them");
  EXPECT_EQ(complaint("YUV4MPEG2 W4 H4 C420p10\n"),
            "has samples of the kind C420p10; expected 8 bits: 420jpeg, 420mpeg2, 420paldv, 422, 444 or mono, as "
            "ffmpeg -pix_fmt yuv420p writes");
  EXPECT_EQ(complaint("YUV4MPEG2 W1 H1 " + std::string(2000, 'X')), "has a header that does not end: 1000 bytes");

  const std::string header = "YUV4MPEG2 W2 H2 C420jpeg\n";
  EXPECT_EQ(complaint(header + "FRAME\n123456FRAME\n1234"), "ends in the middle of frame 1: 4 of 6 bytes came");
  EXPECT_EQ(complaint(header + "FRAME\n123456FRA"), "ends in the middle of frame 1: 3 bytes of its first line came");
  EXPECT_EQ(complaint(header + "FRAME\n123456789012\n"), "has '78901' where frame 1 begins; expected FRAME");
  EXPECT_EQ(complaint(header + "FRAME\n123456" + header),
            "goes on with another YUV4MPEG2 stream behind frame 0, whose frames may have another size; expected one");
}

TEST(Y4m, WhatIsWrittenIsRead) {
  const TempFolder folder;
  const VideoFormat format{.width = 35, .height = 9, .rate = {24000, 1001}};
  for (const bool full_chroma : {false, true}) {
    const auto writer = open_video_writer(folder / "a.y4m", format, {.full_chroma = full_chroma});
    for (int i = 0; i < 3; ++i)
      writer->write(std::vector<std::uint8_t>(format.frame_bytes(), static_cast<std::uint8_t>(100 * i)));
    EXPECT_FALSE(fs::exists(folder / "a.y4m"));
    writer->finish();
    EXPECT_EQ(open_video_reader(folder / "a.y4m")->format(), format);
    const auto frames = frames_of(folder / "a.y4m");
    ASSERT_EQ(frames.size(), 3U);
    for (int i = 0; i < 3; ++i)
      for (const int byte : frames[static_cast<std::size_t>(i)]) EXPECT_NEAR(byte, 100 * i, 1);
    fs::remove(folder / "a.y4m");
  }
}

TEST(Y4m, RedIsWrittenAsTheStandardsSay) {
  const TempFolder folder;
  const auto bytes = [&](const VideoFormat& format, const VideoWriteOptions& options) {
    std::vector<std::uint8_t> red(format.frame_bytes());
    for (std::size_t i = 0; i < red.size(); i += 3) red[i] = 255;
    const auto writer = open_video_writer(folder / "a.y4m", format, options);
    writer->write(red);
    writer->finish();
    return read_file(folder / "a.y4m");
  };
  EXPECT_EQ(bytes({.width = 2, .height = 2, .rate = {25, 1}}, {}),
            "YUV4MPEG2 W2 H2 F25:1 Ip A1:1 C420jpeg XCOLORRANGE=LIMITED\nFRAME\n\x51\x51\x51\x51\x5A\xF0");
  EXPECT_EQ(bytes({.width = 1, .height = 1, .rate = {25, 1}}, {.matrix = ColorMatrix::kBt709, .full_chroma = true}),
            "YUV4MPEG2 W1 H1 F25:1 Ip A1:1 C444 XCOLORRANGE=LIMITED\nFRAME\n\x3F\x66\xF0");
  EXPECT_EQ(bytes({.width = 2, .height = 2, .rate = {25, 1}}, {.range = ColorRange::kFull}),
            "YUV4MPEG2 W2 H2 F25:1 Ip A1:1 C420jpeg XCOLORRANGE=FULL\nFRAME\n\x4C\x4C\x4C\x4C\x55\xFF");
}

TEST(RawVideo, IsFramesAndNothingElse) {
  const TempFolder folder;
  const VideoFormat format{.width = 2, .height = 1, .rate = {10, 1}};
  const auto writer = open_video_writer(folder / "a.rgb", format);
  writer->write(std::vector<std::uint8_t>{1, 2, 3, 4, 5, 6});
  writer->write(std::vector<std::uint8_t>{7, 8, 9, 10, 11, 12});
  writer->finish();
  EXPECT_EQ(read_file(folder / "a.rgb"), "\x1\x2\x3\x4\x5\x6\x7\x8\x9\xA\xB\xC");
  EXPECT_THAT(frames_of(folder / "a.rgb", {.raw = format}),
              ElementsAre(ElementsAre(1, 2, 3, 4, 5, 6), ElementsAre(7, 8, 9, 10, 11, 12)));
  const VideoFormat larger{.width = 3, .height = 1, .rate = {10, 1}};
  EXPECT_EQ(error_of([&] { (void)frames_of(folder / "a.rgb", {.raw = larger}); }),
            (folder / "a.rgb").string() +
                " ends in the middle of frame 1: 3 of 9 bytes came, 3 by 1 pixels of 3 bytes were expected");
}

TEST(RawVideo, NeedsASizeThatOthersSay) {
  EXPECT_EQ(error_of([] { (void)open_video_reader("a.rgb"); }),
            "a.rgb is raw RGB, which does not say the size of its frames; expected it to be given");
  EXPECT_EQ(error_of([] {
              (void)open_video_reader("a.y4m", {.raw = VideoFormat{1, 1, {1, 1}}});
            }),
            "a.y4m says itself what size its frames are; a size is expected with raw RGB only");
  EXPECT_EQ(error_of([] {
              (void)open_video_reader("a.rgb", {.raw = VideoFormat{0, 1, {1, 1}}});
            }),
            "a.rgb has frames of 0 by 1 pixels; expected 1 by 1 at least");
}

TEST(Video, ContainersGoByNames) {
  EXPECT_EQ(container_of("-"), VideoContainer::kY4m);
  EXPECT_EQ(container_of("a.b.y4m"), VideoContainer::kY4m);
  EXPECT_EQ(container_of("a.rgb"), VideoContainer::kRgb);
  EXPECT_EQ(container_of("a.mp4"), VideoContainer::kFfmpeg);
  EXPECT_EQ(video_container("rgb"), VideoContainer::kRgb);
  EXPECT_EQ(error_of([] { (void)video_container("mp4"); }),
            "'mp4' is no container of videos; expected y4m, rgb or ffmpeg");
}

TEST(Video, SaysWhatCannotBeOpened) {
  EXPECT_EQ(error_of([] { (void)open_video_reader("/none/a.y4m"); }),
            "cannot read /none/a.y4m: No such file or directory");
  EXPECT_EQ(error_of([] {
              (void)open_video_writer("/none/a.y4m", {2, 2, {25, 1}});
            }),
            "cannot write /none/a.y4m: No such file or directory");
  EXPECT_EQ(error_of([] {
              (void)open_video_writer("a.y4m", {2, 2, {0, 1}});
            }),
            "a.y4m has a rate of 0/1 frames a second; expected more than none");
}

/// A named pipe, which open_video_reader() and open_video_writer() open like a file.
TEST(Video, FramesPassThroughAPipeInPieces) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  std::thread feeder([&] {
    const int descriptor = ::open(pipe.c_str(), O_WRONLY);
    const std::string stream = "YUV4MPEG2 W3 H1 Cmono XCOLORRANGE=FULL\nFRAME\nabcFRAME\ndef";
    for (const char byte : stream) EXPECT_EQ(::write(descriptor, &byte, 1), 1);
    ::close(descriptor);
  });
  const auto frames = frames_of(pipe, {.container = VideoContainer::kY4m});
  feeder.join();
  EXPECT_THAT(frames, ElementsAre(ElementsAre('a', 'a', 'a', 'b', 'b', 'b', 'c', 'c', 'c'),
                                  ElementsAre('d', 'd', 'd', 'e', 'e', 'e', 'f', 'f', 'f')));
}

TEST(Video, APipeThatNobodyReadsIsAnErrorRatherThanASignal) {
  const TempFolder folder;
  const std::string pipe = folder / "pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  const int reader = ::open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  const auto writer = open_video_writer(pipe, {2, 2, {25, 1}}, {.container = VideoContainer::kRgb});
  ::close(reader);
  EXPECT_EQ(error_of([&] { writer->write(std::vector<std::uint8_t>(12)); }), "cannot write " + pipe + ": Broken pipe");
}

}  // namespace
}  // namespace headroom
