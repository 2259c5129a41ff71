#include "measure/results/result.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <stdexcept>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/test_paths.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "ir/text/text.hpp"
#include "measure/quality/quality.hpp"
#include "passes/pass.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

const fs::path kSource = kSourceDir;
const fs::path kExample = kSource / "docs/result.example.json";

struct CommandOutput {
  int status = -1;
  std::string text;
};
CommandOutput run_command(const std::string& command) {
  CommandOutput output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) throw std::runtime_error("cannot run " + command);
  std::array<char, 4096> buffer{};
  while (const std::size_t read = fread(buffer.data(), 1, buffer.size(), pipe)) output.text.append(buffer.data(), read);
  output.status = pclose(pipe);
  return output;
}

/// A Python interpreter that has jsonschema: the distribution's own one, for which its package is installed. Empty if
/// there is none.
std::string find_python() {
  for (std::string python : {"/usr/bin/python3", "python3"}) {
    if (run_command(python + " -c 'from jsonschema import Draft202012Validator'").status == 0) return python;
  }
  return {};
}

/// Runs the independent checker on files.
CommandOutput check_against_schema(const std::vector<fs::path>& files) {
  static const std::string python = find_python();
  if (python.empty()) return {-1, "no Python here has jsonschema 4; install the package python3-jsonschema"};
  std::string command = python + " '" + (kSource / "src/measure/results/result_schema_check.py").string() + "' '" +
                        (kSource / "docs/result.schema.json").string() + "'";
  for (const fs::path& file : files) command += " '" + file.string() + "'";
  return run_command(command);
}

Trials some_trials(std::int64_t process) {
  Trials trials;
  for (int i = 0; i < 20; ++i) trials.wall_ms.push_back(10 + std::sin(i + 0.1 * static_cast<double>(process)));
  trials.warmup = 5;
  trials.process = process;
  trials.round = process;
  trials.conditions = {.cpu_mhz = std::vector<double>(20, 2500.5),
                       .steal_ms = std::vector<double>(20, 10),
                       .preemptions = std::vector<std::int64_t>(20, 1),
                       .waited_ms = std::vector<double>(20, 0.25),
                       .gpu_clock_mhz = std::vector<double>(20, 1980),
                       .gpu_memory_clock_mhz = std::vector<double>(20, 3201),
                       .gpu_power_w = std::vector<double>(20, 612.5),
                       .gpu_throttle = std::vector<std::int64_t>(20, 4)};
  return trials;
}

