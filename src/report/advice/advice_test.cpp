// The advice for results whose right advice is known. Each case lists only the differences from the common results:
// a baseline of 100 ms a step, and configurations whose times are certain.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "report/advice/decision_html.hpp"
#include "report/advice/deploy.hpp"
#include "report/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

constexpr const char* kNearness = "baseline, same seeds";

/// A measurement; its members set what differs from the default.
struct Entry {
  Result result;
  int file = 0;

  Entry& measured(const std::string& metric, double value, std::optional<Interval> interval = {},
                  const std::string& against = "the reference") {
    result.quality.push_back({.metric = metric, .against = against, .value = value, .interval = interval, .note = {}});
    return *this;
  }
  Entry& accuracy(double value, double reach, int images = 500) {
    return measured("accuracy", value, Interval{value - reach, value + reach},
                    fmt::format("labels of {} images", images));
  }
  Entry& psnr(double db) { return measured("psnr_db", db, {}, kNearness); }
  Entry& identical() {
    result.quality.push_back(psnr_record(kNearness, std::nullopt));
    return *this;
  }
  Entry& unsettled() {
    result.unsettled = "the rounds differ";
    return *this;
  }
  /// Other work held the CPUs for 40% of each step.
  Entry& disturbed() {
    TrialSeries& series = result.trials.front();
    for (const double ms : series.time_ms) series.conditions.waited_ms.push_back(0.4 * ms);
    return *this;
  }
  Entry& declines(const std::string& name, const std::string& same_as = "") {
    std::erase(result.configuration.applied, name);
    result.configuration.declined.push_back({name, "there is nothing to do"});
    if (!same_as.empty()) result.same_as = same_as;
    return *this;
  }
  Entry& in_file(int number) {
    file = number;
    return *this;
  }
  Entry& without_times() {
    result.trials.clear();
    return *this;
  }
};

std::vector<double> times_around(double ms, double spread) {
  std::vector<double> times;
  for (int i = 0; i < 12; ++i) times.push_back(ms * (1 + spread * (i % 4 - 1.5)));
  return times;
}

Entry step(std::vector<std::string> switches, double ms, double spread = 0.002,
           Subject subject = test::denoise_subject()) {
  return {.result = test::make_result(std::move(switches), times_around(ms, spread), std::move(subject))};
}
Entry baseline() { return step({}, 100); }
Entry pass(std::vector<std::string> switches, double ms, const Subject& subject) {
  return {.result = test::make_result(std::move(switches), times_around(ms, 0.002), subject, "forward")};
}
Subject images_at_once(int images) {
  Subject subject = test::denoise_subject();
  subject.request["images"] = images;
  return subject;
}
Subject unet_pass(int side) {
  return {.name = "tiny-unet", .request = {{"pass", "forward"}, {"batch", 1}, {"height", side}, {"width", side}}};
}
Subject transformer_pass() {
  return {.name = "tiny-dit", .request = {{"pass", "forward"}, {"batch", 1}, {"image_tokens", 256}}};
}

struct AdviceCase {
  const char* name;
  std::vector<Entry> entries;
  std::string deploy;           ///< "" for no recommendation
  std::string unresolved = "";  ///< faster, but with too few images to tell
  std::string unknown = "";     ///< faster, but of unknown quality
  std::string beyond = "";      ///< faster, but loses too much
  double limit = 0.01;
};

Dataset dataset_of(const std::vector<Entry>& entries) {
  std::map<int, std::vector<Result>> files;
  for (const Entry& entry : entries) files[entry.file].push_back(entry.result);
  std::vector<ResultFile> made;
  for (auto& [number, results] : files) {
    for (std::size_t i = 0; i < results.size(); ++i) results[i].id = results[i].name + "-" + std::to_string(i);
    made.push_back(test::make_file(results, fmt::format("2026-01-{:02}T00:00:00Z", number + 1)));
  }
  return test::make_dataset(std::move(made));
}

