#include "cli/commands/bench_judging.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "base/files/file.hpp"
#include "base/log.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/tensors/divide_up.hpp"
#include "base/text/json.hpp"
#include "base/text/quantity.hpp"
#include "cli/common.hpp"
#include "cli/given_options.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "cli/table_output.hpp"
#include "measure/gates/budget.hpp"
#include "measure/protocol/bench_process.hpp"
#include "measure/results/export.hpp"
#include "measure/results/import.hpp"
#include "measure/statistics/comparison.hpp"
#include "measure/statistics/process_pairs.hpp"
#include "measure/statistics/tail.hpp"
#include "measure/suites/benchmark_names.hpp"

namespace headroom {
namespace {

/// Options of the judging process only; all others are passed to the measuring processes.
constexpr std::array<std::string_view, 21> kOwnOptions = {
    "--strict",   "--compare",       "--against",     "--processes", "--max-processes", "--threshold", "--limit",
    "--budget",   "--process-noise", "--format",      "--force",     "--out",           "--save-base", "--save-verdict",
    "--markdown", "--junit",         "--annotations", "--json",      "--quiet",         "--help",      "--device"};

std::string option_text(const CLI::App& command, const std::string& name) {
  const CLI::Option* option = command.get_option_no_throw(name);
  return option == nullptr || option->count() == 0 ? "" : option->as<std::string>();
}
bool is_suite_of_kernels(const std::string& what) { return what == "kernels" || what == "bodies" || what == "load"; }
bool has_flag(const CLI::App& command, const std::string& name) { return command.count(name) > 0; }

/// The given options that concern the measurement. The filter of a suite of models was already applied.
std::vector<std::string> measuring_options(const CLI::App& command, bool is_filtered) {
  std::vector<std::string_view> others(kOwnOptions.begin(), kOwnOptions.end());
  if (is_filtered) others.emplace_back("--filter");
  return given_options(command, others);
}

class Judge {
 public:
  Judge(const CLI::App& command, const BenchJudging& judging, const Device& device, const std::vector<ModelCase>& suite)
      : command_(command),
        judging_(judging),
        device_(device),
        suite_(suite),
        log_(has_flag(command, "--quiet")),
        format_(has_flag(command, "--json") || is_standard_output(option_text(command, "--out")) ? "json"
                                                                                                 : judging.format) {
    compared_.limits = parse_limits(judging.limits, "--limit");
    compared_.rule.threshold = threshold_of(judging.threshold, compared_.limits);
    compared_.force = judging.force;
    if (!judging.process_noise.empty()) compared_.process_noise = parse_share(judging.process_noise, "--process-noise");
    if (!judging.budget.empty()) budget_ms_ = parse_budget_ms(judging.budget, "--budget");
    if (!judging_.against.empty() && !judging_.compare.empty())
      fail_usage("--against runs the base itself and --compare reads it from a file; give one of the two");
  }

  ExitCode run() {
    // Checked and read before anything runs: a mistake should not cost minutes, and --out may replace the file.
    check_outputs();
    std::optional<ResultFile> stored;
    if (!judging_.compare.empty()) stored = read_measurements(judging_.compare);
    measure();
    log_.info("device: {}", name_of(device_));  // after what the processes refuse
    std::optional<Comparison> comparison = std::move(comparison_);
    if (stored) comparison = compare_results(*stored, measured_, compared_);
    if (comparison && !comparison->forced.empty())
      for (Result& result : measured_.results) result.tags.emplace_back("forced_comparison");
    save(comparison);
    print();
    const ExitCode code = judge(comparison);
    say_without_effect();
    return code;
  }

 private:
  void say_without_effect() const {
    const SwitchList switches{.list = option_text(command_, "--opt"),
                              .is_given = command_.count("--opt") > 0,
                              .is_strict = has_flag(command_, "--strict")};
    WithoutEffect(log_, switches).say(measured_);
  }

  void check_outputs() const {
    if (!judging_.save_base.empty()) check_writable(judging_.save_base);
    if (!judging_.save_verdict.empty()) check_writable(judging_.save_verdict);
    check_verdict_outputs(judging_.outputs);
  }

