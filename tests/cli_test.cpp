// The program as a user meets it: output, exit codes, error sentences, and nothing half-written.

#include <fmt/ranges.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "backends/cpu/cpu_info.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/text/json.hpp"
#include "io/safetensors.hpp"
#include "measure/results/result.hpp"
#include "media/read_image.hpp"
#include "program_fixture.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::AnyOf;
using testing::ElementsAre;
using testing::EndsWith;
using testing::HasSubstr;
using testing::MatchesRegex;
using testing::Not;

class CliTest : public ProgramTest {
 protected:
  CliTest() { setenv("XDG_CACHE_HOME", (folder() / "cache").c_str(), 1); }

  /// Expects one sentence on stderr, nothing on stdout, and the exit code.
  void expect_error(const std::string& arguments, int code,
                    const testing::Matcher<const std::string&>& sentence) const {
    const Outcome outcome = headroom(arguments);
    EXPECT_EQ(outcome.code, code) << arguments << "\n" << outcome.err;
    EXPECT_EQ(outcome.out, "") << arguments;
    EXPECT_THAT(outcome.err, sentence) << arguments;
    EXPECT_THAT(outcome.err, Not(HasSubstr("internal"))) << arguments;
  }

  fs::path file(const char* name) const { return folder() / name; }
  std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder()), fs::directory_iterator{}));
  }

  /// A copy of the tiny model with guidance whose files a test can spoil.
  fs::path tiny_copy() const {
    const fs::path copy = folder() / "tiny";
    fs::copy(golden("tiny-guidance"), copy);
    return copy;
  }
  static fs::path golden(const char* name) { return fs::path(kSourceDir) / "tests/goldens/flux" / name; }

  std::string fashion_ = std::string(kSourceDir) + "/models/fashion-flux";
};

TEST_F(CliTest, EveryCommandHasHelpWithAnExample) {
  for (const char* command : {"models", "run", "forward", "bench", "ladder", "plan", "profile"}) {
    const Outcome outcome = headroom(std::string(command) + " --help");
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.out, HasSubstr("Example: headroom " + std::string(command)));
  }
}

