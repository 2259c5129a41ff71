// `headroom stream` between two programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "measure/results/result.hpp"
#include "media/video/test_video.hpp"
#include "media/video/video.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

constexpr VideoFormat kFormat{.width = 16, .height = 16, .rate = {30, 1}};

class StreamCommandTest : public ProgramTest {
 protected:
  const std::string model_ = (source_dir(kSourceDir) / "tests/goldens/live_stream/three-levels").string();

  [[nodiscard]] Outcome stream(const std::string& arguments) const {
    return headroom("stream " + model_ + " " + arguments);
  }
  /// A video of so many frames of the test picture, in that file.
  void write_video(const std::string& name, std::int64_t frames) const {
    const auto writer = open_video_writer(file(name), kFormat);
    std::vector<std::uint8_t> rgb(kFormat.frame_bytes());
    for (std::int64_t i = 0; i < frames; ++i) {
      draw_test_frame(kFormat, i, rgb);
      writer->write(rgb);
    }
    writer->finish();
  }
  [[nodiscard]] std::vector<std::vector<std::uint8_t>> read_video(const std::string& name) const {
    const auto reader = open_video_reader(file(name));
    EXPECT_EQ(reader->format(), kFormat);
    std::vector<std::vector<std::uint8_t>> frames;
    std::vector<std::uint8_t> rgb(kFormat.frame_bytes());
    while (reader->read(rgb)) frames.push_back(rgb);
    return frames;
  }
};

TEST_F(StreamCommandTest, ReadsAndWritesFilesAndPipesAlike) {
  write_video("in.y4m", 12);
  const Outcome through_files = stream("--input " + file("in.y4m") + " --out " + file("out.y4m"));
  EXPECT_EQ(through_files.code, 0) << through_files.err;
  EXPECT_THAT(through_files.out, HasSubstr("12 frames"));
  EXPECT_EQ(read_video("out.y4m").size(), 12U);
  const Outcome piped = run("cat " + file("in.y4m") + " | " + kHeadroomBinary + " stream " + model_ +
                            " --input - --out - -q > " + file("piped.y4m"));
  EXPECT_EQ(piped.code, 0) << piped.err;
  EXPECT_EQ(read_video("piped.y4m"), read_video("out.y4m"));
}

