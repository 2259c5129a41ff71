// Options and members of requests that are left open, asked for as 0 or empty, without effect, or without sense: what each pipeline
// makes of them, and `headroom run` as a user meets it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "media/png.hpp"
#include "media/read_image.hpp"
#include "pipeline_golden.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// A copy of a folder with another scheduler.
class WithScheduler {
 public:
  WithScheduler(const std::string& folder, const nlohmann::json& scheduler) {
    fs::copy(golden_folder(folder), path(), fs::copy_options::recursive);
    write_json(path() / "scheduler/scheduler_config.json", scheduler);
  }
  [[nodiscard]] fs::path path() const { return temporary_ / "folder"; }

 private:
  TempFolder temporary_;
};

/// How steps are spaced says nothing of whether a model is distilled: few-step LoRAs and diffusers' guide ask for `trailing` too.
TEST(LeftOpen, ASpacingOfTimestepsChangesNoDefaults) {
  for (const auto& [folder, guidance] : {std::pair("sd-1.5", 7.5), {"sd-2.1", 7.5}, {"sdxl", 5.0}}) {
    const nlohmann::json own = read_json(golden_folder(folder) / "scheduler/scheduler_config.json");
    for (const char* scheduler :
         {"EulerDiscreteScheduler", "DDIMScheduler", "LCMScheduler", "EulerAncestralDiscreteScheduler"})
      for (const char* spacing : {"trailing", "leading", "linspace"}) {
        if (std::string_view(scheduler) == "LCMScheduler" && std::string_view(spacing) != "leading") continue;
        nlohmann::json config = {{"_class_name", scheduler},
                                 {"beta_start", 0.00085},
                                 {"beta_end", 0.012},
                                 {"beta_schedule", "scaled_linear"},
                                 {"timestep_spacing", spacing},
                                 {"clip_sample", false},
                                 {"prediction_type", own.value("prediction_type", "epsilon")}};
        const WithScheduler copy(folder, config);
        const Request request = open_pipeline(copy.path().string())->resolve({.switches = {}});
        EXPECT_EQ(request.steps, 50) << folder << " " << config;
        EXPECT_EQ(request.guidance_scale, guidance) << folder << " " << config;
        EXPECT_TRUE(request.classifier_free_guidance) << folder << " " << config;
      }
  }
}

/// 0 is a value: no guidance as at 1, where passes guide, and a scale like any other where the denoiser is given it.
TEST(LeftOpen, AGuidanceOfZeroIsNotTheModelsOwn) {
  const std::unique_ptr<Pipeline> sdxl = open_pipeline(golden_folder("sdxl").string());
  for (const double none : {0.0, 0.5, 1.0}) {
    const Request request = sdxl->resolve({.guidance_scale = none, .switches = {}});
    EXPECT_FALSE(request.classifier_free_guidance) << none;
    EXPECT_EQ(request, sdxl->resolve({.guidance_scale = 1.0, .switches = {}})) << none;
  }
  EXPECT_EQ(sdxl->resolve({.true_cfg_scale = 9.0, .switches = {}}), sdxl->resolve({.switches = {}}))
      << "its guidance scale is that of classifier-free guidance";
  const std::unique_ptr<Pipeline> flux = open_pipeline(golden_folder("flux-dev").string());
  EXPECT_EQ(flux->resolve({.guidance_scale = 0.0, .switches = {}}).guidance_scale, 0);
  EXPECT_EQ(flux->resolve({.switches = {}}).guidance_scale, 3.5);
  for (const double none : {0.0, 1.0})
    EXPECT_EQ(flux->resolve({.true_cfg_scale = none, .switches = {}}), flux->resolve({.switches = {}})) << none;
}

TEST(LeftOpen, ScalesThatMeanNothingAreRefused) {
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(golden_folder("sdxl").string());
  const auto refusal = [&](const RequestOptions& options) {
    return error_of([&] { static_cast<void>(pipeline->resolve(options)); });
  };
  for (const double scale : {kNan, kInfinity, -kInfinity, -1.0, 100.5, 1e20}) {
    EXPECT_THAT(refusal({.guidance_scale = scale, .switches = {}}), HasSubstr("expected 0 to 100")) << scale;
    EXPECT_THAT(refusal({.true_cfg_scale = scale, .switches = {}}), HasSubstr("expected 0 to 100")) << scale;
  }
  for (const double strength : {kNan, kInfinity, -0.5, 0.0, 1.5, 1e20})
    EXPECT_THAT(refusal({.references = {{4, 4}}, .strength = strength, .switches = {}}),
                HasSubstr("expected more than 0 to 1"))
        << strength;
}

