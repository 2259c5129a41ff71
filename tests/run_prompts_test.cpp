// `headroom run` on whole pipelines, as a user meets it: prompts to PNGs, PNGs to requests, many requests in one process.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "media/png.hpp"
#include "media/read_image.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

class RunPromptsTest : public ProgramTest {
 protected:
  static std::string golden(const char* name) {
    return (fs::path(kSourceDir) / "tests/goldens/pipelines" / name).string();
  }
  fs::path file(const std::string& name) const { return folder() / name; }
  [[nodiscard]] nlohmann::json text_of(const std::string& name) const {
    return parse_json(read_png_text(file(name)).at("headroom"), name);
  }
  /// Runs a small request with these options added.
  [[nodiscard]] Outcome run(const std::string& arguments) const {
    return headroom("run " + arguments + " --quiet --steps 1 --device cpu");
  }
  void expect_error(const std::string& arguments, int code,
                    const testing::Matcher<const std::string&>& sentence) const {
    const Outcome outcome = run(arguments + " --out " + file("none.png").string());
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, sentence) << arguments;
    EXPECT_FALSE(fs::exists(file("none.png"))) << arguments;
  }
  /// The answers to lines of requests.
  [[nodiscard]] std::vector<nlohmann::json> serve(const std::string& lines) const { return serve(schnell_, lines); }
  [[nodiscard]] std::vector<nlohmann::json> serve(const std::string& model, const std::string& lines) const {
    write_file_atomically(file("requests.jsonl"), lines);
    const Outcome outcome = run(model + " --prompts - < " + file("requests.jsonl").string());
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<nlohmann::json> answers;
    std::istringstream out(outcome.out);
    for (std::string line; std::getline(out, line);) answers.push_back(parse_json(line, "answer"));
    return answers;
  }

  std::string schnell_ = golden("flux-schnell");
};

TEST_F(RunPromptsTest, APngHoldsItsRequestAndIsMadeAgain) {
  const std::string first = file("fox.png").string(), again = file("again.png").string();
  ASSERT_EQ(run(schnell_ + " --prompt 'a réd fox' --seed 7 --height 32 --width 48 --opt lossless --out " + first).code,
            0);
  const Image image = read_image(first);
  EXPECT_EQ(image.width, 48);
  EXPECT_EQ(image.height, 32);
  const nlohmann::json request = text_of("fox.png");
  EXPECT_EQ(request.at("prompt"), "a réd fox");
  EXPECT_EQ(request.at("seed"), 7);
  EXPECT_EQ(request.at("model"), "flux-schnell");
  EXPECT_THAT(request.at("switches").get<std::string>(), HasSubstr("flash"));
  const Outcome outcome = headroom("run " + schnell_ + " --quiet --device cpu --like " + first + " --out " + again);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(read_image(again), image) << "one step and all else is in the file";
  ASSERT_EQ(run(schnell_ + " --like " + first + " --seed 8 --out " + again).code, 0);
  EXPECT_NE(read_image(again), image) << "what is given wins";
  EXPECT_EQ(text_of("again.png").at("seed"), 8);
  EXPECT_EQ(text_of("again.png").at("prompt"), "a réd fox");
}