  std::vector<std::string> command_line(const std::string& binary, const std::string& what,
                                        const std::vector<std::string>& arguments) const {
    std::vector<std::string> line = {binary, "bench", what};
    for (const std::string& argument : arguments)  // unless the user's own option replaces it
      if (!has_flag(command_, argument.substr(0, argument.find('=')))) line.push_back(argument);
    for (std::string& option : measuring_options(command_, !suite_.empty())) line.push_back(std::move(option));
    if (const std::int64_t trials = trials_of_budget(what); trials > 0)
      line.push_back(fmt::format("--trials={}", trials));
    // Passed explicitly, so that both binaries use the same device, whatever their defaults.
    line.insert(line.end(), {"--device=" + device_argument(device_), "--json", "--quiet"});
    return line;
  }

  /// The number of trials per process from which all processes together can estimate the p99, which a budget
  /// judges. 0 if the user gives a number, and for suites that choose their own.
  std::int64_t trials_of_budget(const std::string& what) const {
    if (!budget_ms_ || has_flag(command_, "--trials") || (suite_.empty() && is_suite_of_kernels(what))) return 0;
    return divide_up(kTrialsOfP99, static_cast<std::int64_t>(std::max(1, judging_.processes)));
  }

  /// Runs MODEL in one process, or each benchmark of the suite in one of its own.
  BenchRun run_of(const std::string& binary) const {
    return [this, binary] {
      if (suite_.empty()) return run_bench_process(command_line(binary, option_text(command_, "MODEL"), {}));
      std::vector<ResultFile> files;
      std::vector<std::string> names;
      for (const ModelCase& one : suite_) {
        files.push_back(run_bench_process(command_line(binary, one.model, one.arguments)));
        names.push_back(one.request);
      }
      return join_benchmarks(files, names);
    };
  }

  void measure() {
    const std::string own = own_program();
    std::optional<Progress> progress;
    const auto show = [&](int done, int total) {
      if (!progress)
        progress.emplace("processes", total, log_.quiet());
      else if (total != shown_total_)
        progress->begin("processes", total);
      shown_total_ = total;
      progress->set(done);
    };
    if (judging_.against.empty()) {
      const int processes = std::max(1, judging_.processes);
      show(0, processes);
      measured_ = run_processes(run_of(own), processes, [&](int done) { show(done, processes); });
      return;
    }
    PairOptions options{.compared = compared_};
    if (judging_.processes > 0) options.pairs = judging_.processes;
    options.max_pairs = judging_.max_processes > 0 ? judging_.max_processes : 4 * options.pairs;
    if (options.max_pairs < options.pairs)
      fail_usage("--max-processes is {}, expected at least the {} pairs that the comparison begins with (--processes)",
                 options.max_pairs, options.pairs);
    show(0, 2 * options.pairs);
    PairedRuns runs = run_pairs(run_of(judging_.against), run_of(own), options, show);
    measured_ = std::move(runs.changed);
    base_ = std::move(runs.base);
    comparison_ = std::move(runs.comparison);
  }

  void save(const std::optional<Comparison>& comparison) const {
    const std::string path = option_text(command_, "--out");
    if (!path.empty() && !is_standard_output(path)) write_results(path, measured_);
    if (!judging_.save_base.empty()) write_results(judging_.save_base, base_);
    if (comparison && !judging_.save_verdict.empty()) write_json(judging_.save_verdict, to_json(*comparison));
  }

  void print() const {
    if (format_ == "json")
      print_out("{}\n", dump_json(to_json(measured_), 2));
    else if (format_ == "google-benchmark")
      print_out("{}\n", dump_json(to_google_benchmark(measured_), 2));
    else
      print_tables(to_summary_table(measured_), {.format = format_.empty() ? "text" : format_});
    BenchmarkNames names;
    names.add(measured_);
    for (const Result& result : measured_.results)
      if (const std::string note = describe_disturbance(result.trials.front().conditions); !note.empty())
        log_.info("{}: {}", names.of(measured_.machine, result), note);
  }

  /// Output for other programs has stdout to itself; verdicts then go to stderr.
  int descriptor_of_verdicts() const { return format_.empty() || format_ == "text" ? STDOUT_FILENO : STDERR_FILENO; }
  void print_verdicts(const Printout& verdicts) const {
    write_output(descriptor_of_verdicts(), "\n" + fitted_text(verdicts, descriptor_of_verdicts()));
  }