std::vector<AdviceCase> cases() {
  const auto exact = [] { return step({"arena", "fuse"}, 50); };
  const auto judged = [](Entry entry) { return entry.accuracy(0.98, 0.001).measured("frechet_distance", 0.2); };
  AutoTrial bf16_trial;
  bf16_trial.switch_name = "bf16";
  bf16_trial.kept = true;
  bf16_trial.error = 0.003;
  Entry chosen = step({"auto"}, 20);
  chosen.result.configuration.applied = {"arena", "bf16"};
  chosen.result.configuration.auto_trials = {bf16_trial};
  Entry stream = step({"arena"}, 20), stream_bf16 = step({"arena", "bf16"}, 10);
  for (Entry* one : {&stream, &stream_bf16}) {
    one->measured("psnr_db", 37.2, Interval{37.1, 37.3}, "the teacher's pictures");
    one->measured("flicker", 0.44, Interval{0.439, 0.441}, "the camera's");
  }
  return {
      // ---- exact switches
      {"exact switches alone", {baseline(), step({"arena"}, 80), exact()}, "arena+fuse"},
      {"an exact switch that is slower", {baseline(), step({"arena"}, 120)}, "baseline"},
      {"an exact switch whose judge is noisy",
       {baseline().accuracy(0.98, 0.01), exact().accuracy(0.97, 0.01)},
       "arena+fuse"},
      {"an exact switch that a measure contradicts", {baseline(), exact().psnr(20)}, "baseline", "", "", "arena+fuse"},
      {"nothing may be lost", {baseline(), exact(), step({"bf16"}, 20).psnr(80)}, "arena+fuse", "", "", "bf16", 0},

      // ---- worse quality, hidden in one measure
      {"worse in nearness", {baseline(), exact(), step({"fp8"}, 20).psnr(30)}, "arena+fuse", "", "", "fp8"},
      {"worse in the Frechet distance alone",
       {judged(baseline()), exact(), step({"steps=5"}, 20).accuracy(0.985, 0.001).measured("frechet_distance", 0.3)},
       "arena+fuse",
       "",
       "",
       "steps=5"},
      {"worse in accuracy alone",
       {judged(baseline()), exact(),
        step({"fp8"}, 20).accuracy(0.9, 0.001).measured("frechet_distance", 0.15).psnr(60)},
       "arena+fuse",
       "",
       "",
       "fp8"},
      {"rounding that is worse in nearness alone",
       {judged(baseline()), exact(), judged(step({"fp8"}, 20)).psnr(25)},
       "arena+fuse",
       "",
       "",
       "fp8"},
      {"worse in a perceptual distance alone",
       {baseline(), exact(), step({"fp8"}, 20).psnr(60).measured("perceptual", 0.2, {}, kNearness)},
       "arena+fuse",
       "",
       "",
       "fp8"},
      {"worse in the error of a pass alone",
       {judged(baseline()), exact(), judged(step({"fp8"}, 20)),
        pass({"baseline"}, 1, transformer_pass()).without_times().measured("relative_l2", 0.02).in_file(1),
        pass({"fp8"}, 1, transformer_pass()).without_times().measured("relative_l2", 0.09).in_file(1)},
       "arena+fuse",
       "",
       "",
       "fp8"},

      // ---- within the limit
      {"rounding that is near", {baseline(), exact(), step({"bf16"}, 20).psnr(60)}, "bf16"},
      {"a higher limit", {baseline(), exact(), step({"fp8"}, 20).psnr(30)}, "fp8", "", "", "", 0.05},
      {"images that are identical", {baseline(), exact(), step({"int8"}, 20).identical()}, "int8"},
      {"other pictures, which are no worse",
       {judged(baseline()), exact(), judged(step({"steps=5"}, 20)).psnr(20)},
       "steps=5"},
      {"other pictures, and no judge",
       {baseline(), exact(), step({"steps=5"}, 20).psnr(30)},
       "arena+fuse",
       "",
       "",
       "steps=5"},
      {"quality by another run of the same",
       {baseline(), exact(), step({"bf16"}, 20), baseline().accuracy(0.98, 0.001).in_file(1),
        step({"bf16"}, 20).accuracy(0.98, 0.001).in_file(1)},
       "bf16"},
      {"quality that auto measured", {baseline(), exact(), chosen}, "auto"},

      // ---- intervals
      {"too few images, each apart",
       {baseline().accuracy(0.98, 0.013), exact(), step({"bf16"}, 20).accuracy(0.98, 0.013)},
       "arena+fuse",
       "bf16"},
      {"as few images, in pairs",
       {baseline().accuracy(0.98, 0.013), exact(),
        step({"bf16"}, 20).accuracy(0.98, 0.013).measured("accuracy_difference", 0, Interval{-0.004, 0.004})},
       "bf16"},
      {"as few as say nothing, though in pairs",
       {baseline().accuracy(0.98, 0.013, 20), exact(),
        step({"bf16"}, 20).accuracy(0.98, 0.013, 20).measured("accuracy_difference", 0, Interval{-0.004, 0.004})},
       "arena+fuse",
       "bf16"},
      {"images enough",
       {baseline().accuracy(0.98, 0.003, 10'000), exact(), step({"bf16"}, 20).accuracy(0.98, 0.003, 10'000)},
       "bf16"},
      {"a Frechet distance that may have grown",
       {baseline().measured("frechet_distance", 0.2), exact(),
        step({"steps=5"}, 20)
            .measured("frechet_distance", 0.2)
            .measured("frechet_difference", 0, Interval{-0.01, 0.01})},
       "arena+fuse",
       "steps=5"},
      {"a Frechet distance that has shrunk",
       {baseline().measured("frechet_distance", 0.2), exact(),
        step({"steps=5"}, 20)
            .measured("frechet_distance", 0.15)
            .measured("frechet_difference", -0.05, Interval{-0.06, -0.04})},
       "steps=5"},
      {"a stream next to one of exact switches", {stream, stream_bf16}, "arena+bf16"},

      // ---- equal times
      {"the better in quality, with more switches",
       {judged(baseline()), step({"steps=5"}, 20).accuracy(0.98, 0.001).measured("frechet_distance", 0.2),
        step({"sampler=unipc", "steps=5"}, 20.01).accuracy(0.995, 0.001).measured("frechet_distance", 0.1)},
       "sampler=unipc+steps=5"},
      {"exact rather than rounded", {baseline(), exact(), step({"bf16"}, 49.99).psnr(45)}, "arena+fuse"},
      {"fewer switches, all exact", {baseline(), step({"arena"}, 50), step({"arena", "fuse"}, 49.99)}, "arena"},
      {"fewer switches, no better in quality that counts",
       {baseline(), step({"bf16"}, 50).psnr(70), step({"bf16", "tf32"}, 49.99).psnr(71)},
       "bf16"},
      {"times too wide to tell",
       {baseline(), step({"arena"}, 50, 0.1), step({"arena", "bf16"}, 47, 0.1).psnr(45)},
       "arena"},

      // ---- what does not count
      {"a switch that declined",
       {baseline(), step({"arena"}, 50), step({"arena", "tile"}, 40).declines("tile", "arena")},
       "arena"},
      {"the fastest is unsettled",
       {baseline(), exact(), step({"arena", "fuse", "graph"}, 10).unsettled()},
       "arena+fuse"},
      {"the fastest was disturbed",
       {baseline(), exact(), step({"arena", "fuse", "graph"}, 10).disturbed()},
       "arena+fuse"},
      {"all were disturbed", {baseline().disturbed(), step({"arena"}, 50).disturbed()}, ""},
      {"all but the baseline are unsettled", {baseline(), step({"arena"}, 50).unsettled()}, "baseline"},
      {"not measured", {baseline(), exact(), step({"bf16"}, 20)}, "arena+fuse", "", "bf16"},
      {"measured by what nobody knows",
       {baseline(), exact(), step({"bf16"}, 20).measured("beauty", 0.9)},
       "arena+fuse",
       "",
       "bf16"},
      {"nothing that is known", {step({"bf16"}, 20), step({"fp8"}, 10)}, "", "", "fp8"},
      {"nothing that is within", {step({"bf16"}, 20).psnr(20)}, "", "", "", "bf16"},

      // ---- passes, batches and units
      {"a U-Net, by the error of its pass",
       {pass({}, 20, unet_pass(64)), pass({"fp16"}, 2, unet_pass(64)),
        pass({"baseline"}, 1, unet_pass(64)).without_times().measured("relative_l2", 6e-6).in_file(1),
        pass({"lossless", "fp16"}, 1, unet_pass(64)).without_times().measured("relative_l2", 0.0017).in_file(1)},
       "fp16"},
      {"a U-Net, by an error at another size",
       {pass({}, 20, unet_pass(64)), pass({"fp16"}, 2, unet_pass(64)),
        pass({"baseline"}, 1, unet_pass(32)).without_times().measured("relative_l2", 6e-6).in_file(1),
        pass({"fp16"}, 1, unet_pass(32)).without_times().measured("relative_l2", 0.0017).in_file(1)},
       "baseline",
       "",
       "fp16"},
      {"the lowest latency of several batches",
       {step({}, 40, 0.002, images_at_once(1)), step({"arena"}, 30, 0.002, images_at_once(1)),
        step({}, 100, 0.002, images_at_once(8)).in_file(1),
        step({"bf16"}, 60, 0.002, images_at_once(8)).psnr(60).in_file(1)},
       "arena"},
      {"quality that was judged in another batch",
       {step({}, 40, 0.002, images_at_once(1)), step({"bf16"}, 30, 0.002, images_at_once(1)),
        step({}, 100, 0.002, images_at_once(8)).accuracy(0.98, 0.001).in_file(1),
        step({"bf16"}, 60, 0.002, images_at_once(8)).accuracy(0.98, 0.001).in_file(1)},
       "bf16"},
  };
}