/// Whether there are so many steps is the matter of the sampler that runs.
TEST(LeftOpen, StepsAreHeldAgainstTheSamplerThatIsNamed) {
  const nlohmann::json lcm = {
      {"_class_name", "LCMScheduler"},    {"beta_start", 0.00085},          {"beta_end", 0.012},
      {"beta_schedule", "scaled_linear"}, {"original_inference_steps", 20}, {"num_train_timesteps", 1000}};
  const WithScheduler copy("sd-1.5", lcm);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(copy.path().string());
  const auto tables = [&](const char* switches) {
    const RequestOptions options{.steps = 60, .switches = SwitchSet::parse(switches)};
    EXPECT_EQ(pipeline->resolve({.steps = 60, .switches = {}}).steps, 60);
    return pipeline->sampler_tables(pipeline->resolve(options)).calls();
  };
  for (const char* named : {"sampler=euler", "sampler=ddim", "sampler=dpm++2m"}) EXPECT_EQ(tables(named), 60) << named;
  for (const char* own : {"", "sampler=lcm"})
    EXPECT_THAT(error_of([&] { static_cast<void>(tables(own)); }), HasSubstr("60, expected 1 to 20")) << own;
}

TEST(LeftOpen, OptionsWithoutEffectAreNamed) {
  const auto idle = [](const char* folder, const RequestOptions& options, const ImageRequest& image) {
    const std::unique_ptr<Pipeline> pipeline = open_pipeline(golden_folder(folder).string());
    std::vector<std::string> names;
    for (const IdleOption& option : pipeline->idle_options(options, image)) {
      EXPECT_NE(option.reason, "");
      names.emplace_back(option.name);
    }
    return names;
  };
  const ImageRequest negative{.prompt = "a", .negative_prompt = ""}, second{.prompt = "a", .prompt_2 = ""};
  EXPECT_THAT(idle("sd-1.5", {.switches = {}}, negative), IsEmpty());
  EXPECT_THAT(idle("sd-1.5", {.guidance_scale = 1.0, .switches = {}}, negative), ElementsAre("negative_prompt"));
  EXPECT_THAT(idle("sd-1.5", {.guidance_scale = 0.0, .true_cfg_scale = 0.0, .switches = {}}, second),
              ElementsAre("true_cfg_scale", "prompt_2"));
  EXPECT_THAT(idle("sdxl", {.guidance_scale = 0.0, .switches = {}}, second), IsEmpty());
  EXPECT_THAT(idle("flux-dev", {.guidance_scale = 0.0, .switches = {}}, second), IsEmpty());
  EXPECT_THAT(idle("flux-dev", {.true_cfg_scale = 1.0, .switches = {}}, negative), ElementsAre("negative_prompt"));
  EXPECT_THAT(idle("flux-dev", {.true_cfg_scale = 2.0, .switches = {}}, negative), IsEmpty());
  EXPECT_THAT(idle("flux-schnell", {.guidance_scale = 3.0, .switches = {}}, {}), ElementsAre("guidance"));
  EXPECT_THAT(idle("flux-schnell", {.steps = 3, .switches = SwitchSet::parse("steps=7")}, {}), ElementsAre("steps"));
  EXPECT_THAT(idle("flux-schnell", {.steps = 7, .switches = SwitchSet::parse("steps=7")}, {}), IsEmpty());
}

/// An empty second prompt is a prompt; none is the first one.
TEST(LeftOpen, AnEmptySecondPromptIsRead) {
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(golden_folder("sdxl").string());
  EXPECT_EQ(prompt_of(*pipeline, {.prompt = "a fox", .prompt_2 = ""}, 1), "");
  EXPECT_EQ(prompt_of(*pipeline, {.prompt = "a fox", .prompt_2 = ""}, 0), "a fox");
  EXPECT_EQ(prompt_of(*pipeline, {.prompt = "a fox"}, 1), "a fox");
  EXPECT_EQ(negative_prompt_of({.negative_prompt = "dim", .negative_prompt_2 = ""}, 1), "");
  EXPECT_EQ(negative_prompt_of({.negative_prompt = "dim"}, 1), "dim");
}