TEST_F(CliTest, ModelsListsWhatShips) {
  const Outcome outcome = headroom("models --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json models = parse_json(outcome.out, "models");
  std::map<std::string, std::int64_t> parameters;
  for (const auto& model : models) parameters.emplace(model["name"], model["parameters"]);
  EXPECT_EQ(models[0]["name"], "fashion-flux");
  EXPECT_EQ(models[1]["name"], "fashion-flux-turbo");
  EXPECT_EQ(models[2]["name"], "live-ink");
  EXPECT_EQ(parameters.at("fashion-flux"), 6'221'700);
  EXPECT_EQ(parameters.at("fashion-flux-turbo"), 6'221'700);
  EXPECT_EQ(parameters.at("live-ink"), 3'658'324);
  EXPECT_NEAR(static_cast<double>(parameters.at("flux-dev")), 11.90e9, 0.01e9);
  EXPECT_EQ(parameters.at("flux-vae"), 83'819'683);
  EXPECT_EQ(parameters.at("taesd"), 2'445'063);
  EXPECT_EQ(parameters.at("t5-xxl"), 4'762'310'656);
  EXPECT_EQ(parameters.at("clip-l"), 123'060'480);
  EXPECT_EQ(parameters.at("live-stream-unet"), 881'981'700);
}

TEST_F(CliTest, ModelsListsTheNetworksOfAFolder) {
  const fs::path folder = fs::path(kSourceDir) / "tests/goldens/vae";
  const Outcome outcome = headroom("models " + folder.string() + " --json");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json networks = parse_json(outcome.out, "networks");
  ASSERT_EQ(networks.size(), 5U);
  EXPECT_EQ(networks[0]["folder"], (folder / "flux").string());
  EXPECT_EQ(networks[0]["class"], "AutoencoderKL");
  EXPECT_THAT(networks[0]["passes"], ElementsAre("decode", "encode", "decode-tiled", "encode-tiled"));
  const Outcome none = headroom("models " + file("").string());
  EXPECT_EQ(none.code, 1);
  EXPECT_THAT(none.err, HasSubstr("has no config.json, which a checkpoint folder needs"));
}

TEST_F(CliTest, APassOfAnyNetworkIsPlannedAndTimed) {
  const std::string vae = (fs::path(kSourceDir) / "tests/goldens/vae/flux").string();
  const std::string small = " --height 32 --width 32 --device cpu --opt fuse";
  const Outcome planned = headroom("plan " + vae + " --pass encode --json" + small);
  ASSERT_EQ(planned.code, 0) << planned.err;
  EXPECT_FALSE(parse_json(planned.out, "plan")["steps"].empty());
  EXPECT_EQ(headroom("plan " + fashion_ + " --pass forward --opt fuse --device cpu").code, 0);
  const Outcome chosen = headroom("bench " + vae +
                                  " --pass decode --trials 2 --height 32 --width 32 --device cpu "
                                  "--opt auto --auto-seconds 0.1 --auto-refresh");
  EXPECT_EQ(chosen.code, 0) << chosen.err;
  EXPECT_THAT(chosen.err, HasSubstr("auto chose"));
  const std::string clip = (fs::path(kSourceDir) / "tests/goldens/text/clip-l").string();
  const Outcome timed =
      headroom("bench " + clip + " --pass hidden-states --first-step --trials 2 --device cpu --text-tokens 13");
  EXPECT_EQ(timed.code, 0) << timed.err;
  const Outcome no_image = headroom("plan " + clip + " --height 32 --device cpu");
  EXPECT_EQ(no_image.code, 2);
  EXPECT_THAT(no_image.err, HasSubstr("clip-l works on text: give --text-tokens in place of the size of an image"));
  const Outcome refused = headroom("run " + vae);
  EXPECT_EQ(refused.code, 2);
  EXPECT_THAT(refused.err, HasSubstr("flux (AutoencoderKL) makes no images by itself"));
}

TEST_F(CliTest, ForwardReproducesTheGolden) {
  const std::string folder = golden("tiny-guidance").string();
  const Outcome outcome = headroom("forward " + folder + " --inputs " + folder + "/golden.safetensors --out " +
                                   file("out.safetensors").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("'sample' is not an input of the pass forward and is not used"));
  const HostTensor sample = SafetensorsFile::open(file("out.safetensors")).read("sample");
  const HostTensor expected = SafetensorsFile::open(golden("tiny-guidance") / "golden.safetensors").read("sample");
  ASSERT_EQ(sample.shape(), expected.shape());
  for (std::int64_t i = 0; i < sample.numel(); ++i) ASSERT_NEAR(sample.at(i), expected.at(i), 1e-4);
}

/// Every path the machine has, lossless and (where there are such products) in bf16 and int8, gives the same numbers.
TEST_F(CliTest, AnyCpuIsaGivesTheSameNumbers) {
  const std::string folder = golden("tiny-guidance").string();
  const HostTensor expected = SafetensorsFile::open(golden("tiny-guidance") / "golden.safetensors").read("sample");
  for (const CpuIsa isa : all_cpu_isas())
    for (const char* switches : {"lossless", "fast", "int8"}) {
      if (isa > detect_cpu_isa()) continue;
      const std::string_view asked = switches;
      const double allowed = asked == "fast" || (asked == "int8" && isa >= CpuIsa::kAvx512Vnni) ? 2e-2 : 1e-5;
      const std::string name(name_of(isa));
      SCOPED_TRACE(name + " " + switches);
      const Outcome outcome =
          headroom("forward " + folder + " --cpu-isa " + name + " --opt " + switches + " --inputs " + folder +
                   "/golden.safetensors --out " + file("out.safetensors").string());
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      const HostTensor sample = SafetensorsFile::open(file("out.safetensors")).read("sample");
      EXPECT_LT(relative_l2(sample, expected), allowed);

      const Outcome plan = headroom("plan " + folder + " --cpu-isa " + name + " --opt " + switches);
      EXPECT_EQ(plan.code, 0);
      EXPECT_THAT(plan.out, HasSubstr("for cpu (" + name + ","));
      if (isa < CpuIsa::kAvx512) {
        EXPECT_THAT(plan.out, Not(HasSubstr("avx512")));
      }
    }
  expect_error("plan " + folder + " --cpu-isa sse9", 2, HasSubstr("sse9"));
}

TEST_F(CliTest, RunWritesAGridAndNoProgressIntoAPipe) {
  const Outcome outcome = headroom("run " + fashion_ + " --labels Sneaker,8 --per-label 2 --steps 2 --quiet --out " +
                                   file("grid.png").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  const Image image = read_image(file("grid.png"));
  EXPECT_EQ(image.width, 2 * 32 + 3 * 2);
  EXPECT_EQ(image.height, 2 * 32 + 3 * 2);
}

TEST_F(CliTest, BenchSavesAResultThatReadsBack) {
  const Outcome outcome = headroom("bench " + fashion_ + " --trials 3 --opt lossless,steps=4 --first-step --out " +
                                   file("result.json").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("forward, batch 1, lossless+steps=4: "), HasSubstr("weights loaded in"),
                                 HasSubstr("a request of a new shape")));
  EXPECT_THAT(outcome.err, HasSubstr("switch hoist declined: there is no loop of several steps here"));
  const ResultFile results = read_results(file("result.json"));
  ASSERT_EQ(results.results.size(), 1U);
  EXPECT_EQ(results.results[0].subject.token_pixels, 2) << "so that budgets and reports know its pixels";
  EXPECT_EQ(series_of(results.results[0], "forward").time_ms.size(), 3U);
  EXPECT_EQ(series_of(results.results[0], "first_step").time_ms.size(), 3U);
  for (const char* once : {"plan", "load", "first_run"})
    EXPECT_EQ(series_of(results.results[0], once).time_ms.size(), 1U) << once;
  EXPECT_EQ(results.results[0].configuration.applied, (std::vector<std::string>{"arena", "flash", "fuse"}));
  EXPECT_EQ(results.results[0].configuration.declined.size(),
            4U);  // no loop for hoist and steps, no images, one sample for tile; the others are for GPUs
}

TEST_F(CliTest, BenchListsTheKernelsOfTheSuite) {
  const Outcome listed = headroom("bench kernels --list");
  ASSERT_EQ(listed.code, 0) << listed.err;
  EXPECT_THAT(listed.out, AllOf(HasSubstr("linear f32 5440x192x768 gelu_tanh\n"), HasSubstr("qk_norm_rope bf16\n")));
  const Outcome filtered = headroom("bench kernels --list --filter '^qk_norm'");
  EXPECT_THAT(filtered.out, AllOf(HasSubstr("qk_norm_rope bf16\n"), Not(HasSubstr("linear"))));
  EXPECT_EQ(headroom("bench bodies --list --filter '^silu_mul bf16 medium'").out, "silu_mul bf16 medium 4608x3072\n");
  EXPECT_EQ(headroom("bench " + fashion_ + " --list").code, 2);
  expect_error("bench kernels --list --device cpu --filter 131072", 2,
               HasSubstr("no benchmark has a name that matches '131072'"));  // on a CPU they do not run
}

TEST_F(CliTest, LadderMeasuresEachRungAndWritesItsImages) {
  const Outcome outcome =
      headroom("ladder " + fashion_ +
               " --opt arena,hoist,steps=3 --steps 6 --batch 2 --trials 3 --max-rounds 2 --quality 2 --out " +
               file("ladder").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("baseline"), HasSubstr("arena+hoist+steps=3"), HasSubstr("synergy")));
  const ResultFile results = read_results(file("ladder") / "results.json");
  ASSERT_EQ(results.results.size(), 6U);  // baseline, three alone, two cumulative
  for (const Result& result : results.results) {
    EXPECT_GE(series_of(result, "step").time_ms.size(), 3U);
    EXPECT_EQ(std::ranges::count(result.trials, "prologue", &TrialSeries::what), 1) << result.name;
    EXPECT_TRUE(fs::exists(file("ladder") / (result.name + ".png"))) << result.name;
    EXPECT_TRUE(result.plan.has_value());
  }
  EXPECT_FALSE(fs::exists(file("ladder") / "unfinished.json"));
  const auto psnr = [&](std::size_t i) { return results.results[i].quality.at(0).value.value_or(1000); };
  EXPECT_GT(psnr(1), 80);  // arena changes nothing but rounding
  EXPECT_LT(psnr(3), 60);  // half the steps is another image
}

TEST_F(CliTest, LadderMeasuresItsEndsAloneAtAnySize) {
  const Outcome outcome =
      headroom("ladder " + fashion_ +
               " --opt arena,fuse,hoist --steps 3 --batch 1 --trials 200 --precision 90% --ends --token-rows 4"
               " --token-columns 6 --out " +
               file("ladder").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const ResultFile results = read_results(file("ladder") / "results.json");
  ASSERT_EQ(results.results.size(), 2U);
  EXPECT_EQ(results.results[1].name, "arena+fuse+hoist");
  EXPECT_EQ(results.results[1].subject.request.at("token_columns"), 6);
  for (const Result& result : results.results) EXPECT_LT(series_of(result, "step").time_ms.size(), 200U);
  EXPECT_GT(results.results[1].quality.at(0).value.value_or(1000), 80);
  const Image grid = read_image(file("ladder") / "baseline.png");
  EXPECT_EQ(grid.width, 6 * 2 + 2 * 2);
  EXPECT_EQ(grid.height, 4 * 2 + 2 * 2);
  EXPECT_EQ(headroom("ladder " + fashion_ + " --quality 2 --token-rows 4").code, 2);
}

TEST_F(CliTest, AutoMeasuresOnceAndRemembers) {
  const std::string bench =
      "bench " + golden("tiny-guidance").string() +
      " --token-rows 4 --token-columns 4 --trials 3 --opt auto,steps=4 --auto-seconds 0.5 --out " +
      file("result.json").string();
  const Outcome first = headroom(bench);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_THAT(first.err, AllOf(HasSubstr("auto: measuring"), HasSubstr("auto chose "), HasSubstr("verdict"),
                               HasSubstr("declined: there is no denoise loop here"), HasSubstr("kept in")));
  const Configuration configuration = read_results(file("result.json")).results.at(0).configuration;
  EXPECT_EQ(configuration.asked, (std::vector<std::string>{"auto", "steps=4"}));
  EXPECT_THAT(first.err, HasSubstr(fmt::format("auto chose {}", fmt::join(configuration.applied, ","))));

  const fs::path cached = fs::directory_iterator(folder() / "cache/headroom/auto")->path();
  const std::string choice = read_file(cached);
  EXPECT_THAT(headroom(bench).err, AllOf(HasSubstr("auto: measured 20"), Not(HasSubstr("measuring"))));
  EXPECT_THAT(headroom(bench + " --batch 2").err, HasSubstr("auto: measuring for")) << "another request";
  EXPECT_THAT(headroom(bench + " --auto-refresh").err, HasSubstr("auto: measuring for"));

  write_file_atomically(cached, std::string_view(choice).substr(0, choice.size() / 2));
  const Outcome mended = headroom(bench);
  EXPECT_EQ(mended.code, 0) << mended.err;
  EXPECT_THAT(mended.err, HasSubstr("the cached choice cannot be read: " + cached.string()));
  EXPECT_THAT(headroom(bench).err, HasSubstr("auto: measured 20"));

  setenv("XDG_CACHE_HOME", "/dev/null", 1);
  const Outcome without = headroom(bench);
  EXPECT_EQ(without.code, 0) << without.err;
  EXPECT_THAT(without.err, HasSubstr("the choice is not kept: /dev/null/headroom/auto"));
}

TEST_F(CliTest, AutoChoosesForEveryCommandThatRunsAModel) {
  const std::string tiny = golden("tiny-guidance").string();
  const std::string seconds = " --opt auto --auto-seconds 0.1";
  for (const std::string& command :
       {"run " + fashion_ + " --labels 7 --steps 2 --out " + file("image.png").string(),
        "forward " + tiny + " --inputs " + tiny + "/golden.safetensors --out " + file("out.safetensors").string(),
        "ladder " + fashion_ + " --batch 1 --steps 2 --trials 3 --ends --max-rounds 2",
        "plan " + tiny + " --steps 2 --token-rows 4"}) {
    const Outcome outcome = headroom(command + seconds);
    EXPECT_EQ(outcome.code, 0) << command << ": " << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr("auto chose ")) << command;
  }
}

TEST_F(CliTest, PlanNamesKernelsAndModules) {
  const Outcome outcome = headroom("plan flux-dev --random-weights 0 --opt fuse --rejections");
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("loop 28 times"), HasSubstr("onednn.linear"),
                                 HasSubstr("single_transformer_blocks.37.proj_out")));
}

