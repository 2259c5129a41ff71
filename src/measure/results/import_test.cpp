#include "measure/results/import.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <nlohmann/json.hpp>

#include "base/files/file.hpp"
#include "base/test_util.hpp"
#include "base/text/json.hpp"
#include "measure/probes/hardware.hpp"
#include "measure/results/import_formats.hpp"
#include "measure/results/result_folder.hpp"
#include "measure/statistics/comparison.hpp"

namespace headroom {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::DoubleNear;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::string_view kGoogleBenchmarkFile = R"({
  "context": {"date": "2026-01-31T12:00:00+01:00", "host_name": "secret-host", "executable": "./bench", "num_cpus": 8,
    "mhz_per_cpu": 3600, "cpu_scaling_enabled": false, "caches": [], "library_version": "v1.9.1",
    "library_build_type": "release", "json_schema_version": 1},
  "benchmarks": [
    {"name": "BM_copy/64", "run_name": "BM_copy/64", "run_type": "iteration", "repetitions": 2, "repetition_index": 0,
     "threads": 1, "iterations": 1000, "real_time": 2.5, "cpu_time": 2.4, "time_unit": "us"},
    {"name": "BM_copy/64", "run_name": "BM_copy/64", "run_type": "iteration", "repetitions": 2, "repetition_index": 1,
     "threads": 1, "iterations": 1000, "real_time": 3.5, "cpu_time": 3.4, "time_unit": "us"},
    {"name": "BM_copy/64_mean", "run_name": "BM_copy/64", "run_type": "aggregate", "repetitions": 2, "threads": 1,
     "aggregate_name": "mean", "iterations": 2, "real_time": 3, "cpu_time": 2.9, "time_unit": "us"},
    {"name": "BM_copy/64_cv", "run_name": "BM_copy/64", "run_type": "aggregate", "repetitions": 2, "threads": 1,
     "aggregate_name": "cv", "aggregate_unit": "percentage", "iterations": 2, "real_time": 0.2, "cpu_time": 0.2,
     "time_unit": "us"},
    {"name": "BM_sum_mean", "run_name": "BM_sum", "run_type": "aggregate", "repetitions": 5, "threads": 1,
     "aggregate_name": "mean", "iterations": 5, "real_time": 4, "cpu_time": 4, "time_unit": "ns"},
    {"name": "BM_gpu", "run_name": "BM_gpu", "run_type": "iteration", "repetitions": 1, "repetition_index": 0,
     "threads": 1, "error_occurred": true, "error_message": "no device", "iterations": 1, "real_time": 0, "cpu_time": 0,
     "time_unit": "ns"},
    {"name": "BM_x_BigO", "run_name": "BM_x", "run_type": "aggregate", "aggregate_name": "BigO", "cpu_coefficient": 0.6,
     "real_coefficient": 1.1, "big_o": "N", "time_unit": "ns"},
    {"name": "BM_x_RMS", "run_name": "BM_x", "run_type": "aggregate", "aggregate_name": "RMS", "rms": 0.07}
  ]})";

constexpr std::string_view kHyperfineFile = R"({"results": [
    {"command": "sleep 0.1", "mean": 0.11, "stddev": 0.01, "median": 0.11, "user": 0.0, "system": 0.001, "min": 0.1,
     "max": 0.12, "times": [0.1, 0.11, 0.12], "memory_usage_byte": [1048576, 2097152, 1048576], "exit_codes": [0, 3, 0]},
    {"command": "sort -S 1M", "mean": 0.2, "stddev": null, "median": 0.2, "user": 0.0, "system": 0.0, "min": 0.2,
     "max": 0.2, "times": [0.2], "exit_codes": [null], "parameters": {"size": "1M"}}]})";

constexpr std::string_view kNvbenchFile = R"({
  "meta": {"argv": ["bench"], "version": {"json": {"string": "1.0.0"}, "nvbench": {"string": "0.1.0"}}},
  "devices": [{"id": 0, "name": "NVIDIA H200", "sm_version": 900}],
  "benchmarks": [{"name": "copy", "index": 0, "devices": [0], "axes": [], "states": [
    {"name": "Device=0 Bytes=2^20", "device": 0, "is_skipped": false,
     "axis_values": [{"name": "Bytes", "type": "int64", "value": "1048576"}],
     "summaries": [
       {"tag": "nv/cold/sample_size", "name": "Samples", "data": [{"name": "value", "type": "int64", "value": "512"}]},
       {"tag": "nv/cold/time/cpu/mean", "name": "CPU", "data": [{"name": "value", "type": "float64", "value": "2e-05"}]},
       {"tag": "nv/cold/time/gpu/mean", "name": "GPU", "data": [{"name": "value", "type": "float64", "value": "1.25e-05"}]}]},
    {"name": "Device=0 Bytes=2^30", "device": 0, "is_skipped": true, "skip_reason": "too large",
     "axis_values": [{"name": "Bytes", "type": "int64", "value": "1073741824"}], "summaries": null}]}]})";