TEST_F(StreamCommandTest, TakesColoursAsTheOptionsSay) {
  write_video("in.y4m", 4);
  const auto shown = [&](const std::string& options) {
    const Outcome outcome = stream("--input " + file("in.y4m") + " --out " + file("out.y4m") + " " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return read_file(file("out.y4m"));
  };
  const std::string plain = shown("");
  EXPECT_THAT(plain, HasSubstr(" C420jpeg XCOLORRANGE=LIMITED\n"));
  EXPECT_NE(shown("--input-matrix bt709"), plain);
  EXPECT_NE(shown("--input-range full"), plain);
  EXPECT_EQ(shown("--input-matrix bt601 --input-range limited --output-matrix bt601 --output-chroma 420"), plain)
      << "which it is without";
  EXPECT_THAT(shown("--output-matrix bt709 --output-range full --output-chroma 444"),
              HasSubstr(" C444 XCOLORRANGE=FULL\n"));
}

TEST_F(StreamCommandTest, TellsOfARateThatIsGuessedAndOfSound) {
  const Outcome made =
      run("cd " + file("") +
          " && ffmpeg -v error -nostdin -f lavfi -i testsrc=s=16x16:r=1000:d=4 -f lavfi -i sine=d=4 -vf "
          "\"select='lt(mod(n*7919\\,1000)\\,30)',setpts=N*33/TB/1000+mod(N*7\\,11)/TB/1000\" -vsync vfr "
          "-enc_time_base 1/1000 -c:v libvpx -c:a libopus browser.webm");
  if (made.code != 0) GTEST_SKIP() << "there is no program ffmpeg: " << made.err;
  const std::string in = "--input " + file("browser.webm") + " --out null: ";
  const Outcome plain = stream(in);
  EXPECT_EQ(plain.code, 0) << plain.err;
  EXPECT_THAT(plain.err, HasSubstr("browser.webm has no constant rate, and is taken at 30 frames a second"));
  EXPECT_THAT(plain.err, HasSubstr("the sound of " + file("browser.webm") + " is left aside"));
  EXPECT_THAT(plain.out, ContainsRegex("1[12][0-9] frames")) << "not a thousand a second";
  const Outcome given = stream(in + "--input-fps 10");
  EXPECT_THAT(given.err, Not(HasSubstr("constant rate")));
  EXPECT_THAT(given.out, ContainsRegex("(39|40|41) frames"));
  const Outcome paced = stream(in + "--fps 15 --frames 3");
  EXPECT_EQ(paced.code, 0) << paced.err;
  EXPECT_THAT(paced.err, Not(HasSubstr("constant rate")));
}

TEST_F(StreamCommandTest, KeepsWhatEachFrameTookAndJudgesIt) {
  const Outcome missed =
      stream("--input test:16x16@30:120 --out null: --steps 2 --budget 1us --save " + file("s.json"));
  EXPECT_EQ(missed.code, 3) << missed.err;
  EXPECT_THAT(missed.out, HasSubstr("MISSED"));
  const ResultFile results = read_results(file("s.json"));
  ASSERT_EQ(results.results.size(), 1U);
  const Result& result = results.results[0];
  EXPECT_EQ(result.subject.kind, SubjectKind::kStream);
  EXPECT_EQ(result.subject.request.at("steps"), 2);
  ASSERT_TRUE(result.latency.has_value());
  EXPECT_EQ(result.latency->shown, 120);
  EXPECT_EQ(stream("--input test:16x16@30:120 --out null: --budget 1000s").code, 0);
  EXPECT_EQ(stream("--input test:16x16@30:9 --out null: --budget 1000s").code, 4);
  EXPECT_THAT(stream("--input test:16x16@30:1 --out null:").out, ContainsRegex("1 frame, .* -\n"))
      << "one frame has no jitter";
}

TEST_F(StreamCommandTest, WhatWasReadOfABrokenInputIsWrittenAndTheRestReported) {
  write_video("in.y4m", 12);
  const std::string whole = read_file(file("in.y4m"));
  write_file_atomically(file("cut.y4m"), std::string_view(whole).substr(0, whole.size() - 100));
  const Outcome cut = stream("--input " + file("cut.y4m") + " --out " + file("out.y4m"));
  EXPECT_EQ(cut.code, 1);
  EXPECT_THAT(cut.err, HasSubstr("cut.y4m"));
  EXPECT_EQ(read_video("out.y4m").size(), 11U);
  write_file_atomically(file("none.y4m"), std::string_view("YUV4MPEG2 W16"));
  EXPECT_EQ(stream("--input " + file("none.y4m") + " --out " + file("other.y4m")).code, 1);
  EXPECT_FALSE(std::filesystem::exists(file("other.y4m")));
}

TEST_F(StreamCommandTest, EndsWhereNobodyReadsTheOutput) {
  const Outcome outcome =
      run("{ { " + std::string(kHeadroomBinary) + " stream " + model_ +
          " --input test:16x16@30 --out - -q; echo \"code $?\" >&2; } | head -c 5000 > /dev/null; }");
  EXPECT_THAT(outcome.err, HasSubstr("the program that read it has ended"));
  EXPECT_THAT(outcome.err, HasSubstr("code 1"));
}

TEST_F(StreamCommandTest, TakesPromptsAndTheLikeFromAFile) {
  write_file_atomically(file("c.json"), std::string_view(R"({"seed": 5})"));
  write_video("in.y4m", 300);
  const Outcome changed =
      stream("--input " + file("in.y4m") + " --out " + file("a.y4m") + " --control " + file("c.json"));
  EXPECT_EQ(changed.code, 0) << changed.err;
  const Outcome plain = stream("--input " + file("in.y4m") + " --out " + file("b.y4m"));
  EXPECT_NE(read_video("a.y4m"), read_video("b.y4m"));
  write_file_atomically(file("c.json"), std::string_view(R"({"prompt": "x"})"));
  const Outcome refused = stream("--input " + file("in.y4m") + " --out null: --control " + file("c.json"));
  EXPECT_EQ(refused.code, 0);
  EXPECT_THAT(refused.err, HasSubstr("takes no prompt"));
}

TEST_F(StreamCommandTest, OptionsThatChangeNothingAreReported) {
  const std::string made = "--input test:16x16@30:2 --out null: ";
  for (const auto& [option, name] : {std::pair("--strength 0.3", "--strength"),
                                     {"--guidance 2", "--guidance"},
                                     {"--delta 0.5", "--delta"},
                                     {"--negative-prompt x", "--negative-prompt"},
                                     {"--steps 2 --opt lossless,steps=1", "--steps"}}) {
    const Outcome outcome = stream(made + option);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(std::string(name) + " changes nothing: "));
  }
  EXPECT_THAT(stream(made + "--seed 3 --steps 2").err, testing::Not(HasSubstr("changes nothing")));
}