std::string label_of(const std::optional<Candidate>& candidate) {
  return candidate ? candidate->measurement->label : "";
}

TEST(Advice, IsRightForAllKindsOfResults) {
  const std::vector<AdviceCase> all = cases();
  EXPECT_GE(all.size(), 30U);
  for (const AdviceCase& one : all) {
    SCOPED_TRACE(one.name);
    const Dataset dataset = dataset_of(one.entries);
    const Decision d = decide(dataset, views_of(dataset).front(), one.limit);
    EXPECT_EQ(label_of(d.deploy), one.deploy) << (d.deploy ? d.deploy->loss->basis : "");
    EXPECT_EQ(label_of(d.faster_unresolved), one.unresolved);
    EXPECT_EQ(label_of(d.faster_unknown), one.unknown);
    EXPECT_EQ(label_of(d.faster_beyond), one.beyond);
  }
}

/// The decision in the words of the dashboard.
std::string decision_text(const std::vector<Entry>& entries) {
  const Dataset dataset = dataset_of(entries);
  const View view = views_of(dataset).front();
  return decision_html(dataset, view, decide(dataset, view, 0.01), 0.01);
}

TEST(Advice, SaysWhatWouldResolveTheQuality) {
  const std::string html =
      decision_text({baseline().accuracy(0.98, 0.013), step({"arena"}, 50), step({"bf16"}, 20).accuracy(0.98, 0.013)});
  EXPECT_THAT(html, HasSubstr("Faster, quality not resolved"));
  EXPECT_THAT(html, HasSubstr("-1.84 to 1.84 percentage points of accuracy lost"));
  EXPECT_THAT(html, HasSubstr("judge 1700 images"));
}

