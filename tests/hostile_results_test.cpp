// Result files that are broken or lie: whatever reads results names the file, the member, its value and what was
// expected, or leaves the file out and says so; no figure of theirs is ever shown.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text/json.hpp"
#include "measure/protocol/sweep.hpp"
#include "measure/results/result_folder.hpp"
#include "measure/statistics/comparison.hpp"
#include "program_fixture.hpp"
#include "report/dataset.hpp"
#include "report/render/rasterizer.hpp"
#include "report/render/renderer.hpp"
#include "report/report.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

Result make_result(const std::string& name, double ms) {
  const Trials steps{.wall_ms = {ms, 1.1 * ms, 0.9 * ms, ms, 1.2 * ms, 9 * ms}, .warmup = 5};
  Result result{
      .id = "m " + name,
      .name = name,
      .subject = {.kind = SubjectKind::kModel, .name = "m", .request = {{"images", 2}, {"steps", 4}}},
      .source = {.name = "headroom", .version = "1"},
      .configuration =
          {.device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = 2, .baseline_dtype = "f32"},
      .trials = {make_series("step", steps), make_series("image", Trials{.wall_ms = {4 * ms}})},
      .memory = MemoryReport{},
      .quality =
          {{.metric = "accuracy", .against = "labels", .value = 0.9, .interval = Interval{0.8, 0.95}, .note = {}}},
      .tags = {},
      .plan = "p",
      .profile = ProfileRecord{.time_ms = {1}, .floor_ms = {1}, .floor_of = {"copy"}, .runs = {4}}};
  result.memory->peak_bytes = 1000;
  result.trials[0].conditions.steal_ms = {0, 0, 0, 0, 0, 10};
  return result;
}

/// A file that nothing is wrong with.
json honest_document() {
  ResultFile file;
  file.created = "2026-01-02T03:04:05Z";
  file.machine.cpu = "a CPU";
  file.machine.logical_cores = file.machine.allowed_cores = 2;
  file.machine.memory_bytes = 1 << 30;
  file.machine.os = "an OS";
  file.machine.kernel = "a kernel";
  file.machine.libraries = {{"oneDNN", "2.6"}};
  file.plans["p"].nodes = {{.node = "a",
                            .op = "add",
                            .kernel = "k",
                            .implementation = "i",
                            .compute_type = "f32",
                            .cost_bytes = 1,
                            .cost_flops = 1,
                            .cost_unit = "vector",
                            .rejections = {}}};
  file.results = {make_result("baseline", 10), make_result("arena", 5)};
  file.results[1].configuration.asked = file.results[1].configuration.applied = {"arena"};
  return to_json(file);
}

/// What is wrong with a file, and words that the message about it must hold together with the file's name.
struct Fault {
  std::string name;
  std::function<std::string(json&)> write;  ///< the text of the file
  std::vector<std::string> words;
};

/// A member that is not what it should be.
Fault edit(std::string name, const std::function<void(json&)>& change, std::vector<std::string> words) {
  return {std::move(name),
          [change](json& document) {
            change(document);
            return document.dump();
          },
          std::move(words)};
}

/// The member of the first result's first series, or of its statistics.
json& series(json& document) { return document["results"][0]["trials"][0]; }
json& statistics(json& document) { return series(document)["statistics"]; }

Fault edit_time(std::string name, const json& value, std::vector<std::string> words) {
  return edit(
      std::move(name), [value](json& d) { series(d)["time"][3] = value; }, std::move(words));
}
Fault edit_figure(const std::string& name, const json& value, const std::string& given) {
  return edit(name, [=](json& d) { statistics(d)[name] = value; },
              {name, "series 'step' in result 'm baseline'", value.dump(), "its trials give " + given});
}
Fault edit_created(std::string name, const std::string& value) {
  return edit(std::move(name), [value](json& d) { d["created"] = value; },
              {"\"created\"", value, "a time in UTC of the years 2000 to 2199"});
}
/// A request, with the hash that it would have.
Fault edit_request(std::string name, const std::string& key, const json& value) {
  return edit(std::move(name),
              [=](json& d) {
                json& result = d["results"][0];
                result["subject"]["request"][key] = value;
                result["work_hash"] = work_hash({SubjectKind::kModel, "m", result["subject"]["request"]});
              },
              {"\"" + key + "\"", value.dump(), "integer of at least 1"});
}
Fault edit_configuration(std::string name, const std::string& key, const json& value, std::vector<std::string> words) {
  return edit(
      std::move(name), [=](json& d) { d["results"][1]["configuration"][key] = value; }, std::move(words));
}
Fault edit_profile(std::string name, const std::string& key, const json& value, std::vector<std::string> words) {
  return edit(
      std::move(name), [=](json& d) { d["results"][0]["profile"][key] = value; }, std::move(words));
}
/// A text in place of "a CPU", or of a number that is not JSON in place of the first time.
Fault replace_text(std::string name, const std::string& from, const std::string& to, std::vector<std::string> words) {
  return {std::move(name),
          [=](json& document) {
            std::string text = document.dump();
            return text.replace(text.find(from), from.size(), to);
          },
          std::move(words)};
}
Fault text(std::string name, const std::string& whole, std::vector<std::string> words) {
  return {std::move(name), [=](json&) { return whole; }, std::move(words)};
}

