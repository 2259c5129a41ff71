// What people type: the order of arguments, names of other programs, switches that have no effect, standard output, and where models lie.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "measure/results/result.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

class OptionsTest : public ProgramTest {
 protected:
  OptionsTest() {
    setenv("XDG_CACHE_HOME", file("cache").c_str(), 1);
    setenv("HF_HOME", file("hf").c_str(), 1);
    unsetenv("HF_HUB_CACHE");
  }
  ~OptionsTest() override { unsetenv("HF_HOME"); }

  static std::string source(const std::string& path) { return (fs::path(kSourceDir) / path).string(); }
  [[nodiscard]] std::string out(const std::string& name) const { return " --out " + file(name); }

  /// A folder as the hub's cache has it: files are links into `blobs`.
  [[nodiscard]] fs::path add_to_hub_cache(const std::string& model, const fs::path& checkpoint) const {
    const fs::path root = fs::path(file("hf")) / "hub" / model;
    const fs::path snapshot = root / "snapshots" / "0123abc";
    fs::create_directories(snapshot);
    fs::create_directories(root / "blobs");
    fs::create_directories(root / "refs");
    write_file_atomically(root / "refs/main", "0123abc");
    for (const auto& entry : fs::directory_iterator(checkpoint)) {
      const fs::path name = entry.path().filename();
      fs::copy(entry.path(), root / "blobs" / name);
      fs::create_symlink("../../blobs/" + name.string(), snapshot / name);
    }
    return root;
  }

  std::string fashion_ = source("models/fashion-flux");
  std::string tiny_ = source("tests/goldens/flux/tiny-guidance");
  std::string small_ = " --token-rows 2 --token-columns 2 ";
};

TEST_F(OptionsTest, TheSchemaOfResultsNeedsNoResults) {
  const Outcome schema = headroom("report --schema");
  EXPECT_EQ(schema.code, 0) << schema.err;
  EXPECT_EQ(parse_json(schema.out, "stdout"), read_json(source("docs/result.schema.json")));
}

TEST_F(OptionsTest, TheModelMayFollowAnyOption) {
  const Outcome drawn = headroom("run --prompt boot " + fashion_ + " --steps 1 -q" + out("boot.png"));
  EXPECT_EQ(drawn.code, 0) << drawn.err;
  EXPECT_TRUE(fs::exists(file("boot.png")));
  const Outcome charts = headroom("report --format svg " + source("docs/result.example.json") + " -q" + out("charts"));
  EXPECT_EQ(charts.code, 0) << charts.err;
  EXPECT_TRUE(fs::exists(file("charts") + "/performance_dashboard.html"));
  const Outcome lora = headroom("run --lora no-such.safetensors " + fashion_ + " --steps 1" + out("x.png"));
  EXPECT_EQ(lora.code, 1);
  EXPECT_THAT(lora.err, AllOf(HasSubstr("no-such.safetensors"), Not(HasSubstr("missing"))));
}

TEST_F(OptionsTest, AnUnquotedPromptIsNoListOfPrompts) {
  for (const std::string& arguments : {"run " + fashion_ + " --prompt an ankle boot --steps 1" + out("u.png"),
                                       "run --prompt an ankle boot " + fashion_ + " --steps 1" + out("u.png")}) {
    const Outcome outcome = headroom(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("--prompt takes one value: quote a text of several words"));
  }
  EXPECT_FALSE(fs::exists(file("u.png")) || fs::exists(file("u-1.png")));
}

TEST_F(OptionsTest, FormerNamesAreTakenWithANote) {
  const std::string bench = "bench " + tiny_ + " --token-rows 4 --trials 2";
  const Outcome reply = headroom(bench + " --save " + file("r.json"));
  EXPECT_EQ(reply.code, 0) << reply.err;
  EXPECT_THAT(reply.err, HasSubstr("--save is called --out now"));
  EXPECT_EQ(read_results(file("r.json")).results.size(), 1U);
  EXPECT_THAT(headroom(bench + " -q --save " + file("q.json")).err, Not(HasSubstr("--save")));
  EXPECT_THAT(headroom("bench --help").out, Not(HasSubstr("--save "))) << "which the help does not show";
}

TEST_F(OptionsTest, HelpNamesNothingThatTheCommandRefuses) {
  for (const std::string command : {"stream", "convert", "calibrate"})
    EXPECT_THAT(headroom(command + " --help").out, AllOf(HasSubstr("lossless"), Not(HasSubstr("fast, auto"))));
  EXPECT_THAT(headroom("run --help").out, HasSubstr("auto"));
  EXPECT_THAT(headroom("forward --help").out, HasSubstr("U-Net: sample"));
}