TEST(Advice, IsInOneUnitOfTime) {
  const std::string html = decision_text({baseline(), step({"arena"}, 50), step({"fp8"}, 20).psnr(20)});
  EXPECT_THAT(html, HasSubstr("Time per image"));
  EXPECT_THAT(html, HasSubstr("<bdi>fp8</bdi>, 100 ms an image: "));
  EXPECT_THAT(html, testing::Not(HasSubstr("a request")));
}

TEST(Advice, SaysWhatWasDisturbed) {
  const std::string some = decision_text({baseline(), step({"arena"}, 50).disturbed()});
  EXPECT_THAT(some, HasSubstr("<h2>Deploy <bdi>baseline</bdi></h2>"));
  EXPECT_THAT(some, HasSubstr("Unsettled, not considered"));
  EXPECT_THAT(some, HasSubstr("threads waited for one for 40% of a typical step"));
  EXPECT_THAT(decision_text({baseline().disturbed(), step({"arena"}, 50).disturbed()}),
              HasSubstr("has a settled time here: measure again on a quiet machine"));
}

TEST(Advice, SaysWhereTooFewTrialsMakeItUncertain) {
  Entry few = step({"arena"}, 50);
  few.result.trials = {make_series("step", Trials{.wall_ms = {49, 50, 51}})};
  EXPECT_THAT(decision_text({baseline(), few}),
              HasSubstr("It is not certain that it is the fastest: 3 trials give no 95% interval, 6 would."));
  EXPECT_THAT(decision_text({baseline(), step({"arena"}, 50)}), testing::Not(HasSubstr("not certain")));
  EXPECT_THAT(decision_text({few}), testing::Not(HasSubstr("not certain"))) << "there is no other";
  Entry lone = step({"arena"}, 50);
  for (std::int64_t& process : lone.result.trials.front().process) process = 0;
  const std::string html = decision_text({baseline(), lone});
  EXPECT_THAT(html, HasSubstr("It is not certain that it is the fastest: one process says nothing of how processes "
                              "differ."));
  EXPECT_THAT(html, HasSubstr("2.00x as fast</span><span class=\"detail\">no interval: one process says nothing"));
}