TEST_F(CliTest, PlanTellsWhatPlanningAgainTakes) {
  const Outcome text = headroom("plan " + fashion_ + " --trials 3");
  EXPECT_THAT(text.out, HasSubstr("again, graph and passes included, in "));
  EXPECT_THAT(text.out, HasSubstr("(median of 2)"));
  const nlohmann::json plan = parse_json(headroom("plan " + fashion_ + " --trials 3 --json").out, "plan");
  ASSERT_EQ(plan.at("again_ms").size(), 2U);
  EXPECT_GT(plan["again_ms"][0].get<double>(), 0);
}

TEST_F(CliTest, ProfileSavesTimesAndFloorsOfEveryLaunch) {
  const Outcome outcome =
      headroom("profile " + fashion_ + " --height 8 --width 8 --steps 2 --trials 3 --by-module --out " +
               file("profile.json").string() + " --trace " + file("trace.json").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("over the floor"));
  const ResultFile results = read_results(file("profile.json"));
  const Result& result = results.results.at(0);
  ASSERT_TRUE(result.profile);
  EXPECT_EQ(result.profile->floor_ms.size(), results.plans.at(*result.plan).nodes.size());
  EXPECT_EQ(result.profile->alone_ms.size(), result.profile->floor_ms.size());
  EXPECT_EQ(result.subject.request.at("token_rows"), 4) << "8 pixels, 2 a token";
  EXPECT_THAT(outcome.out, HasSubstr("transformer_blocks.*.attn"));
  const nlohmann::json trace = read_json(file("trace.json"));
  EXPECT_GT(trace.at("traceEvents").size(), result.profile->runs.size()) << "the loop runs twice";
}