TEST_F(RunPromptsTest, SeveralPromptsAreNumbered) {
  write_file_atomically(file("prompts.txt"), "a fox\r\n\na hare\n");
  const Outcome outcome =
      run(schnell_ + " --prompts " + file("prompts.txt").string() +
          " --per-prompt 2 --height 32 --width 32 --batch 3 --json --out " + file("x.png").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(parse_json(outcome.out, "summary").at("out").size(), 4U);
  const char* const prompts[] = {"a fox", "a hare", "a fox", "a hare"};
  for (int i = 0; i < 4; ++i) {
    const nlohmann::json request = text_of("x-" + std::to_string(i + 1) + ".png");
    EXPECT_EQ(request.at("prompt"), prompts[i]);
    EXPECT_EQ(request.at("seed"), i);
  }
}

TEST_F(RunPromptsTest, OneProcessAnswersManyRequests) {
  const auto line = [&](const std::string& rest, const char* out) {
    return "{\"out\": \"" + file(out).string() + "\", " + rest + "}\n";
  };
  const std::vector<nlohmann::json> answers =
      serve(line(R"("id": "a", "prompt": "a fox", "height": 32, "width": 32, "seed": 3)", "a.png") + "\n" +
            line(R"("id": "b", "prompt": "a fox", "height": 8)", "b.png") + "no json\n" +
            line(R"("prompt": "a fox", "height": 32, "width": 32, "seed": 3, "promt": "")", "c.png") +
            line(R"("id": "d", "prompt": "a fox", "height": 32, "width": 32, "seed": 3)", "d.png") +
            "{\"prompt\": \"a fox\", \"out\": \"/nonexistent/e.png\"}\n{\"prompt\": \"a fox\"}\n");
  ASSERT_EQ(answers.size(), 7U);
  EXPECT_EQ(answers[0].at("id"), "a");
  EXPECT_EQ(answers[0].at("stages").at(0).at("name"), "tokenize");
  EXPECT_THAT(answers[1].at("error").get<std::string>(), HasSubstr("--height is 8, expected a multiple of 16"));
  EXPECT_EQ(answers[1].at("id"), "b");
  EXPECT_THAT(answers[2].at("error").get<std::string>(), HasSubstr("line 4 of the input"));
  EXPECT_THAT(answers[3].at("error").get<std::string>(), HasSubstr("did you mean 'prompt'?"));
  EXPECT_EQ(answers[4].at("stages").at(0).at("name"), "inputs") << "the prompt was read before";
  EXPECT_THAT(answers[5].at("error").get<std::string>(), HasSubstr("/nonexistent"));
  EXPECT_THAT(answers[6].at("error").get<std::string>(), HasSubstr("out"));
  EXPECT_EQ(read_image(file("a.png")), read_image(file("d.png"))) << "equal requests";
  for (const char* name : {"b.png", "c.png"}) EXPECT_FALSE(fs::exists(file(name)));
}

/// Whatever a request is, the ones around it are answered, each answer is JSON, and the program ends well.
TEST_F(RunPromptsTest, OneRequestNeverCostsAnother) {
  const auto good = [&](const char* out) {
    return R"({"id": "good", "prompt": "a fox", "height": 32, "width": 32, "out": ")" + file(out).string() + "\"}\n";
  };
  write_file_atomically(file("x.png"), "an old file");
  ASSERT_EQ(mkfifo(file("pipe.png").c_str(), 0600), 0);
  ASSERT_EQ(mkfifo(file("pipe").c_str(), 0600), 0);
  fs::create_symlink("loop.png", file("loop.png"));
  fs::create_symlink("/dev/zero", file("zero"));
  const std::string long_text = [] {
    std::string text = "x";
    for (int i = 0; i < 100; ++i) text += "\xC3\xA9";  // any cut at an even place is within a character
    return text;
  }();
  const std::string out = file("bad.png").string(), folder = file("").string();
  const auto bad = [&](const std::string& rest) {
    return R"({"prompt": "a fox", "out": ")" + out + "\", " + rest + "}";
  };
  const std::vector<std::pair<std::string, std::string>> requests = {
      {bad(R"("height": ")" + long_text + "\""), "a 64-bit integer was expected"},
      {bad(R"("height": ")" + long_text.substr(1) + "\""), "a 64-bit integer was expected"},
      {bad(R"("guidance": ")" + long_text + "\""), "a number was expected"},
      {bad("\"" + long_text + "\": 1"), "unknown key"},
      {bad(R"("\u007f\u202e": 1)"), "unknown key"},
      {R"({"prompt": "a fox", "out": ")" + folder + R"(x.png\u0000.png"})", "holds no NUL byte"},
      {R"({"prompt": "a fox", "out": "\u0000.png"})", "holds no NUL byte"},
      {bad(R"("image": ")" + folder + R"(x.png\u0000")"), "edits no images"},
      {bad(R"("noise": "a\u0000b")"), "NUL byte"},
      {bad(R"("loras": [{"file": "a\u0000b"}])"), "NUL byte"},
      {R"({"prompt": "a fox", "out": ")" + folder + R"(pipe.png"})", "expected a new file or a regular one"},
      {R"({"prompt": "a fox", "out": ")" + folder + R"(loop.png"})", "loop.png"},
      {R"({"prompt": "a fox", "out": ")" + std::string(5000, 'a') + R"(.png"})", "File name too long"},
      {bad(R"("image": ")" + folder + R"(pipe")"), "expected a regular file"},
      {bad(R"("noise": ")" + folder + R"(zero")"), "expected a regular file"},
      {bad(R"("loras": [{"file": ")" + folder + R"(pipe"}])"), "expected a regular file"},
      {bad(R"("prompt_2": ")" + std::string(std::size_t{1} << 20, 'x') + "\""), "is longer than 1048576 bytes"},
      {std::string(std::size_t{3} << 20, '['), "is longer than 1048576 bytes"},
      {std::string(std::size_t{1} << 20, '['), "is nested deeper than 100 levels"},
      {std::string("{\"a\0\": 1}", 10), "it holds a NUL byte"},
      {"\xFF\xFE{}", "is not valid JSON"},
      {"null", "expected a JSON object"},
      {bad(R"("seed": 18446744073709551616)"), "seed"},
      {bad(R"("strength": 1e999)"), "not valid JSON"}};
  std::string lines = good("first.png");
  for (const auto& [request, reason] : requests) lines += request + "\n";
  lines += good("last.png");
  const std::vector<nlohmann::json> answers = serve(lines);
  ASSERT_EQ(answers.size(), requests.size() + 2);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_THAT(answers[i + 1].at("error").get<std::string>(), HasSubstr(requests[i].second))
        << requests[i].first.substr(0, 100);
  EXPECT_TRUE(answers.front().contains("out"));
  EXPECT_TRUE(answers.back().contains("out")) << answers.back();
  EXPECT_EQ(read_image(file("first.png")), read_image(file("last.png")));
  EXPECT_FALSE(fs::exists(out));
  EXPECT_EQ(read_file(file("x.png")), "an old file");
}