constexpr std::string_view kTrtexecTimes = R"([
  {"startEnqMs": 0, "endEnqMs": 0.1, "startH2dMs": 0, "endH2dMs": 0.5, "startComputeMs": 0.5, "endComputeMs": 2.5,
   "startD2hMs": 2.5, "endD2hMs": 2.75, "h2dMs": 0.5, "computeMs": 2, "d2hMs": 0.25, "latencyMs": 2.75, "endToEndMs": 2.75},
  {"startEnqMs": 3, "endEnqMs": 3.1, "startH2dMs": 3, "endH2dMs": 3.5, "startComputeMs": 3.5, "endComputeMs": 6.5,
   "startD2hMs": 6.5, "endD2hMs": 6.75, "h2dMs": 0.5, "computeMs": 3, "d2hMs": 0.25, "latencyMs": 3.75, "endToEndMs": 3.75}])";

constexpr std::string_view kTrtexecProfile = R"([{"count": 100},
  {"name": "Conv_0 + Relu", "timeMs": 36.6, "averageMs": 0.366, "percentage": 98},
  {"name": "Reformat", "timeMs": 0, "averageMs": 0, "percentage": 0}])";

std::optional<ResultFile> import_text(std::string_view text, const std::filesystem::path& path = "folder/times.json") {
  return import_results(parse_json(text, "a test"), path);
}
ResultFile imported(std::string_view text) { return import_text(text).value(); }

/// The document after an edit.
std::string edited(std::string_view text, const std::function<void(json&)>& edit) {
  json document = parse_json(text, "a test");
  edit(document);
  return document.dump();
}
std::string error_after(std::string_view text, const std::function<void(json&)>& edit) {
  return error_of([&] { (void)import_text(edited(text, edit)); });
}

TEST(ImportGoogleBenchmark, TakesEachRepetitionAsATrial) {
  const ResultFile file = imported(kGoogleBenchmarkFile);
  ASSERT_EQ(file.results.size(), 3U);
  const Result& copy = file.results[0];
  EXPECT_EQ(copy.name, "BM_copy/64");
  EXPECT_EQ(copy.subject.name, "BM_copy/64");
  EXPECT_EQ(copy.source, (Source{"google-benchmark", "v1.9.1"}));
  ASSERT_EQ(copy.trials.size(), 1U);
  EXPECT_THAT(copy.trials[0].time_ms, ElementsAre(DoubleNear(0.0025, 1e-12), DoubleNear(0.0035, 1e-12)));
  EXPECT_THAT(copy.trials[0].process, ElementsAre(0, 0));
  EXPECT_DOUBLE_EQ(copy.trials[0].statistics.median, 0.003);
  EXPECT_THAT(copy.tags, IsEmpty());
  EXPECT_THAT(copy.quality, IsEmpty());
}

TEST(ImportGoogleBenchmark, AMeanAloneIsOneTimeAndSaysSo) {
  const Result sum = imported(kGoogleBenchmarkFile).results[1];
  EXPECT_EQ(sum.name, "BM_sum");
  EXPECT_THAT(sum.trials[0].time_ms, ElementsAre(DoubleNear(4e-6, 1e-15)));
  EXPECT_FALSE(sum.trials[0].statistics.median_interval);
  EXPECT_THAT(sum.tags, ElementsAre("mean of 5 repetitions"));
}

TEST(ImportGoogleBenchmark, WhatFailedHasNoTimeAndTheReason) {
  const Result failed = imported(kGoogleBenchmarkFile).results[2];
  EXPECT_THAT(failed.trials, IsEmpty());
  EXPECT_THAT(failed.tags, ElementsAre("not measured: no device"));
}