std::vector<Fault> broken_texts() {
  return {
      text("empty", "", {"not valid JSON at line 1"}),
      text("blank", "\n\n", {"not valid JSON at line"}),
      text("prose", "1.5 times as fast", {"not valid JSON"}),
      text("list", "[]", {"an array", "an object was expected"}),
      text("null", "null", {"null", "an object was expected"}),
      text("other", "{}", {"has no \"schema\""}),
      text("utf16", std::string("\xFF\xFE{\0}\0", 6), {"not valid JSON"}),
      text("deep", std::string(100'000, '['), {"nested deeper than 100 levels"}),
      {"truncated",
       [](json& document) {
         const std::string whole = document.dump();
         return whole.substr(0, whole.size() / 2);
       },
       {"not valid JSON at line 1, column"}},
      {"twice", [](json& document) { return document.dump() + document.dump(); }, {"not valid JSON at line 1, column"}},
      replace_text("nan", "\"time\":[10.0", "\"time\":[NaN", {"not valid JSON at line 1, column"}),
      replace_text("infinity", "\"time\":[10.0", "\"time\":[-Infinity", {"not valid JSON at line 1, column"}),
      replace_text("1e999", "\"time\":[10.0", "\"time\":[1e999", {"not valid JSON", "1e999"}),
      replace_text("hexadecimal", "\"time\":[10.0", "\"time\":[0x10", {"not valid JSON"}),
      replace_text("comma", "\"time\":[10.0", "\"time\":[10,0", {"\"time\"[1]", "is 0"}),
      replace_text("comment", "\"a CPU\"", "\"a CPU\" // the old one", {"not valid JSON"}),
      replace_text("latin1", "a CPU", "a CPU\xAE", {"not valid JSON"}),
      replace_text("nul", "\"a CPU\"", std::string("\"a CPU\"\0", 8), {"NUL byte"}),
      replace_text("repeated_key", "\"time\":", "\"time\":[1.0],\"time\":", {"repeats the key \"time\""}),
  };
}

std::vector<Fault> wrong_times() {
  const std::string time = "a finite time over zero";
  return {
      edit_time("negative", -1, {"\"time\"[3]", "is -1", time}),
      edit_time("zero", 0, {"\"time\"[3]", "is 0", time}),
      edit_time("minus_zero", -0.0, {"\"time\"[3]", "is -0.0", time}),
      edit_time("denormal", 1e-320, {"\"time\"[3]", time}),
      edit_time("aeons", 1e300, {"\"time\"[3]", "1e+300", time}),
      edit_time("text", "10", {"\"time\"[3]", "\"10\"", time}),
      edit_time("null_time", nullptr, {"\"time\"[3]", "null", time}),
      edit_time("flag", true, {"\"time\"[3]", "true", time}),
      edit_time("another", 11, {"series 'step' in result 'm baseline'", "its trials give"}),
      edit("no_trials", [](json& d) { series(d)["time"] = series(d)["process"] = json::array(); },
           {"\"time\"", "0 entries", "at least 1"}),
      edit("object_of_times", [](json& d) { series(d)["time"] = json::object(); }, {"\"time\"", "object", "an array"}),
      edit("seconds", [](json& d) { series(d)["unit"] = "s"; }, {"\"unit\"", "\"s\"", "one of ms"}),
      edit("process", [](json& d) { series(d)["process"].erase(0); }, {"6 times but 5 process numbers"}),
      edit("process_below_0", [](json& d) { series(d)["process"][1] = -1; }, {"\"process\"[1]", "-1", "at least 0"}),
      edit("conditions", [](json& d) { series(d)["conditions"]["steal_ms"].erase(0); },
           {"conditions of another number"}),
      edit("warmup", [](json& d) { series(d)["warmup"] = -5; }, {"\"warmup\"", "-5", "at least 0"}),
      edit("word_for_flag", [](json& d) { series(d)["complete"] = "true"; }, {"\"complete\"", "true or false"}),
      edit("series_twice", [](json& d) { d["results"][0]["trials"].push_back(series(d)); }, {"two series of 'step'"}),
      edit_figure("median_ms", 9.25, "10.5"),
      edit_figure("mean_ms", 10.25, "23.6"),
      edit_figure("min_ms", 9.5, "9"),
      edit_figure("max_ms", 12.5, "90"),
      edit_figure("q1_ms", 9.25, "10"),
      edit_figure("p99_ms", 12.5, "86.1"),
      edit_figure("stddev_ms", 0.5, "32"),
      edit_figure("trimmed_mean_ms", 9.25, "10.4"),
      edit_figure("outliers_severe", 0, "1"),
      edit("ci_low_ms", [](json& d) { statistics(d)["ci_low_ms"] = 8; }, {"is 8 to", "within the trials (9 to 90)"}),
      edit("ci_high_ms", [](json& d) { statistics(d)["ci_high_ms"] = 10.25; }, {"around the median 10.5"}),
      edit("n", [](json& d) { statistics(d)["n"] = 1000; }, {"6 times but statistics of 1000"}),
      edit("huge_n", [](json& d) { statistics(d)["n"] = 18'446'744'073'709'551'615U; }, {"\"n\"", "64-bit integer"}),
      edit("n_as_fraction", [](json& d) { statistics(d)["n"] = 6.0; }, {"\"n\"", "6.0", "64-bit integer"}),
      edit("half_interval", [](json& d) { statistics(d).erase("ci_high_ms"); }, {"ci_high_ms"}),
      edit("interval_of_one",
           [](json& d) {
             json& image = d["results"][0]["trials"][1]["statistics"];
             image["ci_low_ms"] = image["ci_high_ms"] = 40;
           },
           {"series 'image'", "a single trial does not give"}),
  };
}

std::vector<Fault> wrong_members() {
  return {
      edit("schema", [](json& d) { d["schema"] = "headroom.result/2"; }, {"headroom.result/2", "headroom.result/1"}),
      edit_created("local_date", "02.01.2026 03:04"),
      edit_created("without_zone", "2026-01-02 03:04:05"),
      edit_created("offset", "2026-01-02T03:04:05+02:00"),
      edit_created("year_9999", "9999-12-31T23:59:59Z"),
      edit_created("year_1970", "1970-01-01T00:00:00Z"),
      edit_created("thirtieth_of_february", "2026-02-30T03:04:05Z"),
      edit_created("hour_24", "2026-01-02T24:04:05Z"),
      edit("date_as_number", [](json& d) { d["created"] = 1767323045; }, {"\"created\"", "1767323045", "a string"}),
      edit("id_twice", [](json& d) { d["results"][1]["id"] = "m baseline"; }, {"two results have the id 'm baseline'"}),
      edit("overlapping_cells",
           [](json& d) {
             d["results"].push_back(d["results"][0]);
             d["results"][2]["id"] = "m baseline again";
           },
           {"'m baseline again'", "result 'm baseline'", "only one was expected"}),
      edit("no_such_plan", [](json& d) { d["results"][0]["plan"] = "q"; }, {"names the plan 'q'"}),
      edit("profile_without_plan", [](json& d) { d["results"][0].erase("plan"); }, {"a profile but names no plan"}),
      edit_profile("profile_columns", "time_ms", json::array({1, 2}), {"2 entries for the 1 nodes"}),
      edit_profile("no_runs", "runs", json::array({0}), {"\"runs\"[0]", "is 0", "at least 1"}),
      edit_profile("floor_of", "floor_of", json::array({"hope"}),
                   {"\"floor_of\"[0]", "hope", "flops, copy, exp, product"}),
      edit_profile("alone_columns", "alone_ms", json::array({1, 2}), {"2 entries for the 1 nodes"}),
      edit("floor_of_nothing",
           [](json& d) {
             d["results"][0]["floor"] = {{"ms", 1}, {"of", "product"}};
           },
           {"the floor of", "\"product\"", "flops, copy, exp"}),
      edit("floor_below_zero",
           [](json& d) {
             d["results"][0]["floor"] = {{"ms", -1}, {"of", "copy"}};
           },
           {"\"ms\"", "the floor of", "-1"}),
      edit_profile("idle_share", "idle_share", 1.5, {"\"idle_share\"", "1.5", "from 0 to 1"}),
      edit("unknown_member", [](json& d) { d["results"][0]["speed"] = 2; }, {"unknown member \"speed\""}),
      edit("missing_member", [](json& d) { d["results"][0].erase("tags"); }, {"has no \"tags\""}),
      edit("no_name", [](json& d) { d["results"][0]["name"] = ""; }, {"\"name\"", "not empty"}),
      edit("results", [](json& d) { d["results"] = json::object(); }, {"\"results\"", "object", "an array"}),
      edit("plans", [](json& d) { d["plans"] = json::array(); }, {"\"plans\"", "array", "an object"}),
      edit("kind", [](json& d) { d["results"][0]["subject"]["kind"] = "song"; }, {"\"kind\"", "song", "model, kernel"}),
      edit("request", [](json& d) { d["results"][0]["subject"]["request"] = json::array(); },
           {"\"request\"", "an object"}),
      edit("other_work", [](json& d) { d["results"][0]["subject"]["request"]["steps"] = 1; }, {"work_hash"}),
      edit_request("no_images", "images", 0),
      edit_request("steps_below_0", "steps", -3),
      edit_request("steps_as_text", "steps", "4"),
      edit_request("token_rows", "token_rows", 1e30),
      edit_request("batch", "batch", json::array({1})),
      edit_configuration("applied_nothing", "applied", json::array(), {"asked for 'arena'", "neither"}),
      edit_configuration("applied_twice", "applied", json::array({"arena", "arena"}), {"\"applied\"", "'arena' twice"}),
      edit_configuration("declined_too", "declined", json::array({json{{"switch", "arena"}, {"reason", "no"}}}),
                         {"declined 'arena'"}),
      edit_configuration("steps_0", "applied", json::array({"arena", "steps=0"}), {"'steps=0'", "whole N over zero"}),
      edit_configuration("many_steps", "applied", json::array({"arena", "steps=99999999999999999999"}),
                         {"whole N over zero"}),
      edit_configuration("half_a_step", "applied", json::array({"arena", "steps=4x"}),
                         {"'steps=4x'", "whole N over zero"}),
      edit_configuration("threads", "threads", 0, {"\"threads\"", "is 0", "at least 1"}),
      edit("memory", [](json& d) { d["results"][0]["memory"]["peak_bytes"] = -1; }, {"\"peak_bytes\"", "-1"}),
      edit("half_a_byte", [](json& d) { d["results"][0]["memory"]["peak_bytes"] = 0.5; }, {"\"peak_bytes\"", "0.5"}),
      edit("no_cores", [](json& d) { d["machine"]["allowed_cores"] = 0; }, {"\"allowed_cores\"", "at least 1"}),
      edit("machine_memory", [](json& d) { d["machine"]["memory_bytes"] = -5; }, {"\"memory_bytes\"", "-5"}),
      edit("no_machine", [](json& d) { d.erase("machine"); }, {"has no \"machine\""}),
      edit("cost", [](json& d) { d["plans"]["p"]["nodes"][0]["cost"]["flops"] = -1; }, {"\"flops\"", "-1"}),
      edit("unit", [](json& d) { d["plans"]["p"]["nodes"][0]["cost"]["unit"] = "magic"; }, {"\"unit\"", "magic"}),
      edit("accuracy", [](json& d) { d["results"][0]["quality"][0]["value"] = 90; }, {"\"value\"", "90", "0 to 1"}),
      edit("quality_outside_its_interval", [](json& d) { d["results"][0]["quality"][0]["interval"]["low"] = 0.92; },
           {"accuracy", "0.92", "does not hold its value"}),
      edit("no_quality", [](json& d) { d["results"][0]["quality"][0].erase("value"); }, {"accuracy"}),
      edit("escape", [](json& d) { d["results"][0]["name"] = "\x1b[2Jfast"; }, {"/results/0/name", "U+001B"}),
      edit("line_break", [](json& d) { d["results"][0]["id"] = "m\nbaseline"; }, {"/results/0/id", "U+000A"}),
      edit("c1",
           [](json& d) {
             d["machine"]["cpu"] =
                 "\xC2\x9B"
                 "31m";
           },
           {"/machine/cpu", "U+009B"}),
      edit("direction", [](json& d) { d["machine"]["os"] = "x\xE2\x80\xAEy"; }, {"/machine/os", "U+202E"}),
      edit("escape_in_key", [](json& d) { d["machine"]["libraries"]["\x1b"] = "1"; }, {"/machine/libraries", "U+001B"}),
  };
}

class HostileResults : public ProgramTest {
 protected:
  /// Writes the file of a fault; gives its path.
  [[nodiscard]] std::string write(const Fault& fault) const {
    json document = honest_document();
    const std::string path = file(fault.name + ".json");
    write_file_atomically(path, fault.write(document));
    return path;
  }
  [[nodiscard]] std::string write_honest(const std::string& name) const {
    write_file_atomically(file(name), honest_document().dump());
    return file(name);
  }
};

/// What `sweep` says that is to go on with the file.
std::string error_of_sweep(const std::string& path) {
  const SweepTask task{.model = "m", .cells = {{.switches = "baseline"}}, .force = true};
  return error_of([&] {
    (void)sweep(path, task,
                {.run = [](const SweepCell&) -> ResultFile { throw std::logic_error("a cell was measured"); },
                 .work = [](const SweepCell&) { return CellWork{}; }});
  });
}

TEST_F(HostileResults, AreRefusedByWhateverReadsThem) {
  std::vector<Fault> faults = broken_texts();
  for (std::vector<Fault>& more : std::vector{wrong_times(), wrong_members()})
    std::ranges::move(more, std::back_inserter(faults));
  EXPECT_GE(faults.size(), 90U);
  fs::create_directory(folder() / "good");
  const std::string good = write_honest("good/good.json");
  const ResultFile honest = read_results(good);
  for (const Fault& fault : faults) {
    SCOPED_TRACE(fault.name);
    const std::string path = write(fault);
    const std::string before = read_file(path);
    const std::string error = error_of([&] { (void)read_results(path); });
    EXPECT_THAT(error, HasSubstr(path));
    for (const std::string& word : fault.words) EXPECT_THAT(error, HasSubstr(word));
    EXPECT_THAT(error, Not(HasSubstr("\x1b")));
    EXPECT_LT(error.size(), 600U);
    // `compare`, `report` and `sweep`, which were given this file, end with that; nothing is measured.
    EXPECT_EQ(error_of([&] { (void)compare_results(honest, read_results(path)); }), error);
    const fs::path both[] = {good, path};
    EXPECT_EQ(error_of([&] { (void)Dataset::read(both); }), error);
    EXPECT_EQ(error_of_sweep(path), error);
    EXPECT_EQ(read_file(path), before);
  }
  // `history` and `report`, which were given the folder, leave them out, and say so of each.
  std::vector<std::string> left_out;
  EXPECT_THAT(read_result_folder(folder(), left_out), SizeIs(1));
  EXPECT_THAT(left_out, SizeIs(faults.size()));
  const fs::path all[] = {folder()};
  const Dataset dataset = Dataset::read(all);
  EXPECT_THAT(dataset.measurements(), SizeIs(2));
  EXPECT_EQ(dataset.left_out(), left_out);
}

TEST_F(HostileResults, HonestFilesAreRead) {
  const ResultFile honest = read_results(write_honest("honest.json"));
  EXPECT_THAT(honest.results, SizeIs(2));
  write_file_atomically(file("bom.json"), "\xEF\xBB\xBF" + honest_document().dump());
  EXPECT_EQ(read_results(file("bom.json")), honest) << "a byte order mark says nothing (RFC 8259, section 8.1)";
}

TEST_F(HostileResults, WhatIsNoFileIsRefused) {
  EXPECT_THAT(error_of([&] { (void)read_results(folder()); }), HasSubstr(folder().string()));
  EXPECT_THAT(error_of([&] { (void)read_results(file("none.json")); }), HasSubstr("none.json"));
  fs::create_directory(folder() / "folder.json");
  fs::create_symlink(folder() / "nowhere", folder() / "broken.json");
  write_file_atomically(file("notes.json"), "[]");
  std::vector<std::string> left_out;
  EXPECT_THAT(error_of([&] { (void)read_result_folder(folder(), left_out); }),
              AllOf(HasSubstr("holds no result file"), HasSubstr("notes.json")));
}

// The figures of another program are not ours to the last digit, and what is shown is what its trials give.
TEST_F(HostileResults, AnotherProgramsIntervalIsTakenFromItsTrials) {
  json document = honest_document();
  document["results"][0]["source"]["name"] = "pytorch";
  statistics(document)["ci_low_ms"] = 9.9;
  statistics(document)["outliers_severe"] = 0;
  write_json(file("peer.json"), document);
  const Result peer = read_results(file("peer.json")).results[0];
  EXPECT_EQ(peer.trials[0].statistics, summarize(peer.trials[0].time_ms));
  for (const auto& [low, high] : {std::pair(1.0, 11.0), std::pair(10.75, 11.0), std::pair(9.5, 99.0)}) {
    statistics(document)["ci_low_ms"] = low;
    statistics(document)["ci_high_ms"] = high;
    write_json(file("peer.json"), document);
    EXPECT_THAT(error_of([&] { (void)read_results(file("peer.json")); }),
                AllOf(HasSubstr("around the median 10.5"), HasSubstr("within the trials (9 to 90)")));
  }
}

/// Sets every text of a document in turn to `make(number)`, keys of objects that are names as well, and keeps what is still read as
/// results; how many were kept.
int plant(json& document, const std::function<std::string(int)>& make) {
  const json flat = document.flatten();
  int planted = 0;
  const auto keep_if_read = [&](json changed) {
    try {
      (void)results_from_json(changed, "planted");
    } catch (const Error&) {
      return;  // a text that says more than a name
    }
    document = std::move(changed);
    ++planted;
  };
  for (const auto& [pointer, value] : flat.items()) {
    if (!value.is_string()) continue;
    json changed = document;
    changed[json::json_pointer(pointer)] = make(planted);
    keep_if_read(std::move(changed));
  }
  json libraries = document;
  libraries["machine"]["libraries"][make(planted)] = "1";
  keep_if_read(std::move(libraries));
  return planted;
}

/// A file with a text in every member that may have one, in which what belongs together is equal.
json document_full_of_texts(const std::string& hostile) {
  json document = honest_document();
  document["machine"]["gpus"] = {{{"name", "a GPU"}, {"driver", "1"}}};
  document["machine"]["cpu_isa"] = "avx2";
  document["machine"]["build"] = {{"version", "1"},    {"git_revision", "abc"}, {"type", "Release"},
                                  {"compiler", "gcc"}, {"optimized", true},     {"sanitized", false}};
  json& results = document["results"];
  for (json& result : results) {
    result["subject"]["name"] = hostile;
    result["subject"]["request"][hostile] = hostile;
    result["work_hash"] = work_hash({SubjectKind::kModel, hostile, result["subject"]["request"]});
  }
  results[1]["configuration"]["asked"] = {hostile, "fuse"};
  results[1]["configuration"]["applied"] = {hostile};
  results[1]["configuration"]["declined"] = {{{"switch", "fuse"}, {"reason", hostile}}};
  results[1]["tags"] = {hostile};
  results[1]["quality"].push_back({{"metric", "psnr_db"}, {"against", hostile}, {"value", 40}, {"note", hostile}});
  json peer = results[0];
  peer["id"] = peer["name"] = peer["source"]["name"] = "a peer";
  results.push_back(peer);
  json unsettled = results[1];
  unsettled["id"] = unsettled["name"] = "unsettled";
  unsettled["unsettled"] = hostile;
  results.push_back(unsettled);
  // Work of another kind, whose only series has a name of its own.
  json other = results[0];
  other["id"] = "other";
  other["subject"]["name"] = "other";
  other["work_hash"] = work_hash({SubjectKind::kModel, "other", other["subject"]["request"]});
  other["trials"].erase(1);
  other["trials"][0]["what"] = hostile;
  other["quality"] = json::array();
  results.push_back(other);
  return document;
}

/// Less the elements that hold JSON, in which quotes end no attribute.
std::string without_data(std::string page) {
  constexpr std::string_view kBegin = "<script type=\"application/json\"", kEnd = "</script>";
  for (std::size_t at = 0; (at = page.find(kBegin, at)) != std::string::npos;) page.erase(at, page.find(kEnd, at) - at);
  return page;
}

bool has_without_backslash(std::string_view text, std::string_view markup) {
  for (std::size_t at = 0; (at = text.find(markup, at)) != std::string_view::npos; ++at)
    if (at == 0 || text[at - 1] != '\\') return true;
  return false;
}

TEST_F(HostileResults, NothingOfAFileIsMarkup) {
  // Markup of HTML and SVG, ends of attributes, of scripts and of the data in them, and Markdown.
  const auto hostile = [](int number) {
    return fmt::format(
        "</script></text><img src=m{0} onerror=m{0}>\" onload=\"m{0}' onload='m{0}&lt; [m{0}](http://m{0}) `m{0}` | # "
        "{{m{0}|x}}",
        number);
  };
  json document = document_full_of_texts(hostile(1000));
  EXPECT_GE(plant(document, hostile), 25);
  fs::create_directory(folder() / "results");
  write_json(folder() / "results" / "planted.json", document);
  // A file that is left out, named as if it began a list and a heading.
  write_file_atomically(folder() / "results" / "x\n# forged\n- <img src=m0>.json", "[]");
  const fs::path paths[] = {folder() / "results"};
  const Dataset dataset = Dataset::read(paths);
  ASSERT_THAT(dataset.left_out(), SizeIs(1));
  fs::create_directory(folder() / "out");
  const ReportFiles written =
      write_report(dataset, folder() / "out", {.formats = {ChartFormat::kHtml, ChartFormat::kSvg}});
  EXPECT_GE(written.charts.size(), 4U);
  int files = 0, shown = 0;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder() / "out")) {
    if (entry.path().extension() == ".js") continue;  // nothing of a file is in it
    ++files;
    const std::string text = read_file(entry.path());
    shown += text.find("img src=m") != std::string::npos ? 1 : 0;
    const auto expect_none = [&](const std::string& in, std::initializer_list<const char*> markups) {
      for (const char* markup : markups)
        EXPECT_EQ(in.find(markup), std::string::npos)
            << entry.path() << ": " << in.substr(std::max<std::size_t>(in.find(markup), 100) - 100, 200);
    };
    if (entry.path().extension() == ".md") {
      expect_none(text, {"(http://m", "\n# forged", "\n- <img"});
      for (const char* markup : {"<img", "</script", "[m", "`m", "| \\#", "&lt;"})
        EXPECT_FALSE(has_without_backslash(text, markup)) << markup << " in " << text;
      continue;
    }
    expect_none(text, {"<img src=m", "</script></text>"});
    expect_none(without_data(text), {"\" onload=\"m", "' onload='m"});
    if (entry.path().extension() == ".svg") {
      const SvgSize size = size_of_svg(text);
      EXPECT_EQ(rasterize(text, size.width, size.height, 1).width, size.width) << "no XML: " << entry.path();
    }
  }
  EXPECT_GE(files, 10);
  EXPECT_GE(shown, files / 2) << "the texts are there, as texts";
}

TEST_F(HostileResults, TheCommandsSaySoAndGoOnPastThemInAFolder) {
  static_cast<void>(write_honest("good.json"));
  const std::string bad = write(edit_time("bad", -1, {}));
  const Outcome compared = headroom("compare " + file("good.json") + " " + bad);
  EXPECT_EQ(compared.code, 1);
  EXPECT_EQ(compared.out, "");
  EXPECT_THAT(compared.err, AllOf(HasSubstr("bad.json"), HasSubstr("\"time\"[3]"), HasSubstr("is -1")));
  EXPECT_EQ(headroom("report --format html --out " + file("out") + " " + bad).code, 1);
  EXPECT_FALSE(fs::exists(folder() / "out"));
  const Outcome history = headroom("history " + folder().string());
  EXPECT_EQ(history.code, 0) << history.err;
  EXPECT_THAT(history.err, AllOf(HasSubstr("left out"), HasSubstr("bad.json")));
  const Outcome report = headroom("report --format html --out " + file("out") + " " + folder().string());
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.err, AllOf(HasSubstr("left out"), HasSubstr("bad.json")));
  for (const char* page : {"out/index.md", "out/performance_dashboard.html"})
    EXPECT_THAT(read_file(file(page)), HasSubstr("bad.json")) << page;
}

}  // namespace
}  // namespace headroom