TEST_F(CliTest, ConvertWritesAModelThatEveryCommandTakes) {
  const std::string converted = file("int8").string();
  const Outcome outcome = headroom("convert " + fashion_ + " --quiet --json --out " + converted);
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  const nlohmann::json summary = nlohmann::json::parse(outcome.out);
  EXPECT_LE(summary["ratio"].get<double>(), 0.30);
  const std::uintmax_t size = fs::file_size(file("int8") / "transformer/diffusion_pytorch_model.safetensors");
  EXPECT_GE(size, summary["bytes"].get<std::uintmax_t>());
  EXPECT_LE(static_cast<double>(size), 0.30 * summary["fp32_bytes"].get<double>());
  const nlohmann::json config = read_json(file("int8") / "transformer/config.json");
  EXPECT_EQ(config["quantization_config"]["quant_method"], "headroom");
  for (const char* name : {"model_index.json", "labels.json", "generation_config.json", "classifier/model.safetensors",
                           "text_encoder_2/model.safetensors", "tokenizer/vocab.json"})
    EXPECT_TRUE(fs::exists(file("int8") / name)) << name;

  const Outcome run =
      headroom("run " + converted + " --quiet --steps 1 --labels 0 --opt int8 --out " + file("one.png").string());
  EXPECT_EQ(run.code, 0) << run.err;
  const Outcome plan = headroom("plan " + converted + " --opt int8");
  EXPECT_EQ(plan.code, 0) << plan.err;
  expect_error("convert " + fashion_ + " --out " + converted, 1, HasSubstr("exists already"));
  expect_error("convert " + converted + " --quiet --out " + file("again").string(), 1, HasSubstr("quantized already"));
  expect_error("convert " + fashion_ + " --opt int8,fuse --out " + file("other").string(), 2, HasSubstr("'fuse'"));
  expect_error("convert " + fashion_ + " --opt bf16 --out " + file("other").string(), 2, HasSubstr("int8"));
  expect_error("convert " + fashion_ + " --out /proc/nowhere/int8", 1, HasSubstr("/proc/nowhere"));
  EXPECT_FALSE(fs::exists(file("again")));
  EXPECT_FALSE(fs::exists(file("other")));
}

TEST_F(CliTest, AConversionThatIsInterruptedLeavesNothing) {
  for (const char* signal : {"TERM", "HUP"}) {
    const std::string script = "{ " + std::string(kHeadroomBinary) +
                               " convert flux-1024x8+16 --random-weights 0 -q --out " + file("big").string() +
                               " & while [ ! -e " + file("big").string() +
                               ".partial.$! ]; do sleep 0.01; done; kill -" + signal + " $!; wait $!; kill -l $?; }";
    EXPECT_EQ(run(script).out, std::string(signal) + "\n");
    for (const fs::directory_entry& entry : fs::directory_iterator(folder()))
      EXPECT_THAT(entry.path().string(), Not(HasSubstr("big"))) << signal;
  }
}

TEST_F(CliTest, WrongUsageIsExitCodeTwo) {
  expect_error("", 2, HasSubstr("a command was expected"));
  expect_error("paint", 2, HasSubstr("paint"));
  expect_error("run", 2, HasSubstr("MODEL"));
  expect_error("bench no-such-model", 2, HasSubstr("no model 'no-such-model'"));
  expect_error("bench " + fashion_ + " --opt warp", 2, AllOf(HasSubstr("unknown switch 'warp'"), HasSubstr("arena")));
  expect_error("run " + fashion_ + " --opt steps=4,steps=8", 2, HasSubstr("twice"));
  expect_error("run " + fashion_ + " --opt steps=0", 2, HasSubstr("1 to 10000"));
  expect_error("run " + fashion_ + " --opt steps", 2, HasSubstr("needs an argument"));
  expect_error("run " + fashion_ + " --steps 99999999", 2, HasSubstr("steps"));
  expect_error("run " + fashion_ + " --labels hat", 2, HasSubstr("hat"));
  expect_error("bench " + fashion_ + " --batch 0", 2, HasSubstr("batch"));
  expect_error("ladder " + fashion_ + " --batch -3", 2, HasSubstr("--batch: '-3'"));
  expect_error("plan flux-dev --random-weights 0 --token-rows 5000", 2, HasSubstr("token-rows"));
}

TEST_F(CliTest, NumbersAreReadAsTheyAreWritten) {
  const std::string whole = "is not a whole number from 0 to 18446744073709551615";
  for (const char* seed : {"-1", "18446744073709551616", "99999999999999999999999", "010", "0x10", "1e3", "''", "+1"}) {
    expect_error("run " + fashion_ + " --seed " + seed, 2, AllOf(HasSubstr("--seed: "), HasSubstr(whole)));
    expect_error("ladder " + fashion_ + " --seed " + seed, 2, AllOf(HasSubstr("--seed: "), HasSubstr(whole)));
    expect_error("plan flux-dev --random-weights " + std::string(seed), 2,
                 AllOf(HasSubstr("--random-weights: "), HasSubstr(whole)));
  }
  for (const char* number : {"nan", "inf", "-nan", "1e400", "-0.1", "0x1", "''"}) {
    const std::string value = number;
    expect_error("run " + fashion_ + " --guidance " + value, 2, HasSubstr("is not a number from 0 to 100"));
    expect_error("ladder " + fashion_ + " --guidance " + value, 2, HasSubstr("is not a number from 0 to 100"));
    expect_error("plan " + fashion_ + " --max-error " + value, 2, HasSubstr("is not a share such as 1% or 0.01"));
    expect_error("plan " + fashion_ + " --auto-seconds " + value, 2, HasSubstr("is not a number from 0.1 to 3600"));
    expect_error("bench " + fashion_ + " --max-seconds " + value, 2, HasSubstr("is not a number from 1 to 86400"));
    expect_error("report x --out y --max-quality-loss " + value, 2, HasSubstr("is not a share such as 1% or 0.01"));
  }
  expect_error("sweep " + fashion_ + " --steps 4,010 --out x", 2, HasSubstr("'010' is not a whole number"));
  const Outcome largest =
      headroom("run " + fashion_ + " --labels 0 --steps 1 --guidance 1e0 --seed 18446744073709551615 --out " +
               file("image.png").string());
  EXPECT_EQ(largest.code, 0) << largest.err;
  EXPECT_THAT(largest.out, testing::StartsWith("1 image in 1 step of "));
}