TEST_F(RunPromptsTest, LorasAreOfARequest) {
  const std::string dev = golden("flux-dev"), loras = std::string(kSourceDir) + "/tests/goldens/lora/";
  const std::string small = " --prompt 'a fox' --height 32 --width 32 --out ";
  const auto out = [&](const char* name) { return file(name).string(); };
  ASSERT_EQ(run(dev + small + out("plain.png")).code, 0);
  const Outcome outcome = run(dev + " --lora " + loras + "peft.safetensors:0.75 --lora " + loras +
                              "kohya.safetensors:-0.5" + small + out("two.png"));
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_NE(read_image(out("two.png")), read_image(out("plain.png")));
  EXPECT_EQ(text_of("two.png").at("loras").at(1).at("weight"), -0.5);
  EXPECT_FALSE(text_of("plain.png").contains("loras"));
  ASSERT_EQ(run(dev + " --like " + out("two.png") + " --out " + out("again.png")).code, 0);
  EXPECT_EQ(read_image(out("again.png")), read_image(out("two.png")));

  const auto line = [&](const std::string& rest, const char* name) {
    return R"({"prompt": "a fox", "height": 32, "width": 32, "out": ")" + out(name) + "\"" + rest + "}\n";
  };
  const std::string two = R"(, "loras": [{"file": ")" + loras + R"(peft.safetensors", "weight": 0.75}, {"file": ")" +
                          loras + R"(kohya.safetensors", "weight": -0.5}])";
  const std::vector<nlohmann::json> answers =
      serve(dev, line("", "a.png") + line(two, "b.png") + line(two, "c.png") + line("", "d.png") +
                     line(R"(, "loras": [{"file": "/nonexistent.safetensors"}])", "e.png"));
  ASSERT_EQ(answers.size(), 5U);
  const char* const first_stages[] = {"tokenize", "lora", "inputs", "lora"};  // the same again costs nothing
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(answers[i].at("stages").at(0).at("name"), first_stages[i]) << i;
  for (const char* name : {"b.png", "c.png"}) EXPECT_EQ(read_image(out(name)), read_image(out("two.png"))) << name;
  for (const char* name : {"a.png", "d.png"}) EXPECT_EQ(read_image(out(name)), read_image(out("plain.png"))) << name;
  EXPECT_THAT(answers[4].at("error").get<std::string>(), HasSubstr("/nonexistent.safetensors"));

  write_file_atomically(file("bad.safetensors"), "no tensors");
  expect_error(dev + " --prompt x --lora " + out("bad.safetensors"), 1, HasSubstr("bad.safetensors"));
  expect_error(dev + " --prompt x --lora a.safetensors:x", 2, HasSubstr("--lora a.safetensors:x: expected FILE"));
  expect_error(schnell_ + " --prompt x --lora " + loras + "peft.safetensors", 1,
               AllOf(HasSubstr("peft.safetensors: tensor"), HasSubstr("expected")));
}

