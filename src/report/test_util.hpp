#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/dataset.hpp"

/// Results with known numbers, for tests of charts.
namespace headroom::test {

/// A denoise request of 2 images in 10 steps on 16x16 tokens.
inline Subject denoise_subject() {
  return {.kind = SubjectKind::kModel,
          .name = "tiny-dit",
          .request = {{"images", 2}, {"steps", 10}, {"token_rows", 16}, {"token_columns", 16}}};
}

inline Machine machine_at(const std::string& revision = "0123456789ab") {
  Machine machine;
  machine.cpu = "Test CPU";
  machine.logical_cores = 4;
  machine.allowed_cores = 2;
  machine.memory_bytes = 1'073'741'824;
  machine.os = "an OS";
  machine.kernel = "a kernel";
  machine.build =
      BuildInfo{.version = "0.1.0", .git_revision = revision, .type = "Release", .compiler = "gcc", .optimized = true};
  machine.libraries = {{"oneDNN", "2.6"}};
  return machine;
}

/// A result of a configuration; `trials_ms` are the trials of the series `what`.
inline Result make_result(std::vector<std::string> switches, std::vector<double> trials_ms,
                          Subject subject = denoise_subject(), const std::string& what = "step") {
  std::string name = switches.empty() ? "baseline" : switches.front();
  for (std::size_t i = 1; i < switches.size(); ++i) name += "+" + switches[i];
  Result result;
  result.id = name;
  result.name = name;
  result.subject = std::move(subject);
  result.source = {.name = "headroom", .version = "0.1.0"};
  result.configuration.device = "cpu";
  result.configuration.asked = switches;
  result.configuration.applied = std::move(switches);
  result.configuration.threads = 2;
  result.configuration.baseline_dtype = "f32";
  // The first half is of one process, the second of another.
  std::vector<Trials> processes(trials_ms.size() > 1 ? 2 : 1);
  for (std::size_t i = 0; i < processes.size(); ++i) {
    processes[i].warmup = 5;
    processes[i].process = static_cast<std::int64_t>(i);
  }
  const std::size_t half = (trials_ms.size() + 1) / 2;
  for (std::size_t i = 0; i < trials_ms.size(); ++i) processes[i / half].wall_ms.push_back(trials_ms[i]);
  result.trials = {make_series(what, processes)};
  return result;
}

/// The same from another program.
inline Result make_peer(const std::string& name, std::vector<double> trials_ms, Subject subject = denoise_subject(),
                        const std::string& what = "step") {
  Result result = make_result({}, std::move(trials_ms), std::move(subject), what);
  result.id = name;
  result.name = name;
  result.source = {.name = "pytorch", .version = "2.11"};
  result.configuration.baseline_dtype.reset();
  return result;
}

inline void set_memory(Result& result, std::int64_t weights, std::int64_t peak, std::int64_t reserved) {
  result.memory = MemoryReport{};
  result.memory->weights_bytes = weights;
  result.memory->peak_bytes = peak;
  result.memory->reserved_bytes = reserved;
  result.memory->device_total_bytes = 1'073'741'824;
  result.memory->untracked_bytes = 0;
}

inline void set_quality(Result& result, const std::string& metric, std::optional<double> value,
                        std::optional<Interval> interval = {}, std::optional<std::string> note = {}) {
  result.quality.push_back({.metric = metric,
                            .against = metric == "psnr_db" ? "baseline, same seeds" : "the reference",
                            .value = value,
                            .interval = interval,
                            .note = std::move(note)});
}

inline ResultFile make_file(std::vector<Result> results, const std::string& created = "2026-01-02T03:04:05Z",
                            const std::string& revision = "0123456789ab") {
  return {.created = created, .machine = machine_at(revision), .plans = {}, .results = std::move(results)};
}

inline Dataset make_dataset(std::vector<ResultFile> files) {
  std::vector<std::pair<std::string, ResultFile>> named;
  for (ResultFile& file : files) named.emplace_back("file-" + std::to_string(named.size()) + ".json", std::move(file));
  return Dataset(std::move(named));
}

/// A ladder in ms per step: baseline 100, arena 80, fuse 125 (slower), steps=5 100; arena+fuse 50, all 50. An image
/// takes 5 (or 2.5) times a step.
inline std::vector<Result> ladder_results() {
  const auto around = [](double ms) { return std::vector<double>{ms - 1, ms, ms, ms, ms, ms + 1}; };
  std::vector<Result> results = {make_result({}, around(100)),
                                 make_result({"arena"}, around(80)),
                                 make_result({"fuse"}, around(125)),
                                 make_result({"steps=5"}, around(100)),
                                 make_result({"arena", "fuse"}, around(50)),
                                 make_result({"arena", "fuse", "steps=5"}, around(50))};
  for (Result& result : results) set_memory(result, 4'194'304, 8'388'608, 10'485'760);
  set_memory(results.back(), 2'097'152, 6'291'456, 6'291'456);
  return results;
}

/// A kernel measured by itself; the plan that its result names is added to `file`.
inline void add_kernel(ResultFile& file, const std::string& op, const std::string& name,
                       const std::string& compute_type, const std::string& unit, double bytes, double flops,
                       std::vector<double> trials_ms) {
  Result result = make_result({}, std::move(trials_ms),
                              {.kind = SubjectKind::kKernel, .name = op, .request = {{"case", name}}}, "launch");
  result.id = name;
  result.name = name;
  result.configuration.baseline_dtype.reset();
  result.plan = "plan of " + name;
  file.plans[*result.plan].nodes = {{.node = "",
                                     .op = op,
                                     .kernel = "our." + op,
                                     .implementation = "some",
                                     .compute_type = compute_type,
                                     .cost_bytes = bytes,
                                     .cost_flops = flops,
                                     .cost_unit = unit,
                                     .rejections = {}}};
  file.results.push_back(std::move(result));
}

/// A copy, two matmuls and an attention.
inline ResultFile kernel_file() {
  ResultFile file = make_file({});
  Result copy =
      make_result({}, {10, 10, 10},
                  {.kind = SubjectKind::kKernel, .name = "copy", .request = {{"bytes", 1'000'000'000}}}, "launch");
  copy.id = copy.name = "copy";
  file.results.push_back(std::move(copy));
  add_kernel(file, "linear", "linear f32", "f32", "matrix", 1e6, 1e9, {4, 5, 6});
  add_kernel(file, "linear", "linear bf16", "bf16", "matrix", 5e5, 1e9, {1, 1, 1});
  add_kernel(file, "attention", "attention bf16", "bf16", "matrix", 1e6, 2e9, {4, 4, 4});
  add_kernel(file, "add", "add f32", "f32", "vector", 1e9, 1e8, {8, 8, 8});
  return file;
}

}  // namespace headroom::test