TEST_F(CliTest, BenchRefusesOptionsThatWouldChangeNothing) {
  const std::string of_model = "it is for a model and the suite `models`";
  for (const std::string& suite :
       std::vector<std::string>{"kernels --filter nothing", "bodies", "load", "kernels --list", "--list"})
    for (const char* option : {"--opt warp", "--first-step", "--height 8", "--text-tokens 8", "--random-weights 0",
                               "--baseline bf16", "--batch 4", "--precision 5%", "--auto-seconds 1", "--auto-refresh"})
      expect_error("bench " + suite + " " + option, 2,
                   AllOf(HasSubstr(std::string(option).substr(0, std::string(option).find(' '))), HasSubstr(of_model)));
  expect_error("bench kernels --filter nothing --trials 3", 2,
               HasSubstr("it is for a model and the suites `models` and `attention`"));
  expect_error("bench load --tokens 64", 2,
               HasSubstr("--tokens would change nothing of `bench load`: it is for the suite "));
  expect_error("bench attention --batch 2", 2, HasSubstr("--batch would change nothing of `bench attention`"));
  expect_error("bench attention --device cpu --tokens 3 --ranks 2", 2,
               HasSubstr("3 tokens cannot be shared by 2 ranks"));
  const Outcome attention = headroom(
      "bench attention --device cpu --tokens 40,64 --heads 2 --head-dim 16 --causal --ranks 2 --trials 3 --quiet");
  EXPECT_EQ(attention.code, 0) << attention.err;
  EXPECT_THAT(attention.out, AllOf(HasSubstr("of one rank"), HasSubstr("\n    64      2 ")));
  expect_error("bench load --list", 2, HasSubstr("--list would change nothing of `bench load`"));
  expect_error("bench load --filter x", 2, HasSubstr("--filter would change nothing of `bench load`"));
  expect_error("bench kernels --lora x", 2, HasSubstr("--lora would change nothing of `bench kernels`"));
  expect_error("bench bodies --cache-schedule 10", 2, HasSubstr("--cache-schedule would change nothing"));
  expect_error("bench " + fashion_ + " --reference-rows 3", 2, HasSubstr("are given together"));
  expect_error("bench load --cold", 2, HasSubstr("--cold"));
  expect_error("bench no-such-model --rounds 2", 2, HasSubstr("--rounds"));
  expect_error("bench models --rounds 2", 2, HasSubstr("--rounds"));

  expect_error("bench models --batch 4 --filter 'batch 1'", 2, HasSubstr("--batch is what makes the benchmark"));
  expect_error("bench models --height 8", 2, HasSubstr("--height is what makes the benchmark"));

  const std::string bench = "bench no-such-model ";
  for (const char* option : {"--threshold 5%", "--force", "--save-verdict x"})
    expect_error(bench + option, 2, HasSubstr("needs a comparison: give --compare or --against as well"));
  for (const char* option : {"--max-processes 9", "--save-base x", "--compare x --max-processes 9"})
    expect_error(bench + option, 2, HasSubstr("give --against as well"));
  for (const char* option : {"--process-noise 1%", "--against x --process-noise 1%"})
    expect_error(bench + option, 2, HasSubstr("give --compare as well"));
  expect_error(bench + "--json --format csv", 2, AllOf(HasSubstr("--json"), HasSubstr("--format")));
  expect_error("plan " + fashion_ + " --memory --rejections", 2, HasSubstr("--memory"));
}

TEST_F(CliTest, AnEmptyListIsTheBaselineAndAnEmptyItemAMistake) {
  const std::string tiny = golden("tiny-guidance").string();
  EXPECT_THAT(headroom("bench " + tiny + " --token-rows 4 --trials 1 --opt ''").out, HasSubstr("baseline"));
  const Outcome ladder = headroom("ladder " + tiny + " --token-rows 4 --steps 1 --trials 3 --batch 1 --opt '' --out " +
                                  file("ladder").string());
  EXPECT_EQ(ladder.code, 0) << ladder.err;
  EXPECT_EQ(read_results(file("ladder") / "results.json").results.size(), 1U);
  const std::string sweep = "sweep " + tiny + " --trials 3 --resolution 32 --out " + file("sweep.json").string();
  EXPECT_EQ(headroom(sweep + " --steps 1 --opt ''").code, 0);
  EXPECT_THAT(read_results(file("sweep.json")).results.at(0).id, HasSubstr("baseline"));
  expect_error("convert " + tiny + " --opt '' --out x", 2, HasSubstr("int8"));

  expect_error(sweep + " --steps ''", 2, HasSubstr("--steps: '' is not a whole number from 1 to 10000"));
  expect_error(sweep + " --steps 4,,10", 2, HasSubstr("--steps: item 2 of '4,,10' is empty"));
  for (const char* list : {"4,", ",4", ",", "'4, '"})
    expect_error(sweep + " --steps " + list, 2, HasSubstr("is empty"));
  expect_error(sweep + " --opt arena,", 2, HasSubstr("--opt: item 2 of 'arena,' is empty"));
  expect_error("plan " + tiny + " --opt arena,,fuse", 2, HasSubstr("switches: item 2 of 'arena,,fuse' is empty"));
  for (const char* list : {",", "arena,"}) expect_error("plan " + tiny + " --opt " + list, 2, HasSubstr("is empty"));
  expect_error("report x --out y --format png,,html", 2, HasSubstr("--format: item 2 of 'png,,html' is empty"));
  expect_error("report x --out y --format ''", 2, HasSubstr("--format is empty: expected png"));
  expect_error("run " + fashion_ + " --labels 1,", 2, HasSubstr("--labels: item 2 of '1,' is empty"));
  expect_error("run " + fashion_ + " --labels ''", 2, HasSubstr("--labels is empty: expected all"));
}