  ExitCode judge(const std::optional<Comparison>& comparison) const {
    std::vector<GateReport> reports;
    if (comparison) {
      reports.push_back(report_of(*comparison));
      print_verdicts(gate_table(reports.back()));
    }
    if (budget_ms_) {
      const std::vector<BudgetLine> lines = judge_budgets(measured_, *budget_ms_);
      reports.push_back(report_of(lines, *budget_ms_));
      print_verdicts(to_table(lines, *budget_ms_));
    }
    write_verdict(judging_.outputs, reports, descriptor_of_verdicts());
    ExitCode code = ExitCode::kOk;
    for (const GateReport& report : reports)
      if (const ExitCode other = exit_code_of(report); code != ExitCode::kRegression && other != ExitCode::kOk)
        code = other;
    return code;
  }

  const CLI::App& command_;
  const BenchJudging& judging_;
  Device device_;
  std::vector<ModelCase> suite_;
  Log log_;
  std::string format_;
  ComparisonOptions compared_;
  std::optional<double> budget_ms_;
  int shown_total_ = -1;
  ResultFile measured_;
  ResultFile base_;
  std::optional<Comparison> comparison_;
};

}  // namespace

void add_judging_options(CLI::App& command, BenchJudging& judging) {
  command
      .add_option("--precision", judging.precision,
                  "continue after --trials until the 95% confidence interval of the median is within this share")
      ->type_name("SHARE");
  command
      .add_option(
          "--processes", judging.processes,
          "number of processes to measure in, one after the other; with --against, number of pairs (default: 8)")
      ->check(whole_number(1, 1000));
  command
      .add_option("--max-processes", judging.max_processes,
                  "with --against: most pairs to run while the verdict is not settled; default: four times --processes")
      ->check(whole_number(1, 1000));
  command.add_option("--against", judging.against, "compare with this other headroom binary; both run alternately")
      ->type_name("BINARY");
  command.add_option("--compare", judging.compare, "compare with this result file")->type_name("FILE");
  command.add_option("--threshold", judging.threshold, "smallest slowdown that counts as a regression; default: 5%")
      ->type_name("SHARE");
  add_limit_option(command, judging.limits);
  add_verdict_outputs(command, judging.outputs);
  command
      .add_option("--process-noise", judging.process_noise,
                  "with --compare and one process on each side: standard deviation between processes")
      ->type_name("SHARE");
  command.add_flag("--force", judging.force,
                   "compare even if machine, build or configuration differ; the output says so");
  command.add_option("--budget", judging.budget, "limit of median and p99, as a time (40ms) or a rate (25fps)")
      ->type_name("BUDGET");
  command.add_option("--format", judging.format, "output format: text, csv, md, latex, json or google-benchmark")
      ->check(CLI::IsMember({"text", "csv", "md", "markdown", "latex", "json", "google-benchmark"}))
      ->excludes("--json");
  command.add_option("--save-base", judging.save_base, "with --against: result file of the other binary")
      ->check(written_as({".json"}))
      ->type_name("FILE");
  command.add_option("--save-verdict", judging.save_verdict, "file for the comparison (schema headroom.comparison/1)")
      ->check(written_as({".json"}))
      ->type_name("FILE");
}

void apply_precision(const BenchJudging& judging, Protocol& protocol) {
  if (!judging.precision.empty()) protocol.precision = parse_share(judging.precision, "--precision");
}

bool is_judge(const BenchJudging& judging) {
  return judging.processes > 0 || !judging.against.empty() || !judging.compare.empty() || !judging.budget.empty() ||
         !judging.format.empty() || !judging.save_verdict.empty() || !judging.save_base.empty() ||
         !judging.outputs.markdown.empty() || !judging.outputs.junit.empty() || judging.outputs.annotations;
}

ExitCode judge_bench(const CLI::App& command, const BenchJudging& judging, const Device& device,
                     const std::vector<ModelCase>& suite) {
  return Judge(command, judging, device, suite).run();
}

}  // namespace headroom