TEST_F(OptionsTest, NamesOfOtherProgramsAreReportedWithOurs) {
  const auto expect_hint = [&](const std::string& arguments, const std::string& hint) {
    const Outcome outcome = headroom(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("did you mean '" + hint + "'?")) << arguments;
  };
  expect_hint("run m --num-inference-steps 4", "--steps");
  expect_hint("run m --cfg-scale 4", "--guidance");
  expect_hint("run m -o x.png", "--out");
  expect_hint("run m --sampling-method euler", "--opt sampler=NAME");
  expect_hint("help", "headroom --help");
  expect_hint("help run", "headroom --help");
  expect_hint("version", "headroom --version");
}

TEST_F(OptionsTest, AForgottenModelIsCalledMissing) {
  for (const char* command : {"run", "bench --opt fast", "bench", "plan --opt fast", "ladder"}) {
    const Outcome outcome = headroom(command);
    EXPECT_EQ(outcome.code, 2) << command;
    EXPECT_THAT(outcome.err, StartsWith("headroom: MODEL is missing: ")) << command;
  }
}

TEST_F(OptionsTest, QuietDoesNotHideASwitchThatWasNamedAndDeclined) {
  const std::string run = "run " + fashion_ + " --labels 0 --steps 1 --device cpu";
  const Outcome quiet = headroom(run + " -q --opt fp8" + out("a.png"));
  EXPECT_EQ(quiet.code, 0);
  EXPECT_THAT(quiet.err, StartsWith("warning: switch fp8 declined: "));
  const Outcome strict = headroom(run + " -q --strict --opt fp8" + out("b.png"));
  EXPECT_EQ(strict.code, 1);
  EXPECT_THAT(strict.err, StartsWith("headroom: --strict: switch fp8 declined: "));
  EXPECT_FALSE(fs::exists(file("b.png")));
  EXPECT_THAT(headroom(run + out("c.png")).err, Not(HasSubstr("declined"))) << "of a preset that nobody asked for";
  EXPECT_THAT(headroom(run + " --opt lossless" + out("c.png")).err, HasSubstr("switch tile declined"));
  EXPECT_EQ(headroom(run + " --strict --opt lossless -q" + out("c.png")).code, 0) << "tile is not named";
}

TEST_F(OptionsTest, StrictIsAnErrorInEachCommandWhereASwitchDeclines) {
  const std::string cpu = " --device cpu -q --strict --opt fp8";
  for (const std::string& command :
       {"run " + fashion_ + " --labels 0 --steps 1" + out("x.png"),
        "forward " + tiny_ + " --inputs " + tiny_ + "/golden.safetensors" + out("x.safetensors"),
        "bench " + tiny_ + small_ + "--trials 2", "bench " + tiny_ + small_ + "--trials 2 --processes 1",
        "bench " + tiny_ + small_ + "--trials 2 --pass request", "plan " + tiny_ + small_,
        "profile " + tiny_ + small_ + "--steps 1 --trials 3",
        "ladder " + tiny_ + small_ + "--batch 1 --steps 1 --trials 3 --rounds 2 --max-rounds 2",
        "sweep " + tiny_ + " --steps 1 --trials 3" + out("sweep.json"),
        "calibrate " + fashion_ + " --images 1 --probe-images 1 --steps 3" + out("m.json"),
        "stream " + source("tests/goldens/live_stream/three-levels") + " --input test:16x16@30:2 --out null:"}) {
    const Outcome outcome = headroom(command + cpu);
    EXPECT_EQ(outcome.code, 1) << command << "\n" << outcome.err;
    EXPECT_THAT(outcome.err, AllOf(HasSubstr("--strict: "), HasSubstr("fp8 declined"))) << command;
  }
}

TEST_F(OptionsTest, StrictIsAnErrorWhereAnOptionChangesNothing) {
  const std::string run = "run " + source("tests/goldens/pipelines/sd-1.5") +
                          " --prompt x --steps 1 --height 32 --width 32 -q" + out("x.png");
  for (const char* option : {" --negative-prompt blurry --guidance 1", " --prompt-2 y"}) {
    const Outcome reply = headroom(run + option);
    EXPECT_EQ(reply.code, 0) << reply.err;
    EXPECT_THAT(reply.err, AllOf(StartsWith("warning: --"), HasSubstr(" changes nothing: ")));
    const Outcome strict = headroom(run + " --strict" + option);
    EXPECT_EQ(strict.code, 1);
    EXPECT_THAT(strict.err, AllOf(StartsWith("headroom: --strict: --"), HasSubstr(" changes nothing: ")));
  }
}

