#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "cli/commands/bench.hpp"
#include "cli/commands/bench_options.hpp"
#include "cli/commands/commands.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "cli/table_output.hpp"
#include "measure/results/describe.hpp"
#include "measure/work/asked_pass.hpp"
#include "pipelines/examples.hpp"
#include "pipelines/model_suite.hpp"

namespace headroom {
namespace {

/// Measures here, or in separate processes whose results are then judged.
ExitCode bench_or_judge(BenchArguments& arguments, const CLI::App& command) {
  const std::string& what = arguments.model.model;
  check_bench_options(command, what, arguments.switches);
  const auto [rows, columns] = arguments.reference;
  if ((rows == 0) != (columns == 0)) fail_usage("--reference-rows and --reference-columns are given together");
  if (rows != 0 && arguments.pass == kWholeRequest)
    fail_usage("--reference-rows is for a forward pass, not for --pass {}", kWholeRequest);
  if (rows != 0) arguments.request.references = {arguments.reference};
  if (arguments.floors && arguments.pass != kWholeRequest) fail_usage("--floors is for --pass {}", kWholeRequest);
  if (arguments.list) {
    list_benchmarks(arguments);
    return ExitCode::kOk;
  }
  apply_precision(arguments.judging, arguments.protocol);
  check_clock();
  if (!arguments.save.empty()) check_writable(arguments.save);
  if (what != "models" && !is_judge(arguments.judging)) {
    const auto bench_model = arguments.pass == kWholeRequest ? bench_requests : bench_pass;
    const std::map<std::string_view, void (*)(const BenchArguments&)> suites = {{"kernels", bench_kernel_suite},
                                                                                {"bodies", bench_body_suite},
                                                                                {"load", bench_load_suite},
                                                                                {"attention", bench_attention_suite}};
    const auto suite = suites.find(what);
    (suite == suites.end() ? bench_model : suite->second)(arguments);
    return ExitCode::kOk;
  }
  const Device device = find_device(arguments.model.device);
  std::vector<ModelCase> suite;
  if (what == "models") suite = filter_model_cases(list_model_cases(device.kind->has_launches), arguments.filter);
  check_suite_options(command, suite);
  return judge_bench(command, arguments.judging, device, suite);
}

}  // namespace

void add_bench_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand(
      "bench",
      "time one forward pass of a model, whole requests, or a suite (`bench kernels`, `bench "
      "bodies`, `bench models`, `bench load`, `bench attention`) in one configuration; compare builds");
  const auto arguments = std::make_shared<BenchArguments>();
  add_model_arguments(*command, arguments->model);
  add_lora_option(*command, arguments->model.loras);
  CLI::Option* const model = command->get_option("MODEL")->required(false);  // not needed for --list
  model->description(model->get_description() + "; or a suite: kernels, bodies, models, load or attention");
  add_auto_switches(*command, arguments->switches, "baseline");
  command->add_option("--batch", arguments->request.images, "samples in one forward pass")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  add_size_options(*command, arguments->request, arguments->size);
  command
      ->add_option("--reference-rows", arguments->reference.rows,
                   "for a forward pass of an editing model: token rows of the reference image; 0: no image")
      ->check(whole_number(0, 1024));
  command->add_option("--reference-columns", arguments->reference.columns, "token columns of the reference image")
      ->check(whole_number(0, 1024));
  add_pass_option(*command, arguments->pass);
  command->add_option("--trials", arguments->protocol.trials, "timed passes or requests; with --budget: 100")
      ->check(whole_number(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--max-seconds", arguments->protocol.max_seconds,
                   "start no more trials after this time, which is at most 5 for a benchmark of `kernels` or `bodies`")
      ->check(real_number(1.0, 86'400.0))
      ->capture_default_str();
  command->add_flag(
      "--first-step", arguments->first_step,
      "also time requests of new shapes up to their first finished pass, with the weights already loaded");
  command->add_flag("--cold", arguments->cold,
                    "also time passes (or kernels) with cold caches: filled with other data before each");
  command->add_flag(
      "--floors", arguments->floors,
      "for whole requests: also measure the floor of each stage, its least possible time on this machine");
  command
      ->add_option("--rounds", arguments->rounds,
                   "for the suites `kernels` and `bodies`: rounds in which a benchmark alternates with the measurement "
                   "of its floor, for a machine whose speed changes; 1: measure floors separately")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--filter", arguments->filter,
                   "for a suite: only benchmarks whose names match this regular expression")
      ->type_name("REGEX");
  command->add_option("--tokens", arguments->attention.tokens, "for the suite `attention`: lengths of the sequence")
      ->delimiter(',')
      ->check(whole_number(2, 1 << 24))
      ->capture_default_str();
  command->add_option("--heads", arguments->attention.heads, "for the suite `attention`: heads")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_option("--head-dim", arguments->attention.head_dim, "for the suite `attention`: elements of a head")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_flag("--causal", arguments->attention.causal,
                    "for the suite `attention`: each token sees those up to itself");
  arguments->attention.ranks = 0;
  command
      ->add_option("--ranks", arguments->attention.ranks,
                   "for the suite `attention`: ranks that share a sequence; 0: the GPUs that --device names, or 1")
      ->check(whole_number(0, 8))
      ->capture_default_str();
  command->add_flag("--list", arguments->list, "only list the names of the suites' benchmarks");
  command->add_option("--out", arguments->save, "result file to write (schema headroom.result/1); - for --json")
      ->check(written_as({".json"}, Dash::kTaken))
      ->type_name("FILE");
  command->add_flag("--json", arguments->as_json, "print the result file");
  add_judging_options(*command, arguments->judging);
  command->footer(
      fmt::format("Example: headroom bench {0} --batch 20 --opt lossless --out result.json\n"
                  "         headroom bench {0} --pass request --floors\n"
                  "         headroom bench kernels --filter 'linear bf16' --threads 2\n"
                  "         headroom bench bodies --filter 'bf16 large' --rounds 4 --device cuda\n"
                  "         headroom bench load --device cuda\n"
                  "         headroom bench attention --tokens 131072 --causal --device cuda:0-1\n"
                  "         headroom bench {0} --against build/base/headroom --threshold 3%\n"
                  "Exit codes: 0 ok, 3 something regressed or a budget was missed, 4 inconclusive.",
                  examples::kShipped));
  command->callback([arguments, command, &exit_code] {
    if (take_standard_output(*command, arguments->save)) arguments->as_json = true;
    exit_code = bench_or_judge(*arguments, *command);
  });
}

}  // namespace headroom