/// A file with every optional member in one result and none in the other.
ResultFile sample_file() {
  ResultFile file{.created = utc_now(), .machine = describe_machine(), .plans = {}, .results = {}};
  file.plans["p1"].nodes = {{.node = "blocks.0.attn.to_q",
                             .op = "linear",
                             .kernel = "onednn.linear",
                             .implementation = "brgemm:avx512_core_bf16",
                             .compute_type = "bf16",
                             .cost_bytes = 1.5e6,
                             .cost_flops = 2e9,
                             .cost_unit = "matrix",
                             .parts = 20,
                             .rejections = {{"amx.linear", "this CPU has no AMX"}}}};
  Result full;
  full.id = "dit/fast";
  full.name = "fast \u2192 \"bf16\"";
  full.subject = {SubjectKind::kModel, "dit", {{"width", 32}, {"height", 32}, {"guidance", 3.5}, {"sampler", "euler"}}};
  full.subject.parameters = 1000;
  full.subject.token_pixels = 16;
  full.source.version = "0.1.0";
  full.configuration = {.device = "cuda",
                        .gpu = UsedGpu{.name = "NVIDIA H200", .index = 1, .uuid = "GPU-1234"},
                        .asked = {"arena", "bf16"},
                        .applied = {"arena"},
                        .declined = {{"bf16", "the CPU has no bf16 units"}},
                        .kept = {{"arena", "too small", {"blocks.0", "blocks.1"}}},
                        .auto_trials = {{.switch_name = "sampler=unipc,steps=14",
                                         .without_ms = 20,
                                         .with_ms = 10,
                                         .factor = 2,
                                         .interval = Interval{1.9, 2.1},
                                         .error = 0.03,
                                         .kept = true,
                                         .why = "it pays"}},
                        .threads = 2,
                        .baseline_dtype = "f32"};
  full.trials = {make_series("step", std::vector{some_trials(0), some_trials(1)}),
                 make_series("image", some_trials(0))};
  full.memory = MemoryReport{1, 2, 3, 4, 5, 15, 16, 17, 18, 19};
  full.quality = {{"relative_l2", "baseline f32", 0.001, std::nullopt, std::nullopt},
                  {"accuracy", "test set", 0.9, Interval{0.88, 0.92}, std::nullopt},
                  psnr_record("baseline f32", std::nullopt)};
  full.tags = {"forced"};
  full.unsettled = "its rounds disagree";
  full.computed_share = {1, 0.25, 0};
  full.plan = "p1";
  full.profile = ProfileRecord{.time_ms = {0.5},
                               .alone_ms = {0.45},
                               .floor_ms = {0.4},
                               .floor_of = {"flops"},
                               .runs = {28},
                               .idle_share = 0.25,
                               .busy_ms = 0.3,
                               .loop_step_ms = 0.375};
  full.floor = FloorRecord{.ms = 0.25, .of = "copy"};
  full.stages = {{.name = "image", .memory_bytes = {}, .weights_bytes = {}, .floor_ms = {}},  // a series is enough
                 {.name = "step", .memory_bytes = 20, .weights_bytes = 21, .floor_ms = 1.5}};

  Result sparse;
  sparse.id = "softmax/peer";
  sparse.name = "peer";
  sparse.subject = {SubjectKind::kKernel, "softmax", {{"shape", {2, 3}}}};
  sparse.source = {"torch", "2.11.0"};
  sparse.configuration.device = "cpu";
  Trials one;
  one.wall_ms = {0.25};
  one.complete = false;
  sparse.trials = {make_series("call", one)};

  Result stream;
  stream.id = stream.name = "stream";
  stream.subject = {SubjectKind::kStream, "dit", {{"width", 32}, {"height", 32}}};
  stream.source.version = "0.1.0";
  stream.configuration.device = "cpu";
  LatencyLog log;
  for (std::int64_t i = 0; i < 60; ++i)
    log.add({.frame = i + (i > 30 ? 1 : 0),
             .arrived_ms = 20.0 * static_cast<double>(i),
             .decode_ms = 1.5,
             .queue_ms = 0.25,
             .device_ms = 4 + 0.001 * static_cast<double>(i),
             .encode_ms = 2,
             .repeated = i == 5});
  log.drop();
  stream.latency = log.record(50.0, true, 1.25);
  file.results = {full, sparse, stream};
  return file;
}

TEST(ResultFile, FreshFilePassesTheSchemaAndReadsBack) {
  const TempFolder folder;
  const ResultFile file = sample_file();
  write_results(folder / "fresh.json", file);
  const CommandOutput check = check_against_schema({folder / "fresh.json"});
  EXPECT_EQ(check.status, 0) << check.text;
  EXPECT_EQ(read_results(folder / "fresh.json"), file);
}

/// Two matmuls without a module's name; fp8 records why it left them unchanged.
TEST(ResultFile, WhatPassesLeftReadsBackWhereNoModuleMadeIt) {
  Graph graph = parse_graph(R"(graph g {
      input %x: f32[1, 128, 32]
      param %w0: f32[32, 32]
      param %w1: f32[32, 32]
      %1: f32[1, 128, 32] = linear(%x, %w0)
      %2: f32[1, 128, 32] = linear(%1, %w1)
      output y = %2
    })");
  constexpr Target kHopper{.device = DeviceKind::kCuda, .compute_capability = 90};
  ResultFile file = sample_file();
  std::vector<KeptNodes>& kept = file.results[0].configuration.kept;
  kept.clear();
  for (const PassRecord& pass : optimize(graph, SwitchSet::parse("fp8"), kHopper).passes)
    for (const PassNote& note : pass.notes) kept.push_back({std::string(pass.switch_name), note.reason, note.nodes});
  ASSERT_FALSE(kept.empty());
  const TempFolder folder;
  write_results(folder / "kept.json", file);
  EXPECT_EQ(read_results(folder / "kept.json"), file);
}