TEST_F(OptionsTest, AnOptionThatAPassDoesNotReadIsReported) {
  const auto golden = [](const char* name) { return source("tests/goldens/pipelines/") + name; };
  const std::string model = golden("sd-1.5");
  struct Case {
    const char *name, *options, *said;
  };
  for (const auto& [name, options, said] :
       {Case{"sd-1.5", "--pass decode --text-tokens 9", "--text-tokens changes nothing: decode reads no text"},
        {"sd-1.5", "--pass decode --batch 4", "--batch changes nothing: a request runs its decode once for each image"},
        {"sd-1.5", "--pass text_encoder --height 64", "--height changes nothing: text_encoder reads text alone"},
        {"flux-dev", "--pass text_encoder --text-tokens 9",
         "--text-tokens changes nothing: text_encoder always reads 77 tokens"},
        {"sd-1.5", "--pass frame --token-rows 8",
         "--token-rows changes nothing: the size of a frame is given in pixels"}}) {
    const Outcome bench = headroom("bench " + golden(name) + " --trials 2 -q " + options);
    EXPECT_EQ(bench.code, 2) << options;
    EXPECT_THAT(bench.err, HasSubstr(said));
    EXPECT_THAT(headroom("plan " + golden(name) + " -q " + options).err, HasSubstr(said)) << options;
  }
  for (const char* command : {"plan", "doctor --quick"})
    EXPECT_THAT(headroom(std::string(command) + " " + model + " --pass decode --steps 3 -q").err,
                HasSubstr("--steps changes nothing: it is for whole requests, and this is one pass"))
        << command;
}

TEST_F(OptionsTest, APictureOfAReportIsAskedForWithItsOptions) {
  const std::string report = "report " + source("docs/result.example.json") + out("r") + " -q ";
  for (const char* options : {"--format html --no-titles", "--format csv --no-notes", "--format html,md --width 8cm"}) {
    const Outcome outcome = headroom(report + options);
    EXPECT_EQ(outcome.code, 2) << options;
    EXPECT_THAT(outcome.err, HasSubstr("would change nothing: it is for png, svg and pdf")) << options;
  }
}

TEST_F(OptionsTest, ARequestIsHeldToStrictByItself) {
  const std::string run = "run " + source("tests/goldens/pipelines/sd-1.5") + " --prompts - --device cpu -q";
  write_file_atomically(
      file("requests"),
      R"({"prompt": "x", "prompt_2": "y", "height": 32, "width": 32, "steps": 1, "out": ")" + file("x.png") + "\"}\n");
  const Outcome reply = headroom(run + " < " + file("requests"));
  EXPECT_THAT(parse_json(reply.out, "answer")["notes"].dump(), HasSubstr("prompt_2 changes nothing: "));
  const Outcome strict = headroom(run + " --strict < " + file("requests"));
  EXPECT_EQ(strict.code, 0) << "which ends no server";
  EXPECT_THAT(parse_json(strict.out, "answer")["error"].dump(), HasSubstr("--strict: prompt_2 changes nothing: "));
}