/// The same of a model by another name, with or without random weights.
Entry named(Entry entry, const std::string& model, bool is_random = false) {
  entry.result.subject.name = model;
  if (is_random) entry.result.tags = {"random_weights"};
  return entry;
}

TEST(Advice, NamesACommandThatTakesTheModel) {
  const std::string shipped =
      decision_text({named(baseline(), "fashion-flux"), named(step({"bf16"}, 20), "fashion-flux")});
  const std::string work = "--batch 2 --height 32 --width 32 --steps 10";  // test::denoise_subject() of this model
  EXPECT_THAT(shipped,
              HasSubstr(fmt::format("<code>headroom ladder fashion-flux {} --opt bf16 --quality 500</code>", work)));
  EXPECT_THAT(shipped, HasSubstr(fmt::format("not profiled: <code>headroom profile fashion-flux {} --opt baseline "
                                             "--out profile.json</code>",
                                             work)))
      << "the command's own switches are lossless";
  EXPECT_THAT(decision_text({named(baseline(), "fashion-flux"), named(step({"arena", "fuse"}, 20), "fashion-flux")}),
              HasSubstr(fmt::format("<code>headroom profile fashion-flux {} --opt arena,fuse --out profile.json</code>",
                                    work)));
  Subject decode = unet_pass(64);
  decode.request["pass"] = "decode";
  EXPECT_THAT(
      decision_text({named(pass({}, 20, decode), "taesd", true), named(pass({"fp16"}, 2, decode), "taesd", true)}),
      HasSubstr("<code>headroom ladder taesd --random-weights 0 --pass decode --height 64 --width 64 --opt fp16 --out "
                "error</code>"));
  const Entry base = named(baseline(), "flux-dev", true);
  EXPECT_THAT(decision_text({base, named(step({"steps=5"}, 20), "flux-dev", true)}),
              HasSubstr("judge it with trained weights"));
  EXPECT_THAT(decision_text({base, named(step({"fp8"}, 20), "flux-dev", true)}),
              HasSubstr("<code>headroom ladder flux-dev --random-weights 0 --pass forward --batch 1 --height 256 "
                        "--width 256 --opt fp8 --out error</code>"));
}

TEST(Advice, SaysOnHowManyGpus) {
  const auto text = [](const std::vector<std::string>& switches, const char* device) {
    Entry one = named(baseline(), "flux-dev", true), two = named(step(switches, 20), "flux-dev", true);
    for (Entry* entry : {&one, &two}) entry->result.configuration.device = device;
    test::set_memory(two.result, 1 << 20, 8 << 20, 8 << 20);
    return decision_text({one, two});
  };
  const std::string html = text({"arena", "cp=2:ring"}, "cuda");
  EXPECT_THAT(html, HasSubstr("10 steps (16x16 image tokens), on 2 GPUs; measured"));
  EXPECT_THAT(html, HasSubstr("at the peak of each, on 2 GPUs, of "));
  EXPECT_THAT(text({"arena", "cp=2:ring"}, "cpu"), testing::Not(HasSubstr(" GPUs"))) << "ranks of a CPU share it";
  EXPECT_THAT(text({"fp8", "cp=2:ring"}, "cuda"), HasSubstr("--opt fp8 --out error</code>")) << "a pass has no ranks";
}