/// The program, drawing small pictures of one prompt.
class LeftOpenProgram : public ProgramTest {
 protected:
  static std::string model(const char* name) { return golden_folder(name).string(); }
  /// The picture that `run` makes of 2 steps, and its messages.
  Outcome draw(const std::string& folder, const std::string& name, const std::string& options) const {
    Outcome outcome = headroom("run " + folder + " --device cpu --threads 1 --out " + file(name) + " " + options);
    EXPECT_EQ(outcome.code, 0) << options << "\n" << outcome.err;
    return outcome;
  }
  Outcome draw_small(const char* folder, const std::string& name, const std::string& options) const {
    return draw(model(folder), name, "--prompt 'a cat' --steps 2 --height 32 --width 32 " + options);
  }
  [[nodiscard]] std::vector<std::uint8_t> pixels(const std::string& name) const {
    return read_image(file(name)).pixels;
  }
  [[nodiscard]] std::string refusal(const std::string& options) const {
    const Outcome outcome = headroom(options);
    EXPECT_EQ(outcome.code, 2) << options << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << options;
    EXPECT_THAT(outcome.err, Not(HasSubstr("internal"))) << options;
    return outcome.err;
  }
  /// The answers to requests.
  [[nodiscard]] std::vector<nlohmann::json> serve(const std::string& arguments, const std::string& lines) const {
    write_file_atomically(file("requests.jsonl"), lines);
    const Outcome outcome =
        headroom("run " + arguments + " --device cpu --threads 1 --prompts - < " + file("requests.jsonl"));
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    std::vector<nlohmann::json> answers;
    std::istringstream out(outcome.out);
    for (std::string line; std::getline(out, line);) answers.push_back(parse_json(line, "answer"));
    return answers;
  }
  [[nodiscard]] nlohmann::json request(const char* out, nlohmann::json members) const {
    members.update({{"out", file(out)}, {"prompt", "a cat"}, {"height", 32}, {"width", 32}});
    if (!members.contains("steps")) members["steps"] = 2;
    return members;
  }
};

TEST_F(LeftOpenProgram, ZeroIsAValue) {
  draw_small("sd-1.5", "one.png", "--guidance 1");
  draw_small("sd-1.5", "zero.png", "--guidance 0");
  draw_small("sd-1.5", "own.png", "");
  EXPECT_EQ(pixels("zero.png"), pixels("one.png"));
  EXPECT_NE(pixels("zero.png"), pixels("own.png"));
  draw_small("flux-dev", "flux.png", "");
  draw_small("flux-dev", "flux-0.png", "--guidance 0");
  EXPECT_NE(pixels("flux-0.png"), pixels("flux.png"));
  const auto answers = serve(model("sd-1.5"), request("a.png", {{"guidance", 0}}).dump() + "\n" +
                                                  request("b.png", nlohmann::json::object()).dump() + "\n");
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(pixels("a.png"), pixels("one.png"));
  EXPECT_EQ(pixels("b.png"), pixels("own.png"));
  const auto unguided =
      serve(model("sd-1.5") + " --guidance 0",
            request("c.png", nlohmann::json::object()).dump() + "\n" + request("d.png", {{"guidance", 7.5}}).dump());
  ASSERT_EQ(unguided.size(), 2U);
  EXPECT_EQ(pixels("c.png"), pixels("one.png"));
  EXPECT_EQ(pixels("d.png"), pixels("own.png"));

  draw(model("sd-1.5"), "again.png", "--like " + file("zero.png"));
  EXPECT_EQ(pixels("again.png"), pixels("one.png")) << "a PNG keeps a guidance of 0";
  const std::string from_image = "run " + model("sd-1.5") + " --prompt x --image " + file("one.png");
  EXPECT_THAT(refusal(from_image + " --strength 0 --out " + file("x.png")), HasSubstr("the strength is 0, expected"));
  for (const char* option : {"--steps", "--height", "--width", "--text-tokens", "--memory-limit"})
    EXPECT_THAT(refusal("run " + model("sd-1.5") + " --prompt x " + option + " 0"), HasSubstr(option)) << option;
  EXPECT_THAT(refusal("sweep " + model("sd-1.5") + " --steps 0 --out " + file("s.json")), HasSubstr("nor 'own'"));
}

TEST_F(LeftOpenProgram, AnEmptySecondPromptIsNotTheFirst) {
  draw_small("sdxl", "first.png", "");
  draw_small("sdxl", "empty.png", "--prompt-2 ''");
  draw_small("sdxl", "same.png", "--prompt-2 'a cat'");
  EXPECT_NE(pixels("empty.png"), pixels("first.png"));
  EXPECT_EQ(pixels("same.png"), pixels("first.png"));
}