TEST(ImportGoogleBenchmark, KnowsTheMachineAsFarAsTheFileSays) {
  const ResultFile file = imported(kGoogleBenchmarkFile);
  EXPECT_EQ(file.created, "2026-01-31T11:00:00Z");
  EXPECT_EQ(file.machine.logical_cores, 8);
  EXPECT_EQ(file.machine.cpu_max_mhz, 3600);
  EXPECT_EQ(file.machine.memory_bytes, 0);
  EXPECT_FALSE(file.machine.build);
  const std::string hardware = describe_hardware(file.machine, file.results[0].configuration);
  EXPECT_THAT(hardware, AllOf(HasSubstr("8 cores"), testing::Not(HasSubstr("secret-host"))));
  EXPECT_THAT(hardware, testing::Not(HasSubstr(" 0 ")));
  const ResultFile other = imported(edited(kGoogleBenchmarkFile, [](json& d) { d["context"]["host_name"] = "other"; }));
  EXPECT_NE(file.machine, other.machine);
}

TEST(ImportGoogleBenchmark, ReadsFilesBeforeRunNames) {
  const ResultFile file = imported(R"({"context": {"date": "2016-07-08 12:00:00", "num_cpus": 2}, "benchmarks": [
      {"name": "BM_a", "iterations": 10, "real_time": 7, "cpu_time": 7, "time_unit": "ms"}]})");
  EXPECT_EQ(file.created, "");  // of an unknown zone
  EXPECT_EQ(file.results[0].trials[0].time_ms[0], 7);
  EXPECT_EQ(file.results[0].source.version, "unknown");
}

TEST(ImportGoogleBenchmark, SaysWhatIsBroken) {
  const auto entry = [](const char* key, json value) {
    return error_after(kGoogleBenchmarkFile, [&](json& d) { d["benchmarks"][0][key] = value; });
  };
  EXPECT_THAT(entry("time_unit", "h"), AllOf(HasSubstr("'h'"), HasSubstr("ns, us, ms or s"), HasSubstr("times.json")));
  EXPECT_THAT(entry("real_time", "fast"), AllOf(HasSubstr("\"real_time\""), HasSubstr("benchmark 0")));
  EXPECT_THAT(entry("real_time", 0), HasSubstr("a time of 0 ms"));
  EXPECT_THAT(entry("real_time", -1), HasSubstr("-1"));
  EXPECT_THAT(error_after(kGoogleBenchmarkFile, [](json& d) { d["benchmarks"] = json::array(); }),
              HasSubstr("holds no measured time"));
  EXPECT_THAT(error_after(kGoogleBenchmarkFile, [](json& d) { d["benchmarks"][0] = 3; }),
              HasSubstr("an object was expected"));
}

TEST(ImportHyperfine, EachRunIsAProcess) {
  const ResultFile file = imported(kHyperfineFile);
  ASSERT_EQ(file.results.size(), 2U);
  const Result& sleep = file.results[0];
  EXPECT_EQ(sleep.name, "sleep 0.1");
  EXPECT_THAT(sleep.trials[0].time_ms, ElementsAre(100, 110, 120));
  EXPECT_THAT(sleep.trials[0].process, ElementsAre(0, 1, 2));
  EXPECT_EQ(sleep.memory.value().peak_bytes, 2097152);
  EXPECT_THAT(sleep.tags, ElementsAre("exit code 3"));
  EXPECT_EQ(file.results[1].subject.request, (json{{"parameters", {{"size", "1M"}}}}));
  EXPECT_THAT(file.results[1].tags, ElementsAre("ended by a signal"));
  EXPECT_EQ(file.created, "");
  EXPECT_EQ(describe_hardware(file.machine, sleep.configuration), "unknown machine");
}

TEST(ImportHyperfine, CommandsAreOneLineAndDiffer) {
  const ResultFile file = imported(edited(kHyperfineFile, [](json& d) {
    d["results"][0]["command"] = "for i in 1 2\ndo \x1b[31m true; done";
    d["results"][1]["command"] = d["results"][0]["command"];
  }));
  EXPECT_EQ(file.results[0].name.find_first_of("\n\x1b"), std::string::npos);
  EXPECT_EQ(file.results[1].name, file.results[0].name + " (2)");
}

TEST(ImportHyperfine, SaysWhatIsBroken) {
  EXPECT_THAT(error_after(kHyperfineFile, [](json& d) { d["results"][1].erase("times"); }),
              AllOf(HasSubstr("times"), HasSubstr("result 1")));
  EXPECT_THAT(error_after(kHyperfineFile, [](json& d) { d["results"][0]["times"][1] = nullptr; }),
              HasSubstr("\"times\"[1]"));
  EXPECT_THAT(error_after(kHyperfineFile, [](json& d) { d["results"][0]["times"] = json::array(); }),
              HasSubstr("has no times"));
}