TEST(ResultFile, ExampleInTheDocumentsIsTrueToSchemaAndCode) {
  const CommandOutput check = check_against_schema({kExample});
  EXPECT_EQ(check.status, 0) << check.text;
  const ResultFile file = read_results(kExample);
  EXPECT_EQ(to_json(file), read_json(kExample));
  ASSERT_FALSE(file.results.empty());
  for (const Result& result : file.results) {
    for (const TrialSeries& series : result.trials) {
      const Summary summary = summarize(series.time_ms);
      EXPECT_DOUBLE_EQ(series.statistics.median, summary.median) << result.id;
      EXPECT_DOUBLE_EQ(series.statistics.mean, summary.mean) << result.id;
      EXPECT_EQ(series.statistics.outliers_severe, summary.outliers_severe) << result.id;
      EXPECT_EQ(series.statistics.median_interval, summary.median_interval) << result.id;
    }
  }
}

TEST(ResultFile, SchemaInTheDocumentsIsThatOfTheRecords) {
  EXPECT_TRUE(read_json(kSource / "docs/result.schema.json") == json(result_schema()))
      << "make it again: headroom report --schema > docs/result.schema.json";
}

TEST(ResultFile, OnlyStreamsHaveLatencies) {
  ResultFile file = sample_file();
  file.results[2].latency.reset();
  EXPECT_THAT(error_of([&] { (void)to_json(file); }), HasSubstr("a stream result must have frame latencies"));
  file = sample_file();
  file.results[1].latency = file.results[2].latency;
  EXPECT_THAT(error_of([&] { (void)to_json(file); }), HasSubstr("a kernel result must have no frame latencies"));
}

TEST(ResultFile, RefusesFiguresThatLatenciesDoNotGive) {
  json document = to_json(sample_file());
  document["results"][2]["latency"]["statistics"]["p99_ms"] = 1;
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "a.json"); }), HasSubstr("p99_ms of the latency"));
  document = to_json(sample_file());
  document["results"][2]["latency"]["late"] = "hope";
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "a.json"); }), HasSubstr("hope"));
}

TEST(ResultFile, KeepsColumnsOnOneLine) {
  const TempFolder folder;
  ResultFile file = sample_file();
  file.results[1].trials[0] = make_series("call", Trials{.wall_ms = {0.25, 0.5, 1}});
  write_results(folder / "a.json", file);
  EXPECT_THAT(read_file(folder / "a.json"), HasSubstr("\"time\": [0.25,0.5,1.0]"));
}

TEST(ResultFile, RefusesOtherSchemasByName) {
  json document = to_json(sample_file());
  document["schema"] = "headroom.result/2";
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "a.json"); }),
              AllOf(HasSubstr("a.json"), HasSubstr("headroom.result/2"), HasSubstr("headroom.result/1")));
  document.erase("schema");
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "a.json"); }), HasSubstr("schema"));
}

TEST(ResultFile, NeverWritesNanOrInfinity) {
  const TempFolder folder;
  const double infinity = std::numeric_limits<double>::infinity();
  ResultFile file = sample_file();
  file.results[0].quality[0].value = infinity;
  EXPECT_THAT(error_of([&] { write_results(folder / "a.json", file); }), HasSubstr("\"value\" of the relative_l2"));
  file = sample_file();
  file.results[1].trials[0].time_ms[0] = std::nan("");
  EXPECT_THAT(error_of([&] { write_results(folder / "a.json", file); }), HasSubstr("/results/1/trials/0/time/0"));
  file = sample_file();
  file.results[0].subject.request["guidance"] = -infinity;
  EXPECT_THAT(error_of([&] { write_results(folder / "a.json", file); }), HasSubstr("guidance"));
  EXPECT_FALSE(fs::exists(folder / "a.json"));
}