TEST_F(LeftOpenProgram, WhatIsGivenWithLikeWinsOverTheSwitchesOfThePng) {
  const std::string sd = model("sd-1.5");
  const std::string size = "--height 32 --width 32 ";
  draw(sd, "a.png", "--prompt 'a dog' --opt lossless,steps=7 " + size);
  EXPECT_THAT(draw(sd, "b.png", "--like " + file("a.png") + " --steps 3").out, HasSubstr("in 3 steps"));
  EXPECT_THAT(draw(sd, "c.png", "--like " + file("a.png")).out, HasSubstr("in 7 steps"));
  EXPECT_EQ(pixels("c.png"), pixels("a.png"));
  EXPECT_THAT(draw(sd, "d.png", "--like " + file("b.png")).out, HasSubstr("in 3 steps"));
  const Outcome both = draw(sd, "e.png", "--like " + file("b.png") + " --opt lossless,steps=5");
  EXPECT_THAT(both.out, HasSubstr("in 5 steps"));
  EXPECT_THAT(both.err, Not(HasSubstr("changes nothing"))) << "nobody gave --steps";
  const auto answers = serve(sd + " --like " + file("a.png"), request("f.png", {{"steps", 2}, {"seed", 0}}).dump());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].contains("notes")) << answers[0];
  EXPECT_EQ(parse_json(read_png_text(file("f.png")).at("headroom"), "text").at("steps"), 2);

  // Schedules of a step cache, which --cache-schedule says as well.
  const std::string schnell = model("flux-schnell");
  draw(schnell, "g.png", "--prompt x --steps 6 --opt lossless,fbcache=0.1:schedule=10 " + size);
  const Outcome scheduled = draw(schnell, "h.png", "--like " + file("g.png") + " --cache-schedule 100");
  EXPECT_THAT(scheduled.out, HasSubstr("computed 2 of 6 steps: #..#.."));
  EXPECT_THAT(draw(schnell, "i.png", "--like " + file("g.png")).out, HasSubstr("computed 3 of 6 steps: #.#.#."));
}

TEST_F(LeftOpenProgram, LabelsWinOverThePromptOfAPng) {
  const std::string fashion = (source_dir(kSourceDir) / "models/fashion-flux-turbo").string();
  draw(fashion, "boot.png", "--prompt 'an ankle boot' --steps 1");
  draw(fashion, "bag.png", "--like " + file("boot.png") + " --labels Bag");
  draw(fashion, "expected.png", "--labels Bag --steps 1");
  EXPECT_EQ(pixels("bag.png"), pixels("expected.png"));
}

/// Windows programs write a byte order mark before UTF-8.
TEST_F(LeftOpenProgram, AByteOrderMarkIsNoPartOfAPrompt) {
  const std::string options = "--steps 1 --height 32 --width 32 --quiet ";
  write_file_atomically(file("plain.txt"), "a fox\na hare\n");
  draw(model("sd-1.5"), "plain.png", options + "--prompts " + file("plain.txt"));
  for (const std::string text : {"\xEF\xBB\xBF"
                                 "a fox\na hare\n",
                                 "\xEF\xBB\xBF"
                                 "a fox\r\na hare",
                                 "\xEF\xBB\xBF\r\n"
                                 "a fox\na hare\n"}) {
    write_file_atomically(file("marked.txt"), text);
    draw(model("sd-1.5"), "marked.png", options + "--prompts " + file("marked.txt"));
    for (const char* number : {"-1.png", "-2.png"})
      EXPECT_EQ(pixels(std::string("marked") + number), pixels(std::string("plain") + number));
    EXPECT_EQ(parse_json(read_png_text(file("marked-1.png")).at("headroom"), "text").at("prompt"), "a fox");
  }
  draw(model("sd-1.5"), "piped.png", options + "--prompts /dev/stdin < " + file("marked.txt"));
  EXPECT_EQ(pixels("piped-1.png"), pixels("plain-1.png"));

  const std::string line = request("served.png", {{"steps", 1}}).dump();
  for (const std::string& lines : {"\xEF\xBB\xBF" + line, "\xEF\xBB\xBF\r\n" + line}) {
    const auto answers = serve(model("sd-1.5"), lines);
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_FALSE(answers[0].contains("error")) << answers[0];
  }
  write_file_atomically(file("wide.txt"), std::string_view("\xFF\xFE"
                                                           "a\0\n\0",
                                                           6));
  const Outcome wide = headroom("run " + model("sd-1.5") + " --device cpu --prompts " + file("wide.txt"));
  EXPECT_EQ(wide.code, 1);
  EXPECT_THAT(wide.err, AllOf(HasSubstr("wide.txt"), HasSubstr("UTF-16")));
}