TEST(ImportNvbench, WithoutSamplesTakesTheMeanAndSaysSo) {
  const ResultFile file = imported(kNvbenchFile);
  ASSERT_EQ(file.results.size(), 2U);
  const Result& copy = file.results[0];
  EXPECT_EQ(copy.name, "copy Bytes=1048576");
  EXPECT_EQ(copy.source, (Source{"nvbench", "0.1.0"}));
  EXPECT_EQ(copy.trials[0].what, "launch");
  EXPECT_THAT(copy.trials[0].time_ms, ElementsAre(DoubleNear(0.0125, 1e-12)));
  EXPECT_THAT(copy.tags, ElementsAre("mean of 512 samples"));
  EXPECT_EQ(copy.configuration.gpu.value().name, "NVIDIA H200");
  EXPECT_EQ(describe_hardware(file.machine, copy.configuration), "NVIDIA H200");
  EXPECT_THAT(file.results[1].trials, IsEmpty());
  EXPECT_THAT(file.results[1].tags, ElementsAre("not measured: too large"));
}

/// The document with a file of samples for its first state.
std::string with_samples(const std::string& filename, int count) {
  return edited(kNvbenchFile, [&](json& d) {
    d["benchmarks"][0]["states"][0]["summaries"].push_back(
        {{"tag", "nv/json/bin:nv/cold/sample_times"},
         {"data", json::array({{{"name", "filename"}, {"type", "string"}, {"value", filename}},
                               {{"name", "size"}, {"type", "int64"}, {"value", std::to_string(count)}}})}});
  });
}

std::string floats(std::initializer_list<float> values) {
  std::string bytes;
  for (const float value : values)
    for (int shift = 0; shift < 32; shift += 8)
      bytes += static_cast<char>(std::bit_cast<std::uint32_t>(value) >> shift & 0xFFU);
  return bytes;
}

TEST(ImportNvbench, ReadsTheSamplesNextToTheFile) {
  const TempFolder folder;
  std::filesystem::create_directory(folder.path() / "out.json-bin");
  write_file_atomically(folder.path() / "out.json-bin" / "0.bin", floats({0.5F, 0.25F, 1.0F}));
  const auto read = [&](const std::string& name, int count) {
    return import_text(with_samples(name, count), folder.path() / "out.json").value().results[0];
  };
  // Relative to nvbench's working directory, and as an absolute path of another machine.
  for (const char* name : {"out.json-bin/0.bin", "results/out.json-bin/0.bin", "/home/x/out.json-bin/0.bin"}) {
    const Result copy = read(name, 3);
    EXPECT_THAT(copy.trials[0].time_ms, ElementsAre(500, 250, 1000)) << name;
    EXPECT_THAT(copy.tags, IsEmpty()) << name;
  }
  EXPECT_THAT(error_of([&] { (void)read("out.json-bin/0.bin", 4); }),
              AllOf(HasSubstr("12 bytes"), HasSubstr("4 samples")));
  EXPECT_THAT(error_of([&] { (void)read("out.json-bin/0.bin", 0); }), HasSubstr("has no size"));
  EXPECT_THAT(read("out.json-bin/1.bin", 3).tags, ElementsAre("mean of 512 samples")) << "which was not kept";
}

TEST(ImportNvbench, ReadsNoOtherFolder) {
  const TempFolder folder;
  write_file_atomically(folder.path() / "0.bin", floats({0.5F}));
  std::filesystem::create_directory(folder.path() / "inner");
  for (const char* name : {"../0.bin", "inner/../../0.bin", "x/../0.bin"}) {
    const Result copy = import_text(with_samples(name, 1), folder.path() / "inner" / "out.json").value().results[0];
    EXPECT_THAT(copy.tags, ElementsAre("mean of 512 samples")) << name;
  }
}