TEST(ResultFile, IdenticalImagesBecomeANote) {
  const std::vector<float> image = {0.5F, -0.5F};
  const QualityRecord record = psnr_record("itself", psnr_db(image, image));
  EXPECT_FALSE(record.value.has_value());
  EXPECT_EQ(record.note, "identical");
  const QualityRecord differing = psnr_record("another", psnr_db(image, std::vector<float>{0.5F, 0.5F}));
  EXPECT_NEAR(differing.value.value(), 10 * std::log10(8.0), 1e-9);
  EXPECT_FALSE(differing.note.has_value());
}

/// A fault, and a word that the reader's message about it must contain.
struct Fault {
  std::string name;
  std::function<void(json&)> apply;
  std::string word;
};

// Faults that a schema can express: the independent validator and the reader must both reject them.
const std::vector<Fault> kSchemaFaults = {
    {"missing", [](json& d) { d["results"][0].erase("subject"); }, "subject"},
    {"misspelt", [](json& d) { d["results"][0]["qualty"] = json::array(); }, "qualty"},
    {"null", [](json& d) { d["results"][0]["quality"][0]["value"] = nullptr; }, "value"},
    {"kind", [](json& d) { d["results"][0]["subject"]["kind"] = "song"; }, "song"},
    {"request", [](json& d) { d["results"][0]["subject"]["request"] = 3; }, "request"},
    {"unit", [](json& d) { d["results"][0]["trials"][0]["unit"] = "s"; }, "\"s\""},
    {"no_trials", [](json& d) { d["results"][0]["trials"][0]["time"] = json::array(); }, "\"time\""},
    {"text_time", [](json& d) { d["results"][0]["trials"][0]["time"][3] = "fast"; }, "\"time\"[3]"},
    {"half_interval", [](json& d) { d["results"][0]["trials"][0]["statistics"].erase("ci_high_ms"); }, "ci_high_ms"},
    {"silent_quality", [](json& d) { d["results"][0]["quality"][0].erase("value"); }, "relative_l2"},
    {"memory", [](json& d) { d["results"][0]["memory"]["peak_bytes"] = 0.5; }, "peak_bytes"},
    {"cost", [](json& d) { d["plans"]["p1"]["nodes"][0]["cost"].erase("flops"); }, "flops"},
    {"machine", [](json& d) { d["machine"]["cpu"] = 7; }, "cpu"},
    {"profile", [](json& d) { d["results"][0]["profile"].erase("runs"); }, "runs"},
    {"stage", [](json& d) { d["results"][0]["stages"][1]["floor_ms"] = -1; }, "floor_ms"},
    {"stage_member", [](json& d) { d["results"][0]["stages"][0]["ms"] = 2; }, "\"ms\""},
};

TEST(ResultFile, ValidatorAndReaderRefuseTheSameFaults) {
  const TempFolder folder;
  std::vector<fs::path> files;
  for (const Fault& fault : kSchemaFaults) {
    json document = to_json(sample_file());
    fault.apply(document);
    files.push_back(folder / (fault.name + ".json"));
    write_json(files.back(), document);
    EXPECT_THAT(error_of([&] { (void)read_results(files.back()); }),
                AllOf(HasSubstr(fault.word), HasSubstr(fault.name + ".json")));
  }
  const CommandOutput check = check_against_schema(files);
  EXPECT_NE(check.status, 0);
  for (const fs::path& file : files) EXPECT_THAT(check.text, HasSubstr(file.string() + ": $"));
}