TEST(Advice, NamesACommandOfTheSameWork) {
  const auto exact_of = [](const char* model, Subject subject) {
    subject.name = model;
    return decision_text({named(pass({"fp8"}, 20, subject), model, true)});
  };
  Subject forward = transformer_pass();
  forward.request = {{"pass", "forward"}, {"batch", 4}, {"image_tokens", 8192}, {"text_tokens", 512}};
  EXPECT_THAT(exact_of("flux-dev", forward),
              HasSubstr("<code>headroom bench flux-dev --random-weights 0 --pass forward --batch 4 --token-rows 64 "
                        "--token-columns 128 --text-tokens 512 --opt lossless</code>"));
  forward.request = {
      {"pass", "forward"}, {"batch", 1}, {"image_tokens", 4096}, {"reference_tokens", 1024}, {"text_tokens", 512}};
  const std::string edited = exact_of("flux-dev", forward);
  EXPECT_THAT(edited, HasSubstr("--token-rows 64 --token-columns 64 --reference-rows 32 --reference-columns 32"));
  EXPECT_THAT(edited, testing::Not(HasSubstr("headroom profile"))) << "it takes no reference image";
  Subject frame = unet_pass(64);
  frame.request["pass"] = "frame";
  frame.request["steps"] = 20;
  EXPECT_THAT(exact_of("live-stream-unet", frame), HasSubstr("--height 64 --width 64 --opt lossless,steps=20</code>"));
}

TEST(Advice, CallsNothingFasterThatIsEqualInTime) {
  const std::string html = decision_text({baseline(), step({"arena"}, 50), step({"fp8"}, 49.99).psnr(20)});
  EXPECT_THAT(html, testing::Not(HasSubstr("Faster, beyond the limit")));
  // "graph" is equal in time to "arena", which has fewer switches.
  const std::string equals = decision_text({baseline(), step({"arena"}, 50), step({"arena", "graph"}, 49.99)});
  EXPECT_THAT(equals, HasSubstr("<h2>Deploy <bdi>arena</bdi></h2>"));
  EXPECT_THAT(equals, testing::Not(HasSubstr("For throughput")));
}

TEST(Advice, CountsTheSamplesOfPassesOfSeveralSizes) {
  Subject four = unet_pass(64);
  four.request["batch"] = 4;
  const std::string html =
      decision_text({pass({}, 20, unet_pass(64)), pass({"arena"}, 10, unet_pass(64)), pass({"arena"}, 20, four)});
  EXPECT_THAT(html, HasSubstr("100 samples/s"));
  EXPECT_THAT(html, HasSubstr("<dt>For throughput</dt><dd><bdi>arena</bdi>, 4 at once: 200 samples/s"));
}

TEST(Advice, NamesNoCommandOfAModelThatItsNameDoesNotOpen) {
  for (const char* model : {"my-folder", "text_encoder", "flux-dev"}) {  // the last has no checkpoint of its own
    const std::string html = decision_text({named(baseline(), model), named(step({"bf16"}, 20), model)});
    EXPECT_THAT(html, testing::Not(HasSubstr("<code>headroom"))) << model;
    EXPECT_THAT(html, HasSubstr("measure it with the command ladder and --batch 2 --"));
    EXPECT_THAT(html, HasSubstr(fmt::format("--steps 10 --opt bf16 --quality 500, given the folder of {}, which the "
                                            "result does not name",
                                            model)));
  }
}

TEST(Advice, SaysWhatToTimeWhereNothingIsWithinTheLimit) {
  const std::string beyond = decision_text({named(step({"fp8"}, 20).psnr(20), "fashion-flux")});
  EXPECT_THAT(beyond, HasSubstr("<h2>Deploy <bdi>lossless</bdi>, which was not timed here</h2>"));
  EXPECT_THAT(beyond, HasSubstr("<code>headroom ladder fashion-flux --batch 2 --height 32 --width 32 --steps 10 "
                                "--opt lossless</code>"));
  EXPECT_THAT(beyond, HasSubstr("is beyond the limit, RMS error grown by at most 1% of the range of values"));
  EXPECT_THAT(decision_text({step({"fp8"}, 20)}), HasSubstr("<h2>Quality not measured</h2>"));
}

TEST(Advice, NamesPresets) {
  Entry lossless = step({"arena", "flash", "fuse", "hoist", "channels-last", "tile"}, 20);
  EXPECT_THAT(decision_text({baseline(), lossless}), HasSubstr("Deploy <bdi>lossless</bdi>"));
}

}  // namespace
}  // namespace headroom