/// What an unset variable of a shell leaves does not pass for an option that was not given.
TEST_F(CliTest, AnEmptyValueIsRefused) {
  for (const char* option : {"bench x --out", "bench x --budget", "bench x --compare", "bench x --threshold",
                             "ladder x --out", "ladder x --precision", "stream x --input a --out b --control",
                             "stream x --input a --out", "run x --like", "run x --prompts", "run x --lora",
                             "profile x --trace", "compare a b --series", "report x --out y --price", "plan x --pass"})
    expect_error(std::string(option) + " ''", 2,
                 HasSubstr(std::string(option).substr(std::string(option).rfind("--"))));
}

TEST_F(CliTest, ListsMayHaveBlanks) {
  const std::string tiny = golden("tiny-guidance").string();
  const std::string sweep = "sweep " + tiny + " --trials 3 --steps '1, 2' --resolution ' 32 ' --batch '1 ,2' --out " +
                            file("sweep.json").string() + " --opt ";
  const Outcome spaced = headroom(sweep + "'arena, fuse'");
  EXPECT_EQ(spaced.code, 0) << spaced.err;
  const ResultFile cells = read_results(file("sweep.json"));
  EXPECT_EQ(cells.results.size(), 4U);
  EXPECT_EQ(headroom(sweep + "arena,fuse").code, 0);
  EXPECT_EQ(read_results(file("sweep.json")).results, cells.results) << "the same cells, however they are written";
  EXPECT_THAT(headroom("plan " + tiny + " --token-rows 4 --quiet --opt ' flash, fuse '").out, HasSubstr("pass "));
  const Outcome labels =
      headroom("run " + fashion_ + " --labels 'Bag, 8' --steps 1 -q --out " + file("x.png").string());
  EXPECT_THAT(labels.out, testing::StartsWith("2 images in 1 step of ")) << labels.err;
}

TEST_F(CliTest, AMistakeIsFollowedByTheUsageOfItsCommand) {
  const std::string usage = "usage: headroom ladder MODEL [options]; see headroom ladder --help\n";
  expect_error("ladder", 2, testing::StartsWith("headroom: MODEL is missing: "));
  expect_error("ladder no-such-model --steps -1", 2, EndsWith("\n" + usage));
  expect_error("ladder no-such-model --opt warp", 2, EndsWith("\n" + usage));
  expect_error("paint", 2, EndsWith("\nusage: headroom COMMAND [options]; see headroom --help\n"));
  expect_error("bench /no-such-model", 2,
               EndsWith("\nusage: headroom bench [MODEL] [options]; see headroom bench --help\n"));
  EXPECT_THAT(headroom("report --help").out, HasSubstr("Usage: headroom report RESULTS... --out DIR [options]\n"));
  // What a process of its own says is reported once, with the usage of the command that the user gave.
  const Outcome outcome = headroom("bench no-such-model --processes 2");
  EXPECT_EQ(outcome.code, 2);
  EXPECT_EQ(std::ranges::count(outcome.err, '\n'), 2) << outcome.err;
}

TEST_F(CliTest, SlipsAreReportedWithWhatWasMeant) {
  expect_error("laddr", 2, HasSubstr("unknown command 'laddr'; did you mean 'ladder'?\n"));
  expect_error("run no-such-model --lables Bag", 2,
               HasSubstr("not expected: --lables Bag; did you mean '--labels'?\n"));
  expect_error("run no-such-model --opt flsh", 2, HasSubstr("unknown switch 'flsh'; did you mean 'flash'?\n"));
  expect_error("run no-such-model --opt losless", 2, HasSubstr("did you mean 'lossless'?\n"));
  expect_error("run fashoin-flux", 2, HasSubstr("no model 'fashoin-flux'"));
  expect_error("run fashoin-flux", 2, HasSubstr("; did you mean 'fashion-flux'?\n"));
  expect_error("run " + fashion_ + " --labels sneaker", 2, HasSubstr("; did you mean 'Sneaker'?\n"));
  expect_error("bench kernel", 2, HasSubstr("no model and no suite 'kernel'; did you mean 'kernels'?\n"));
  expect_error("bench kernels --filter 'liner bf16'", 2, HasSubstr("matches 'liner bf16'; did you mean 'linear bf16 "));
  expect_error("bench models --filter fashoin", 2, HasSubstr("; did you mean 'fashion-flux batch 1' or "));
}

/// Nothing else in these requests is there, so that work before the refusal would say so.
TEST_F(CliTest, ASuffixThatIsNotWrittenIsRefusedBeforeAnyWork) {
  expect_error("run no-such-model --out s.jpg", 2,
               HasSubstr("--out: 's.jpg' ends in .jpg; what can be written: .png\nusage: headroom run "));
  for (const char* command :
       {"bench no-such-model --out ", "bench no-such-model --against /no-such-program --save-base ",
        "bench no-such-model --against /no-such-program --save-verdict ", "profile no-such-model --out ",
        "profile no-such-model --trace ", "sweep no-such-model --out ", "compare no-such-base no-such-new --out "})
    expect_error(std::string(command) + "s.csv", 2, HasSubstr("'s.csv' ends in .csv; what can be written: .json\n"));
  expect_error("forward no-such-model --inputs no-such-inputs --out s.pt", 2, HasSubstr("written: .safetensors\n"));
  for (const char* command :
       {"ladder no-such-model --out ", "report no-such-results --out ", "convert no-such-model --out "})
    expect_error(std::string(command) + "s.json", 2, HasSubstr("'s.json' ends in .json as a file does; "));
  expect_error("report no-such-results --out x --format jpg", 2,
               HasSubstr("'jpg': expected png, html, svg, pdf, csv, md or latex"));
}