TEST_F(LeftOpenProgram, OptionsThatChangeNothingAreReported) {
  HostTensor noise(DType::kF32, {4, 4, 4});
  write_safetensors(file("noise.safetensors"), {{"noise", noise}});
  const std::string given = "--noise " + file("noise.safetensors") + " --seed 4";
  for (const auto& [folder, options, note] :
       {std::tuple("flux-dev", std::string("--negative-prompt blurry"), "--negative-prompt changes nothing: "),
        {"sd-1.5", "--negative-prompt blurry --guidance 1", "--negative-prompt changes nothing: "},
        {"sd-1.5", "--true-cfg-scale 9", "--true-cfg-scale changes nothing: "},
        {"sd-1.5", "--prompt-2 'a dog'", "--prompt-2 changes nothing: sd-1.5 has no second text encoder"},
        {"flux-schnell", "--guidance 3", "--guidance changes nothing: flux-schnell has no guidance scale"},
        {"sd-1.5", "--opt lossless,steps=1", "--steps changes nothing: the switch steps=1 takes its place"},
        {"sd-1.5", "--auto-refresh --max-error 0.1", "--auto-refresh changes nothing: it is for --opt auto"},
        {"sd-1.5", given, "--seed changes nothing: the noise is given"}})
    EXPECT_THAT(draw_small(folder, "x.png", options).err, HasSubstr(note)) << options;
  for (const auto& [folder, options] :
       {std::pair("flux-dev", std::string("--guidance 0 --prompt-2 x --negative-prompt y --true-cfg-scale 2")),
        {"sd-1.5", "--negative-prompt blurry --seed 3"},
        {"sd-1.5", given + " --opt sampler=euler-ancestral"}})
    EXPECT_THAT(draw_small(folder, "x.png", options).err, Not(HasSubstr("changes nothing"))) << options;

  const auto answers = serve(model("sd-1.5") + " --batch 4",
                             request("a.png", {{"guidance", 1}, {"negative_prompt", "x"}, {"prompt_2", ""}}).dump());
  ASSERT_EQ(answers.size(), 1U);
  ASSERT_EQ(answers[0].at("notes").size(), 2U) << answers[0];
  EXPECT_THAT(answers[0].at("notes")[0].get<std::string>(), HasSubstr("prompt_2 changes nothing: "));
  EXPECT_THAT(answers[0].at("notes")[1].get<std::string>(), HasSubstr("negative_prompt changes nothing: "));
  EXPECT_THAT(read_file(file("stderr")), HasSubstr("--batch changes nothing: "));

  EXPECT_THAT(refusal("bench " + model("sd-1.5") + " --max-error 0.1"),
              HasSubstr("--max-error would change nothing: it is for --opt auto"));
  for (const auto& [command, reason] :
       {std::pair("forward", "it is for whole denoise loops"), {"request --random-weights 0", "what random weights"}}) {
    const Outcome strict =
        headroom("plan " + model("sd-1.5") + " --opt auto --max-request-error 5% --strict --pass " + command);
    EXPECT_EQ(strict.code, 1);
    EXPECT_THAT(strict.err, HasSubstr(std::string("--strict: --max-request-error changes nothing: ") + reason));
  }
  EXPECT_THAT(refusal("ladder " + model("sd-1.5") + " --rounds 4 --max-rounds 2"), HasSubstr("--max-rounds is 2"));
  EXPECT_THAT(refusal("ladder " + model("sd-1.5") + " --processes 3 --max-rounds 2"),
              HasSubstr("--max-rounds is 2, expected at least the 3 rounds that --processes asks for"));
}

/// Folders of LCM have 50 steps at most, others their sampler's.
TEST_F(LeftOpenProgram, StepsAreHeldAgainstTheSamplerThatRuns) {
  nlohmann::json config = read_json(golden_folder("sd-1.5") / "scheduler/scheduler_config.json");
  config["_class_name"] = "LCMScheduler";
  config["original_inference_steps"] = 4;
  const WithScheduler copy("sd-1.5", config);
  const std::string small = "--prompt x --height 32 --width 32 ";
  EXPECT_THAT(draw(copy.path().string(), "x.png", small + "--steps 6 --opt lossless,sampler=euler").out,
              HasSubstr("in 6 steps"));
  EXPECT_THAT(refusal("run " + copy.path().string() + " --device cpu --steps 6 " + small),
              HasSubstr("6, expected 1 to 4"));
  const auto answers =
      serve(copy.path().string() + " --opt lossless,sampler=ddim", request("a.png", {{"steps", 6}}).dump());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_FALSE(answers[0].contains("error")) << answers[0];
  const Outcome bench = headroom("bench " + copy.path().string() +
                                 " --device cpu --quiet --threads 1 --height 32 --width 32 --pass request --trials 1 "
                                 "--opt lossless,sampler=euler,steps=6");
  EXPECT_EQ(bench.code, 0) << bench.err;
}

}  // namespace
}  // namespace headroom
