#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/json.hpp"
#include "base/text/name_filter.hpp"
#include "cli/commands/bench.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "measure/suites/body_suite.hpp"
#include "measure/suites/kernel_suite.hpp"
#include "measure/suites/load_suite.hpp"
#include "pipelines/model_suite.hpp"

namespace headroom {
namespace {

void save_and_print(const BenchArguments& arguments, const ResultFile& file,
                    Printout (*to_table)(const ResultFile& file)) {
  if (!arguments.save.empty()) write_results(arguments.save, file);
  if (arguments.as_json)
    print_out("{}\n", dump_json(to_json(file), 2));
  else
    print_tables(to_table(file));
}

using SmallSuite = ResultFile (*)(Backend& backend, const KernelBenchOptions& options,
                                  const KernelBenchObserver& on_progress, const KernelBenchSkips& on_skip);
void bench_small_cases(const BenchArguments& arguments, SmallSuite bench) {
  const Log log(arguments.model.quiet);
  const std::unique_ptr<Backend> backend = open_backend(arguments.model);
  tell_device(Log(arguments.model.quiet), *backend);
  PhaseProgress progress(arguments.model.quiet);
  std::map<std::string, std::vector<std::string>> left_out;  // names by reason
  const ResultFile file = bench(
      *backend,
      {.filter = arguments.filter,
       .max_seconds = std::min(arguments.protocol.max_seconds, 5.0),
       .cold = arguments.cold,
       .rounds = arguments.rounds},
      [&](const KernelBenchProgress& at) {
        progress.show("measuring", static_cast<std::int64_t>(at.done), static_cast<std::int64_t>(at.total));
      },
      [&](std::string_view name, std::string_view reason) { left_out[std::string(reason)].emplace_back(name); });
  for (const auto& [reason, names] : left_out) log.warning("left out, because {}: {}", reason, fmt::join(names, ", "));
  save_and_print(arguments, file, to_kernel_table);
}

}  // namespace

void list_benchmarks(const BenchArguments& arguments) {
  const std::string& suite = arguments.model.model;
  const DeviceKind device = find_device(arguments.model.device).kind;
  std::vector<std::pair<std::string_view, std::string>> names;  // with their suite
  if (suite.empty() || suite == "models")
    for (const ModelCase& one : list_model_cases(device->has_launches)) names.emplace_back("models", one.name());
  if (suite.empty() || suite == "kernels")
    for (const KernelCase& one : list_kernel_cases(device)) names.emplace_back("kernels", one.name);
  if (suite.empty() || suite == "bodies")
    for (const BodyCase& one : list_body_cases()) names.emplace_back("bodies", one.name);
  const NameFilter filter(arguments.filter);
  std::vector<std::string> all;
  for (const auto& [of, name] : names) all.push_back(name);
  filter.check_takes_any(all, "benchmark");
  for (const auto& [of, name] : names)
    if (filter.takes(name)) print_out("{}{}\n", suite.empty() ? fmt::format("{}: ", of) : "", name);
}

void bench_kernel_suite(const BenchArguments& arguments) { bench_small_cases(arguments, bench_kernels); }

void bench_body_suite(const BenchArguments& arguments) { bench_small_cases(arguments, bench_bodies); }

void bench_load_suite(const BenchArguments& arguments) {
  const std::unique_ptr<Backend> backend = open_backend(arguments.model);
  tell_device(Log(arguments.model.quiet), *backend);
  const ResultFile file = bench_load(*backend);
  save_and_print(arguments, file, to_load_table);
}

void bench_attention_suite(const BenchArguments& arguments) {
  const std::unique_ptr<Backend> backend = open_backend(arguments.model);
  tell_device(Log(arguments.model.quiet), *backend);
  AttentionBenchOptions options = arguments.attention;
  if (options.ranks == 0) options.ranks = std::max(1, device_of(*backend).count);
  options.trials = arguments.protocol.trials;
  Progress progress("measuring", std::ssize(options.tokens), arguments.model.quiet);
  const ResultFile file = bench_attention(*backend, options, [&](std::int64_t done) { progress.set(done); });
  save_and_print(arguments, file, to_attention_table);
}

}  // namespace headroom