TEST_F(StreamCommandTest, ItsExamplesAreOfAModelThatTakesFrames) {
  EXPECT_THAT(headroom("stream --help").out, testing::AllOf(HasSubstr("Example: headroom stream sd-turbo"),
                                                            testing::Not(HasSubstr("headroom stream FLUX"))));
}

TEST_F(StreamCommandTest, RefusesWhatContradictsItself) {
  const auto refusal = [&](const std::string& arguments) {
    const Outcome outcome = stream(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    return outcome.err;
  };
  EXPECT_THAT(refusal("--input test:16x16@30:5 --out null: --drop --wait"), HasSubstr("contradict"));
  EXPECT_THAT(refusal("--input test:16x16@30:5 --out null: --drop"), HasSubstr("--fps"));
  EXPECT_THAT(refusal("--input test:16@30 --out null:"), HasSubstr("test:WIDTHxHEIGHT@FPS:FRAMES"));
  EXPECT_THAT(refusal("--input test:18x16@30:5 --out null:"), HasSubstr("a multiple of 4"));
  EXPECT_THAT(refusal("--input test:16x16@30:5 --out null: --prompt x"), HasSubstr("reads no prompt"));
  EXPECT_THAT(refusal("--input test:16x16@30:5 --out null: --random-weights 0 --quality 2"),
              HasSubstr("--quality judges trained weights"));
  const std::string made = "--input test:16x16@30:5 --out ";
  for (const char* option :
       {"--strength", "--fps", "--frames", "--seed", "--steps", "--guidance", "--delta", "--quality"})
    for (const char* value : {"nan", "-1", "1e20", "inf"})
      EXPECT_THAT(refusal(made + "null: " + option + "=" + value), HasSubstr(option)) << value;
  EXPECT_THAT(refusal(made + "null: --width 16 --height 16"), HasSubstr("--width is for an rgb input"));
  EXPECT_THAT(refusal(made + "null: --input-matrix bt601"),
              HasSubstr("--input-matrix is for videos of luma and colour differences"));
  EXPECT_THAT(refusal(made + "null: --input-fps 30"), HasSubstr("--input-fps is for what FFmpeg reads"));
  for (const char* const rate : {"nan", "0", "-1", "inf", "1e9"})
    EXPECT_THAT(refusal(std::string("--input a.mp4 --out null: --input-fps ") + rate), HasSubstr("--input-fps"))
        << rate;
  EXPECT_THAT(refusal(made + "a.rgb --output-range full"), HasSubstr("and a.rgb is rgb"));
  EXPECT_THAT(refusal(made + "a.y4m --output-range half"), HasSubstr("'half' is no range of colours"));
  EXPECT_THAT(refusal(made + "a.mkv --output-chroma 444"), HasSubstr("--output-chroma is for y4m"));
  EXPECT_THAT(refusal(made + "a.y4m --encoder libx264"), HasSubstr("--encoder is for what FFmpeg writes, and a.y4m"));
  EXPECT_THAT(refusal(made + "- --encoder-quality 20"), HasSubstr("--encoder-quality is for what FFmpeg writes"));
  EXPECT_THAT(refusal(made + "a.mkv --encoder-quality 52"), HasSubstr("52"));
}

}  // namespace
}  // namespace headroom