TEST_F(RunPromptsTest, AnImageIsEditedInTheSizeThatTheModelLikes) {
  const std::string in = file("in.png").string(), out = file("out.png").string();
  write_png(in, make_image(61, 47, 3));
  const std::string kontext = golden("flux-kontext");
  // The whole size is a second's work and more: the shape alone is asked for, of the size there is.
  ASSERT_EQ(run(kontext + " --prompt 'make it blue' --image " + in + " --height 64 --width 64 --out " + out).code, 0);
  EXPECT_EQ(read_image(out).width, 1024);
  EXPECT_EQ(text_of("out.png").at("image"), in);
  write_file_atomically(file("bad.png"), "no image");
  expect_error(kontext + " --prompt x --image " + file("bad.png").string(), 1, HasSubstr("bad.png"));
  write_png(in, make_image(61, 8, 3));
  expect_error(kontext + " --prompt x --image " + in, 2, HasSubstr("61 x 8 pixels, expected at least 16 x 16"));
  write_png(in, make_image(32, 32, 3));
  expect_error(schnell_ + " --prompt x --image " + in, 2, HasSubstr("edits no images"));
}

/// A file with all networks of a folder, and with what its tokens and sizes do not tell: the PNG is the folder's.
TEST_F(RunPromptsTest, AFileMakesTheSamePngAsItsFolder) {
  const std::string folder = golden("sd-1.5");
  const std::string single = (fs::path(kSourceDir) / "tests/goldens/single_files/sd-1.5.safetensors").string();
  const std::string request = " --prompt fox --seed 7 --height 32 --width 32 --out ";
  const std::string options = " --part tokenizer=" + folder +
                              "/tokenizer --config attention_head_dim=2 --config norm_num_groups=4 --config "
                              "vae.norm_num_groups=4 --config text_encoder.num_attention_heads=2";
  ASSERT_EQ(run(folder + request + file("folder.png").string()).code, 0);
  const Outcome made = run(single + options + request + file("file.png").string());
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_EQ(read_file(file("file.png")), read_file(file("folder.png")));
  expect_error(single + " --prompt x", 1,
               HasSubstr("lacks 1 part of a StableDiffusionPipeline: tokenizer (CLIPTokeniz"));
  expect_error(single + options + " --part vea=x --prompt x", 2,
               HasSubstr("--part vea: a StableDiffusionPipeline has no"));
  expect_error(single + options + " --part vae --prompt x", 2, HasSubstr("--part is 'vae', expected PART=PATH"));
  expect_error(single + options + " --config vae.width=3 --prompt x", 2, HasSubstr("AutoencoderKL has no such value"));
}

TEST_F(RunPromptsTest, BadRequestsAreOneSentence) {
  expect_error(schnell_, 2, HasSubstr("has no labels and needs a prompt: give --prompt TEXT"));
  expect_error(schnell_ + " --prompt x --height 8", 2, HasSubstr("--height is 8, expected a multiple of 16"));
  expect_error(schnell_ + " --prompt x --height 100000", 2, HasSubstr("16384"));
  expect_error(schnell_ + " --prompt x --text-tokens 513", 2, HasSubstr("text tokens is 513, expected 1 to 512"));
  expect_error(schnell_ + " --prompt '\xff'", 1, HasSubstr("UTF-8"));
  expect_error(schnell_ + " --prompts /nonexistent.txt", 1, HasSubstr("cannot read /nonexistent.txt"));
  expect_error(golden("flux-schnell") + "/transformer --prompt x", 1, HasSubstr("lacks 6 parts of a FluxPipeline: "));
  write_png(file("plain.png"), make_image(16, 16, 3));
  expect_error(schnell_ + " --like " + file("plain.png").string(), 1, HasSubstr("does not say how it was made"));
  write_file_atomically(file("noise.safetensors"), "no tensors");
  expect_error(schnell_ + " --prompt x --noise " + file("noise.safetensors").string(), 1,
               HasSubstr("noise.safetensors"));
}