TEST_F(OptionsTest, APictureGoesToStandardOutput) {
  const std::string run = "run " + fashion_ + " --prompt boot --seed 3 --steps 1 -q";
  ASSERT_EQ(headroom(run + out("boot.png")).code, 0);
  const Outcome piped = headroom(run + " --out -");
  EXPECT_EQ(piped.out, read_file(file("boot.png")));
  EXPECT_THAT(piped.err, HasSubstr("1 image in 1 step of ")) << "since standard output is the picture's";
  ASSERT_EQ(headroom(run + " --out - > " + file("redirected.png")).code, 0);
  EXPECT_EQ(read_file(file("redirected.png")), piped.out);
  const Outcome two = headroom(run + " --prompt hat --out -");
  EXPECT_EQ(two.out, "");
  EXPECT_THAT(two.err, HasSubstr("--out - writes one picture, and 2 were asked for"));
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(OptionsTest, OtherResultsGoToStandardOutputWhereTheyAreFiles) {
  const std::string forward = "forward " + tiny_ + " -q --inputs " + tiny_ + "/golden.safetensors";
  ASSERT_EQ(headroom(forward + out("sample.safetensors")).code, 0);
  EXPECT_EQ(headroom(forward + " --out -").out, read_file(file("sample.safetensors")));
  const Outcome timed = headroom("bench " + tiny_ + small_ + "--trials 2 -q --out -");
  EXPECT_EQ(parse_json(timed.out, "stdout")["schema"], "headroom.result/1");
  const Outcome judged = headroom("bench " + tiny_ + small_ + "--trials 2 -q --processes 1 --out -");
  EXPECT_EQ(parse_json(judged.out, "stdout")["schema"], "headroom.result/1");
  for (const char* command :
       {"bench m --out - --format csv", "profile m --out - --format md", "compare a b --out - --format text"})
    EXPECT_THAT(headroom(command).err, HasSubstr("--out - prints the JSON of the result file, and --format "))
        << command;
  for (const char* command : {"ladder m --out -", "report r --out -", "convert m --out -"})
    EXPECT_THAT(headroom(command).err, HasSubstr("'-' is standard output; what can be written: a folder")) << command;
  EXPECT_THAT(headroom("sweep m --out -").err, HasSubstr("a sweep keeps its cells in a file"));
  for (const char* command :
       {"profile m --trace -", "compare a b --markdown -", "compare a b --junit -", "train c --save -",
        "bench m --against b --save-base -", "bench m --compare b --save-verdict -"})
    EXPECT_THAT(headroom(command).err, HasSubstr("'-' is standard output, which this option does not write to"))
        << command;
  EXPECT_FALSE(fs::exists("-"));
}

TEST_F(OptionsTest, AStreamPrintsItsResultsAlsoWhereQuietAndInJson) {
  const std::string stream =
      "stream " + source("tests/goldens/live_stream/three-levels") + " --input test:16x16@30:4 -q ";
  EXPECT_THAT(headroom(stream + "--out null:").out, HasSubstr("frame in to frame out"));
  const nlohmann::json results = parse_json(headroom(stream + "--json --out null:").out, "stdout");
  EXPECT_EQ(results["results"][0]["latency"]["shown"], 4);
  const Outcome piped = headroom(stream + "--json --out -");
  EXPECT_THAT(piped.out, StartsWith("YUV4MPEG2"));
  EXPECT_EQ(parse_json(piped.err, "stderr")["results"].size(), 1U);
}

TEST_F(OptionsTest, ASharePerCentIsReadInEachOptionThatTakesOne) {
  EXPECT_EQ(headroom("plan " + tiny_ + small_ + "--max-error 5% --opt auto --auto-seconds 0.1 -q").code, 0);
  EXPECT_EQ(
      headroom("report " + source("docs/result.example.json") + " --format svg --max-quality-loss 2% -q" + out("r"))
          .code,
      0);
  for (const char* arguments :
       {"plan m --max-error 5", "plan m --max-request-error 5", "report r --out o --max-quality-loss 5",
        "compare a b --threshold 5", "ladder m --precision 5"}) {
    const Outcome outcome = headroom(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_THAT(outcome.err, HasSubstr("'5' is not a share such as ")) << arguments;
  }
}

TEST_F(OptionsTest, ACalibrationIsKeptWhereItIsAskedFor) {
  const fs::path model = folder() / "fashion";
  fs::copy(fashion_, model, fs::copy_options::recursive);
  fs::remove(model / "transformer/meancache.json");
  const std::string calibrate = "calibrate " + model.string() + " --images 1 --probe-images 1 --steps 3 --batch 1";
  const Outcome made = headroom(calibrate + out("mine.json"));
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("copy it to " + (model / "transformer/meancache.json").string() +
                                  " for meancache=K to find it"));
  EXPECT_FALSE(fs::exists(model / "transformer/meancache.json"));
  EXPECT_EQ(parse_json(read_file(file("mine.json")), "calibration")["schema"], "headroom.meancache/1");
  fs::copy(file("mine.json"), model / "transformer/meancache.json");
  EXPECT_THAT(headroom(calibrate + out("again.json")).err, HasSubstr(", whose schedules it replaces, for meancache=K"));
  const Outcome used = headroom("run " + model.string() + " --labels 0 --steps 3 --opt meancache=2" + out("x.png"));
  EXPECT_THAT(used.err, HasSubstr("the steps are those of meancache.json"));
}

TEST_F(OptionsTest, ModelsFindsPipelinesAndNetworksAtAnyDepth) {
  const std::string folder = source("tests/goldens/pipelines");
  const nlohmann::json found = parse_json(headroom("models " + folder + " --json").out, "models");
  std::vector<std::string> pipelines;
  for (const nlohmann::json& each : found) {
    if (each["passes"] == nlohmann::json{"request"})
      pipelines.push_back(fs::path(each["folder"].get<std::string>()).filename().string());
    EXPECT_TRUE(each["class"].is_string());
  }
  EXPECT_THAT(pipelines, testing::ElementsAre("flux-dev", "flux-kontext", "flux-schnell", "flux2-klein", "flux3-base",
                                              "flux3-distilled", "qwen-image", "sd-1.5", "sd-2.1", "sdxl", "z-image"));
  EXPECT_THAT(headroom("models " + source("models")).out,
              AllOf(HasSubstr("/fashion-flux/transformer"), HasSubstr("/live-ink")));
}

TEST_F(OptionsTest, ModelsLeavesOutWhatIsBroken) {
  fs::create_directories(folder() / "m/good");
  fs::create_directories(folder() / "m/broken");
  fs::copy(tiny_, folder() / "m/good", fs::copy_options::recursive);
  write_file_atomically(folder() / "m/broken/config.json", "{");
  const Outcome outcome = headroom("models " + file("m") + " --json");
  EXPECT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(parse_json(outcome.out, "models").size(), 1U);
  EXPECT_THAT(outcome.err, AllOf(StartsWith("warning: left out: "), HasSubstr("broken/config.json")));
  EXPECT_EQ(headroom("models " + file("m/broken")).code, 1);
}

TEST_F(OptionsTest, AModelInTheHubsCacheOpensByItsNameAndItsFolder) {
  const fs::path root = add_to_hub_cache("models--fox--tiny", tiny_);
  for (const std::string& model : {std::string("fox/tiny"), root.string(), (root / "snapshots/0123abc").string()}) {
    const Outcome timed = headroom("bench " + model + small_ + "--trials 2 -q --json");
    ASSERT_EQ(timed.code, 0) << timed.err;
    EXPECT_EQ(parse_json(timed.out, "stdout")["results"][0]["subject"]["name"], "tiny");
  }
  EXPECT_EQ(parse_json(headroom("models fox/tiny --json").out, "models").size(), 1U);
  const Outcome missing = headroom("run black-forest-labs/FLUX.1-dev --prompt x");
  EXPECT_EQ(missing.code, 2);
  EXPECT_THAT(missing.err, AllOf(HasSubstr(file("hf") + "/hub does not hold it"),
                                 HasSubstr("hf download black-forest-labs/FLUX.1-dev")));
  EXPECT_THAT(headroom("run tiny --prompt x").err, HasSubstr("holds 'fox/tiny'"));
  EXPECT_THAT(run("cd " + file("hf") + " && " + kHeadroomBinary + " run models/live-ink --prompt x").err,
              HasSubstr("'live-ink' ships with the program and is opened by that name"));
  for (const char* command : {"run nosuch --prompt x", "models nosuch"})
    EXPECT_THAT(headroom(command).err, HasSubstr("models that ship were looked for in ")) << command;
  for (const char* command : {"run fox/none --prompt x", "models fox/none"})
    EXPECT_THAT(headroom(command).err, HasSubstr("to download it there: hf download fox/none")) << command;
}

TEST_F(OptionsTest, AStreamNamesASamplerThatItCanTake) {
  const std::string stream = "stream " + source("tests/goldens/pipelines/sd-1.5") +
                             " --input test:32x32@30:2 --out null: --prompt x -q --device cpu";
  const Outcome refused = headroom(stream);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("the sampler plms calls it twice: put another into --opt, such as sampler=euler"));
  EXPECT_EQ(headroom(stream + " --opt lossless,sampler=euler").code, 0);
}

TEST_F(OptionsTest, AMemoryLimitIsNamedAndWhatFitsIsInPixels) {
  const Outcome outcome =
      headroom("run " + fashion_ + " --labels 0 --steps 1 --device cpu --memory-limit 10MiB" + out("x.png"));
  EXPECT_EQ(outcome.code, 1);
  EXPECT_THAT(outcome.err, AllOf(HasSubstr("the memory limit that was given is 10.0 MiB"),
                                 Not(HasSubstr("image tokens")), HasSubstr(" pixels")));
}

}  // namespace
}  // namespace headroom