TEST(ImportNvbench, SaysWhatIsBroken) {
  EXPECT_THAT(
      error_after(kNvbenchFile,
                  [](json& d) { d["benchmarks"][0]["states"][0]["summaries"][2]["data"][0]["value"] = "soon"; }),
      AllOf(HasSubstr("nv/cold/time/gpu/mean"), HasSubstr("soon")));
  EXPECT_THAT(error_after(kNvbenchFile, [](json& d) { d["benchmarks"][0]["states"][0]["summaries"] = json::array(); }),
              HasSubstr("holds no measured time"));
  EXPECT_THAT(error_after(kNvbenchFile, [](json& d) { d["benchmarks"][0].erase("name"); }), HasSubstr("name"));
}

TEST(ImportTrtexec, TakesEachQueryAsATrial) {
  const ResultFile file = imported(kTrtexecTimes);
  ASSERT_EQ(file.results.size(), 1U);
  const Result& queries = file.results[0];
  EXPECT_EQ(queries.name, "times") << "the file's, since it names no engine";
  EXPECT_THAT(series_of(queries, "query").time_ms, ElementsAre(2.75, 3.75));
  EXPECT_THAT(series_of(queries, "compute").time_ms, ElementsAre(2, 3));
  EXPECT_THAT(series_of(queries, "h2d").time_ms, ElementsAre(0.5, 0.5));
  EXPECT_THAT(series_of(queries, "d2h").time_ms, ElementsAre(0.25, 0.25));
  EXPECT_EQ(queries.trials.front().what, "query");
  EXPECT_THAT(queries.tags, ElementsAre("may hold warm-up queries"));
}

TEST(ImportTrtexec, WithoutTransfersHasNoTimesOfThem) {
  const ResultFile file = imported(edited(kTrtexecTimes, [](json& d) {
    for (json& query : d) query["h2dMs"] = query["d2hMs"] = 0;
  }));
  EXPECT_EQ(file.results[0].trials.size(), 2U);
}

TEST(ImportTrtexec, TakesTheMeanOfEachLayer) {
  const ResultFile file = imported(kTrtexecProfile);
  ASSERT_EQ(file.results.size(), 2U);
  EXPECT_EQ(file.results[0].name, "Conv_0 + Relu");
  EXPECT_THAT(file.results[0].trials[0].time_ms, ElementsAre(0.366));
  EXPECT_THAT(file.results[0].tags, ElementsAre("mean of 100 iterations"));
  EXPECT_THAT(file.results[1].trials, IsEmpty());
}

TEST(ImportTrtexec, SaysWhatIsBroken) {
  EXPECT_THAT(error_after(kTrtexecTimes, [](json& d) { d[1].erase("latencyMs"); }),
              AllOf(HasSubstr("latencyMs"), HasSubstr("query 1")));
  EXPECT_THAT(error_after(kTrtexecTimes, [](json& d) { d[0]["computeMs"] = 0; }), HasSubstr("\"computeMs\""));
  EXPECT_THAT(error_after(kTrtexecProfile, [](json& d) { d[0]["count"] = 0; }), HasSubstr("count"));
}

TEST(ImportResults, LeavesOtherDocumentsAlone) {
  for (const char* other : {"{}", "[]", "[{}]", "3", "null", R"({"schema": "headroom.result/1", "results": []})",
                            R"({"results": []})", R"({"results": [3]})", R"({"benchmarks": [{"name": "x"}]})",
                            R"({"context": 3, "benchmarks": []})", R"([{"count": 3}])"})
    EXPECT_FALSE(import_text(other)) << other;
}

TEST(ImportResults, EveryOneOpensLikeAResultFile) {
  const TempFolder folder;
  for (const std::string_view text :
       {kGoogleBenchmarkFile, kHyperfineFile, kNvbenchFile, kTrtexecTimes, kTrtexecProfile}) {
    write_file_atomically(folder.path() / "a.json", text);
    const ResultFile file = read_measurements(folder.path() / "a.json");
    for (const Result& result : file.results) EXPECT_TRUE(is_imported(result));
  }
  std::vector<std::string> left_out;
  write_file_atomically(folder.path() / "b.json", kHyperfineFile);
  write_file_atomically(folder.path() / "c.json", std::string_view("{}"));
  const std::vector<NamedResults> files = read_result_folder(folder.path(), left_out);
  ASSERT_EQ(files.size(), 2U);
  EXPECT_THAT(files[0].first, testing::EndsWith("a.json"));
  EXPECT_THAT(files[1].first, testing::EndsWith("b.json"));
  EXPECT_THAT(left_out, ElementsAre(HasSubstr("c.json")));
}