// Invariants across members are beyond a schema; writer and reader check them.
TEST(ResultFile, RefusesWhatDoesNotFitTogether) {
  const auto fault = [](const std::function<void(ResultFile&)>& change) {
    ResultFile file = sample_file();
    change(file);
    return error_of([&] { (void)to_json(file); });
  };
  EXPECT_THAT(fault([](ResultFile& f) { f.results[1].id = "dit/fast"; }), HasSubstr("dit/fast"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].plan = "p9"; }), HasSubstr("p9"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].trials[1].what = "step"; }), HasSubstr("two series of 'step'"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].trials[0].process.pop_back(); }), HasSubstr("39 process numbers"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].trials[0].round.pop_back(); }), HasSubstr("39 round numbers"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].same_as = "dit/fast"; }), HasSubstr("no other result"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].same_as = "dit/slow"; }), HasSubstr("'dit/slow'"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].trials[0].statistics.n = 3; }), HasSubstr("statistics of 3"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].configuration.declined.clear(); }), HasSubstr("'bf16'"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].quality[2].note.reset(); }), HasSubstr("psnr_db"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].profile->time_ms.clear(); }),
              HasSubstr("0 entries for the 1 nodes"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].plan.reset(); }), HasSubstr("names no plan"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].stages[1].name = "image"; }), HasSubstr("stage 'image' twice"));
  EXPECT_THAT(fault([](ResultFile& f) { f.results[0].stages[1].name = "decode"; }), HasSubstr("stage 'decode'"));

  json document = to_json(sample_file());
  document["results"][0]["plan"] = "p9";
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "a.json"); }),
              AllOf(HasSubstr("a.json"), HasSubstr("p9")));
  document = to_json(sample_file());
  document["results"][0]["subject"]["request"]["width"] = 64;
  EXPECT_THAT(error_of([&] { (void)results_from_json(document, "a.json"); }), HasSubstr("work_hash"));
}

TEST(ResultFile, RefusesConditionsOfAnotherNumberOfTrials) {
  ResultFile file = sample_file();
  file.results[0].trials[1].conditions.steal_ms.pop_back();
  EXPECT_THAT(error_of([&] { (void)to_json(file); }), HasSubstr("conditions of another number of trials"));
}

TEST(WorkHash, NamesTheWorkAlone) {
  const Subject subject{SubjectKind::kModel, "dit", {{"width", 32}, {"steps", 28}}};
  // Computed by work_hash() of result_schema_check.py, which was written from the schema's description.
  EXPECT_EQ(work_hash(subject), "50a80fb825053896");
  EXPECT_EQ(work_hash({SubjectKind::kModel, "dit", {{"steps", 28}, {"width", 32}}}), work_hash(subject));
  EXPECT_NE(work_hash({SubjectKind::kKernel, "dit", subject.request}), work_hash(subject));
  EXPECT_NE(work_hash({SubjectKind::kModel, "dit2", subject.request}), work_hash(subject));
  EXPECT_NE(work_hash({SubjectKind::kModel, "dit", {{"width", 32}, {"steps", 27}}}), work_hash(subject));
}

TEST(TrialSeries, JoinsProcesses) {
  Trials first{.wall_ms = {1, 2}, .warmup = 9};
  Trials second{.wall_ms = {3}, .warmup = 6, .warmup_stable = false, .complete = false, .process = 4};
  const TrialSeries series = make_series("step", std::vector{first, second});
  EXPECT_EQ(series.what, "step");
  EXPECT_EQ(series.time_ms, (std::vector<double>{1, 2, 3}));
  EXPECT_EQ(series.process, (std::vector<std::int64_t>{0, 0, 4}));
  EXPECT_EQ(series.warmup, 6);
  EXPECT_FALSE(series.warmup_stable);
  EXPECT_FALSE(series.complete);
  EXPECT_EQ(series.statistics.median, 2);
  EXPECT_THROW((void)make_series("step", std::span<const Trials>{}), Error);
  EXPECT_THROW((void)make_series("step", Trials{}), Error);
}

TEST(SeriesOf, FindsByNameOrSaysWhatThereIs) {
  const Result result = sample_file().results[0];
  EXPECT_EQ(series_of(result, "image").what, "image");
  EXPECT_THAT(error_of([&] { (void)series_of(result, "epoch"); }), AllOf(HasSubstr("epoch"), HasSubstr("step, image")));
}

}  // namespace
}  // namespace headroom