/// What a terminal would act on, in names of all kinds.
TEST_F(CliTest, NamesCannotSteerTheTerminal) {
  const std::string escape = "\x1b]0;title\x07\xC2\x9B";
  const std::string shown = "\\x1b]0;title\\x07\\u009b";
  const auto expect_shown = [&](const Outcome& outcome) {
    EXPECT_THAT(outcome.out + outcome.err, HasSubstr(shown));
    for (const char* control : {"\x1b", "\x07", "\xC2\x9B"})
      EXPECT_THAT(outcome.out + outcome.err, Not(HasSubstr(control)));
  };
  const auto quoted = [&](const std::string& name) { return "'" + name + escape + "'"; };
  expect_shown(headroom(quoted("paint")));
  expect_shown(headroom("run " + quoted("model")));
  expect_shown(headroom("run no-such-model --opt " + quoted("switch")));
  expect_shown(headroom("compare " + quoted("base") + " " + quoted("new")));
  expect_shown(headroom("report --out x " + quoted("results")));

  const fs::path model = folder() / ("tiny" + escape + "größer");
  fs::rename(tiny_copy(), model);
  const std::string bench = "bench '" + model.string() + "' --token-rows 4 --trials 1 -q";
  const Outcome table = headroom(bench);
  EXPECT_EQ(table.code, 0) << table.err;
  expect_shown(table);
  EXPECT_THAT(table.out, HasSubstr("größer forward"));
  const Outcome document = headroom(bench + " --json");
  for (const char* control : {"\x1b", "\x07", "\xC2\x9B"}) EXPECT_THAT(document.out, Not(HasSubstr(control)));
  EXPECT_EQ(parse_json(document.out, "stdout")["results"][0]["subject"]["name"], model.filename().string());

  const SafetensorsFile good = SafetensorsFile::open(golden("tiny-guidance") / "diffusion_pytorch_model.safetensors");
  std::map<std::string, HostTensor> tensors;
  for (const auto& [name, entry] : good.entries()) tensors.emplace(name, good.read(name));
  tensors.emplace("stranger" + escape, HostTensor(DType::kF32, {2}));
  write_safetensors(model / "diffusion_pytorch_model.safetensors", tensors);
  const Outcome stranger = headroom(bench);
  EXPECT_THAT(stranger.err, HasSubstr("stranger"));
  expect_shown(stranger);
}

TEST_F(CliTest, ArgumentsThatAreNotExpectedAreNamedInOrder) {
  expect_error("run no-such-model --stpes 3", 2,
               HasSubstr("headroom: these arguments were not expected: --stpes 3; did you mean '--steps'?\n"));
  expect_error("bench a b c --bogus", 2, HasSubstr("not expected: b c --bogus\n"));
  expect_error("models --bogus", 2, HasSubstr("headroom: this argument was not expected: --bogus\n"));
  expect_error("--bogus", 2, HasSubstr("--bogus"));
  expect_error("run no-such-model --out a --out b --out c", 2, HasSubstr("--out is given 3 times, expected once\n"));
  expect_error("run no-such-model --out", 2, HasSubstr("--out"));
}

TEST_F(CliTest, MissingThingsAreNamed) {
  expect_error("bench flux-dev", 1, HasSubstr("--random-weights"));
  expect_error("bench flux-512x1+1", 1, HasSubstr("--random-weights"));
  expect_error("bench flux-99999999x1+1 --random-weights 0", 2, HasSubstr("a multiple of 128 up to 65536"));
  expect_error("bench flux-512x5000+1 --random-weights 0", 1,
               HasSubstr("flux-512x5000+1: config.json: num_layers is 5000"));
  expect_error("bench " + fashion_ + " --device cuda", 1, AnyOf(HasSubstr("CUDA"), HasSubstr("NVIDIA")));
  expect_error("bench " + fashion_ + " --device cuda:1", 1, AnyOf(HasSubstr("CUDA"), HasSubstr("NVIDIA")));
  expect_error("bench " + fashion_ + " --device gpu", 2, HasSubstr("device 'gpu': expected auto, cpu, cuda, cuda:N"));
  expect_error("bench " + folder().string(), 1, HasSubstr("config.json"));
  expect_error("forward " + fashion_ + " --inputs /nowhere.safetensors --out x", 1, HasSubstr("/nowhere.safetensors"));
  expect_error(
      "run " + golden("tiny-guidance").string(), 1,
      HasSubstr("lacks 6 parts of a FluxPipeline: scheduler (scheduler_config.json, --part scheduler=PATH), "));
}

TEST_F(CliTest, WhatDoesNotFitIsReportedBeforeItIsLoaded) {
  const std::pair<std::string, std::string> whose[] = {
      {"bench ", "it"}, {"profile ", "its stage denoise"}, {"ladder ", "its stage denoise"}};
  for (const auto& [command, what] : whose)
    expect_error(command + fashion_ + " --token-rows 1024 --token-columns 1024 --opt baseline -q", 1,
                 AllOf(HasSubstr("fashion-flux does not fit in memory as it is asked for: " + what + " needs "),
                       HasSubstr(" of weights, "), HasSubstr(" of activations (scratch "), HasSubstr(" of device cpu "),
                       HasSubstr("it would fit with "), HasSubstr(" pixels (")));
}

TEST_F(CliTest, TheDeviceIsReportedFirstAndKeptInTheResult) {
  const Outcome outcome =
      headroom("bench " + fashion_ + " --token-rows 2 --token-columns 2 --trials 3 --out " + file("r.json").string());
  ASSERT_EQ(outcome.code, 0) << outcome.err;
  EXPECT_TRUE(outcome.err.starts_with("device: cpu, ")) << outcome.err;
  EXPECT_EQ(read_results(file("r.json")).results.front().configuration.device, "cpu");
}