TEST(ImportResults, AreCompared) {
  const auto slower = [](json& d) {
    for (json& result : d["results"]) {
      result["times"] = json::array();
      for (int i = 0; i < 8; ++i) result["times"].push_back(0.2 + 1e-4 * i);
    }
  };
  const auto faster = [&](json& d) {
    slower(d);
    for (json& result : d["results"])
      for (json& time : result["times"]) time = time.get<double>() / 2;
  };
  const Comparison comparison =
      compare_results(imported(edited(kHyperfineFile, faster)), imported(edited(kHyperfineFile, slower)));
  ASSERT_EQ(comparison.benchmarks.size(), 2U);
  EXPECT_THAT(comparison.benchmarks[0].name, HasSubstr("sleep 0.1"));
  EXPECT_NEAR(comparison.benchmarks[0].effect.ratio, 2, 1e-9);
  EXPECT_EQ(exit_code_of(comparison), ExitCode::kRegression);
  // Files of two hosts are not comparable.
  const std::string here(kGoogleBenchmarkFile);
  const std::string there = edited(kGoogleBenchmarkFile, [](json& d) { d["context"]["host_name"] = "other"; });
  EXPECT_THAT(error_of([&] { (void)compare_results(imported(here), imported(there)); }), HasSubstr("CPU"));
}

TEST(ImportResults, OfOneBenchmarkEachAreComparedWhateverTheirNames) {
  const auto times_in = [](const char* path, double ms) {
    json queries = json::array();
    for (int i = 0; i < 40; ++i) queries.push_back({{"latencyMs", ms + 0.001 * i}, {"computeMs", ms}});
    return import_text(queries.dump(), path).value();
  };
  const ResultFile base = times_in("folder/before.json", 2), changed = times_in("folder/after.json", 3);
  const Comparison one = compare_results(base, changed, {.process_noise = 0.02});
  ASSERT_EQ(one.benchmarks.size(), 1U);
  EXPECT_THAT(one.benchmarks[0].name, AllOf(HasSubstr("after"), HasSubstr("against before")));
  EXPECT_EQ(exit_code_of(one), ExitCode::kRegression);
  EXPECT_THAT(gate_table(report_of(one)).to_string(TableFormat::kText), testing::Not(HasSubstr("unknown against")));
  // Of several, nothing says which belong together.
  EXPECT_THAT(error_of([&] { (void)compare_results(base, imported(kHyperfineFile)); }),
              HasSubstr("nothing can be compared"));
}

TEST(ImportResults, OfOneProcessEachSayHowTheyAreJudged) {
  ResultFile file = imported(kGoogleBenchmarkFile);
  const auto text_of = [](const ResultFile& of) {
    return gate_table(report_of(compare_results(of, of))).to_string(TableFormat::kText);
  };
  EXPECT_THAT(text_of(file), AllOf(HasSubstr("; and 2 trials give no 95% interval, 6 would"),
                                   testing::Not(HasSubstr("--process-noise")), testing::Not(HasSubstr(">0.999"))))
      << "no test was made, so there is no p";
  for (Result& result : file.results)
    if (!result.trials.empty()) result.trials = {make_series("iteration", Trials{.wall_ms = {1, 2, 1, 2, 1, 2}})};
  EXPECT_THAT(text_of(file), HasSubstr("--process-noise 3%"));
  const ResultFile runs = imported(edited(kHyperfineFile, [](json& d) { d["results"].erase(1); }));
  EXPECT_THAT(compare_results(runs, runs, {.process_noise = 0.02}).notes,
              testing::Contains(HasSubstr("--process-noise changes nothing")));
}

TEST(UtcOf, TakesTimesWithAZone) {
  EXPECT_EQ(imports::utc_of("2026-01-01T00:30:05+01:00"), "2025-12-31T23:30:05Z");
  EXPECT_EQ(imports::utc_of("2026-02-28T23:30:05-05:30"), "2026-03-01T05:00:05Z");
  EXPECT_EQ(imports::utc_of("2026-01-01T00:30:05Z"), "2026-01-01T00:30:05Z");
  for (const char* other :
       {"", "2026-01-01", "2026-01-01T00:30:05", "2026-13-01T00:30:05Z", "2026-02-30T00:30:05Z", "2026/01/01T00:30:05Z",
        "2026-01-01T24:30:05Z", "2026-01-01T00:30:05+1", "1900-01-01T00:00:00Z"})
    EXPECT_EQ(imports::utc_of(other), "") << other;
}

}  // namespace
}  // namespace headroom