/// 100,000 words are cut to what the encoders read.
TEST_F(RunPromptsTest, ALongPromptIsCut) {
  std::string words;
  for (int i = 0; i < 100'000; ++i) words += "fox ";
  write_file_atomically(file("long.txt"), words);
  const Outcome outcome = headroom("run " + schnell_ + " --prompts " + file("long.txt").string() +
                                   " --height 32 --width 32 --steps 1 --device cpu --out " + file("long.png").string());
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(fs::exists(file("long.png")));
  EXPECT_THAT(outcome.err,
              AllOf(HasSubstr("text_encoder reads 77 of the "), HasSubstr("text_encoder_2 reads 256 of the ")));

  const nlohmann::json request = {
      {"prompt", words.substr(0, 200)}, {"height", 32}, {"width", 32}, {"out", file("served.png").string()}};
  const nlohmann::json notes = serve(request.dump() + '\n').at(0).at("notes");
  ASSERT_EQ(notes.size(), 1U) << "T5 reads them all: " << notes;
  EXPECT_THAT(notes[0].get<std::string>(), HasSubstr("text_encoder reads 77 of the "));
}

/// A picture of one label holds its request, by its prompt or, as served, by its label; a grid of several holds none.
TEST_F(RunPromptsTest, PicturesOfLabelsAreMadeAgain) {
  const auto out = [&](const std::string& name) { return file(name).string(); };
  const std::string model = (fs::path(kSourceDir) / "models/fashion-flux-turbo").string();
  ASSERT_EQ(run(model + " --labels 7 --seed 3 --out " + out("label.png")).code, 0);
  ASSERT_EQ(run(model + " --like " + out("label.png") + " --out " + out("again.png")).code, 0);
  EXPECT_EQ(read_image(out("again.png")), read_image(out("label.png")));
  const nlohmann::json request = {{"label", 7}, {"seed", 3}, {"out", out("served.png")}};
  EXPECT_FALSE(serve(model, request.dump() + '\n').at(0).contains("error"));
  ASSERT_EQ(run(model + " --like " + out("served.png") + " --out " + out("again.png")).code, 0);
  EXPECT_EQ(read_image(out("again.png")), read_image(out("served.png")));
  ASSERT_EQ(run(model + " --labels 7,8 --out " + out("grid.png")).code, 0);
  expect_error(model + " --like " + out("grid.png"), 1, HasSubstr("grids of its --labels do not"));
}

TEST_F(RunPromptsTest, ALabelNextToAPromptIsReported) {
  const nlohmann::json request = {
      {"prompt", "a fox"}, {"label", 4}, {"height", 32}, {"width", 32}, {"out", file("served.png").string()}};
  EXPECT_EQ(serve(request.dump() + '\n').at(0).at("notes"),
            nlohmann::json({"label changes nothing: the prompt is used"}));
}

TEST_F(RunPromptsTest, ARequestSaysWhatToMake) {
  const nlohmann::json request = {{"label", 3}, {"height", 32}, {"width", 32}, {"out", file("served.png").string()}};
  EXPECT_THAT(serve(request.dump() + '\n').at(0).at("error").get<std::string>(),
              HasSubstr("has no labels and needs a prompt"));
}

TEST_F(RunPromptsTest, ATextThatIsNotUtf8IsNamedWithItsOwnByte) {
  const std::string qwen = (fs::path(kSourceDir) / "tests/goldens/pipelines/qwen-image").string();  // has a template
  expect_error(qwen + " --prompt 'bad \xff'", 1, HasSubstr("the prompt is not UTF-8: byte 4 of it is 0xff"));
  expect_error(qwen + " --prompt x --negative-prompt '\xff'", 1,
               HasSubstr("the negative prompt is not UTF-8: byte 0 of it"));
}

TEST_F(RunPromptsTest, NothingIsLeftWhereThereIsNoRoom) {
  const Outcome outcome = run(schnell_ + " --prompt x --height 32 --width 32 --out /dev/full/x.png");
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, HasSubstr("/dev/full/x.png"));
}

}  // namespace
}  // namespace headroom