TEST_F(CliTest, BrokenCheckpointsAreRefusedInOneSentence) {
  const fs::path tiny = tiny_copy();
  const fs::path weights = tiny / "diffusion_pytorch_model.safetensors";
  const SafetensorsFile good = SafetensorsFile::open(golden("tiny-guidance") / "diffusion_pytorch_model.safetensors");
  std::map<std::string, HostTensor> tensors;
  for (const auto& [name, entry] : good.entries()) tensors.emplace(name, good.read(name));
  const std::string bench = "bench " + tiny.string() + " --trials 1";

  auto missing = tensors;
  missing.erase("proj_out.bias");
  write_safetensors(weights, missing);
  expect_error(bench, 1, HasSubstr("proj_out.bias"));

  auto extra = tensors;
  extra.emplace("stranger", HostTensor(DType::kF32, {2}));
  write_safetensors(weights, extra);
  expect_error(bench, 1, HasSubstr("stranger"));

  auto wrong = tensors;
  wrong["proj_out.bias"] = HostTensor(DType::kF32, {3});
  write_safetensors(weights, wrong);
  expect_error(bench, 1, AllOf(HasSubstr("proj_out.bias"), HasSubstr("[3]")));

  fs::remove(weights);
  fs::copy(golden("tiny-guidance") / "diffusion_pytorch_model.safetensors", weights);
  fs::resize_file(weights, fs::file_size(weights) - 100);
  expect_error(bench, 1, HasSubstr(weights.string()));

  write_file_atomically(weights, std::string_view("\xff\xff\xff\xff\xff\xff\xff\x7f{}", 10));
  expect_error(bench, 1, HasSubstr("header"));

  fs::remove(weights);
  fs::copy(golden("tiny-guidance") / "diffusion_pytorch_model.safetensors", weights);
  write_file_atomically(tiny / "config.json", std::string_view("{\"_class_name\": \"UNet\"}"));
  expect_error(bench, 1,
               HasSubstr(tiny.string() + ": config.json: _class_name is \"UNet\", expected one of "
                                         "FluxTransformer2DModel, Flux2Transformer2DModel, "));

  fs::remove(tiny / "config.json");
  fs::copy(golden("tiny-guidance") / "config.json", tiny / "config.json");
  write_file_atomically(tiny / "scheduler_config.json", std::string_view("[]"));
  expect_error(bench, 1, HasSubstr(tiny.string() + "/scheduler_config.json: expected an object, got array"));
}

TEST_F(CliTest, WrongInputsOfForwardAreNamed) {
  const std::string folder = golden("tiny-guidance").string();
  const SafetensorsFile good = SafetensorsFile::open(folder + "/golden.safetensors");
  std::map<std::string, HostTensor> tensors;
  for (const auto& [name, entry] : good.entries()) tensors.emplace(name, good.read(name));
  const std::string forward = "forward " + folder + " --inputs " + file("in.safetensors").string() + " --out " +
                              file("out.safetensors").string();

  auto missing = tensors;
  missing.erase("guidance");
  write_safetensors(file("in.safetensors"), missing);
  expect_error(forward, 1, HasSubstr("guidance"));

  auto wrong = tensors;
  wrong["timestep"] = HostTensor(DType::kF32, {7});
  write_safetensors(file("in.safetensors"), wrong);
  expect_error(forward, 1, AllOf(HasSubstr("timestep"), HasSubstr("[7]")));
  EXPECT_FALSE(fs::exists(file("out.safetensors")));
}

TEST_F(CliTest, AStandardOutputThatCannotBeWrittenIsAnError) {
  const std::string program = kHeadroomBinary;
  const std::string plan = " plan " + golden("tiny-guidance").string() + " --quiet --token-rows 4";
  for (const std::string& command :
       std::vector<std::string>{" models", " --help", " --version", plan, plan + " --json"}) {
    const Outcome full = run(program + command + " 1>/dev/full");
    EXPECT_EQ(full.code, 1) << command;
    EXPECT_THAT(full.err, MatchesRegex("headroom: cannot write to standard output: no space left on /dev/full: "
                                       "[1-9][0-9]* bytes needed\n"))
        << command;
    EXPECT_EQ(run("(" + program + command + " >/dev/full 2>&1)").code, 1) << command;
    const Outcome closed = run(program + command + " 1>&-");
    EXPECT_EQ(closed.code, 1) << command;
    EXPECT_EQ(closed.err, "headroom: cannot write to standard output: Bad file descriptor\n") << command;
  }
  EXPECT_EQ(run("(" + program + " models >/dev/null 2>&-)").code, 0);
  EXPECT_EQ(run("(" + program + " paint >&- 2>&-)").code, 2);
  EXPECT_EQ(run("{ trap '' PIPE; { sleep 0.1; " + program + " models; echo $? >&2; } | true; }").err,
            "headroom: cannot write to standard output: Broken pipe\n1\n");
}

/// Nothing else in these requests is there, so that one that opened it first would say so.
TEST_F(CliTest, AnOutputThatCannotBeWrittenIsReportedBeforeAnyWork) {
  const std::string missing = file("missing/x").string();
  const auto sentence = testing::StartsWith("headroom: cannot write " + missing + ": No such file or directory");
  for (const char* command :
       {"run no-such-model --out ", "bench no-such-model --out ", "bench load --out ",
        "bench kernels --filter no-such-kernel --out ", "bench no-such-model --processes 2 --out ",
        "bench no-such-model --against /no-such-program --save-base ", "profile no-such-model --out ",
        "profile no-such-model --trace ", "sweep no-such-model --out ", "compare no-such-base no-such-new --out ",
        "forward no-such-model --inputs no-such-inputs --out ",
        "bench no-such-model --against /no-such-program --save-verdict "})
    expect_error(command + missing, 1, sentence);
  write_file_atomically(file("file"), "text");
  expect_error("ladder no-such-model --out " + file("file/x").string(), 1, HasSubstr("cannot make the folder"));
  expect_error("ladder no-such-model --out " + file("missing").string(), 2, HasSubstr("no-such-model"));
  EXPECT_FALSE(fs::exists(file("missing")));
}

TEST_F(CliTest, AnOutputThatCannotBeWrittenLeavesNothingBehind) {
  const std::string folder = golden("tiny-guidance").string();
  const std::string forward = "forward " + folder + " --quiet --inputs " + folder + "/golden.safetensors --out ";
  expect_error(forward + "/nowhere/out.safetensors", 1, HasSubstr("/nowhere/out.safetensors"));
  expect_error(
      forward + "/dev/full", 1,
      MatchesRegex("headroom: cannot write /dev/full: no space left on /dev/full: [1-9][0-9]* bytes needed\n"));
  // A limit on the size of files imitates a disk that fills up while the file is being written.
  const std::size_t before = files();
  const Outcome limited = run("{ trap '' XFSZ; ulimit -f 1; " + std::string(kHeadroomBinary) + " " + forward +
                              file("out.safetensors").string() + "; }");
  EXPECT_EQ(limited.code, 1);
  EXPECT_THAT(limited.err,
              MatchesRegex("headroom: cannot write .*/out.safetensors: files in .* may not become so large: "
                           "[1-9][0-9]* bytes needed\n"));
  EXPECT_EQ(files(), before);
}

}  // namespace
}  // namespace headroom
