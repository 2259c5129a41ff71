#include <fmt/format.h>
#include <fmt/ranges.h>

#include <csignal>
#include <filesystem>
#include <map>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/files/file.hpp"
#include "base/out_of_memory.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/list.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "cli/size_list.hpp"
#include "cli/table_output.hpp"
#include "kernels/core/limit_isa.hpp"
#include "measure/probes/machine.hpp"
#include "measure/protocol/bench_process.hpp"
#include "measure/protocol/generation.hpp"
#include "measure/protocol/subprocess.hpp"
#include "measure/protocol/sweep.hpp"
#include "measure/results/describe.hpp"
#include "pipelines/examples.hpp"

namespace headroom {
namespace {

struct SweepArguments {
  ModelArguments model;
  SweepGrid grid{.switches = {}, .sizes = {ImageSize{}}, .steps = {0}, .batches = {1}};
  int trials = 20;
  int processes = 1;
  std::string out;
  bool floors = false;
  bool force = false;
  TableOutput output;
  bool is_cell = false;
  SwitchList switches;  ///< all --opt lists, to report those without effect
};

RequestOptions request_of(const Pipeline& pipeline, const SweepCell& cell) {
  return {.images = cell.batch,
          .token_rows = tokens_along(pipeline, "--resolution", cell.size.height),
          .token_columns = tokens_along(pipeline, "--resolution", cell.size.width),
          .steps = cell.steps,
          .switches = SwitchSet::parse(cell.switches),
          .suggests_what_fits = false};
}

Subject work_of(const Pipeline& pipeline, const SweepCell& cell) {
  return describe_request(pipeline, request_of(pipeline, cell));
}

/// The result of a cell that needs more memory than there is. Its configuration is that of a cell that fits, so that
/// both are of one table.
ResultFile out_of_memory(const Engine& engine, const SweepCell& cell) {
  const Pipeline& pipeline = *engine.pipeline;
  const DeviceTarget target = engine.backend->properties().target;
  const RequestOptions options = request_of(pipeline, cell);
  const SwitchSet switches = options.switches.for_target(target);
  const Compiled compiled = compile_denoise(pipeline, pipeline.resolve(options), switches, target);
  ResultFile file = begin_result_file();
  Result result = begin_result(switches, describe_request(pipeline, options), compiled, pipeline.denoiser().checkpoint,
                               *engine.backend);
  result.tags.emplace_back(kOutOfMemoryTag);
  file.results.push_back(std::move(result));
  return file;
}

/// Measures a single cell in this process.
void measure_cell(const SweepArguments& arguments) {
  const std::vector<SweepCell> cells = list_cells(arguments.grid);
  if (cells.size() != 1) fail_usage("--cell measures one cell, but {} were given", cells.size());
  const Engine engine = open_engine(arguments.model);
  ResultFile file;
  try {
    file = measure_generation(*engine.pipeline, *engine.backend,
                              {.request = request_of(*engine.pipeline, cells[0]),
                               .min_trials = arguments.trials,
                               .floors = arguments.floors});
  } catch (const OutOfMemory&) {
    file = out_of_memory(engine, cells[0]);
  } catch (const std::bad_alloc&) {
    file = out_of_memory(engine, cells[0]);
  }
  print_out("{}\n", dump_json(to_json(file)));
}

constexpr std::int64_t kMostSidePixels = 16'384;  // along a side
constexpr std::string_view kOwn = "own";          // in lists: the model's own value

std::string number_or_own(std::int64_t number) { return number == 0 ? std::string(kOwn) : std::to_string(number); }

std::vector<std::string> cell_command(const SweepArguments& arguments, const Device& device, const SweepCell& cell) {
  const ModelArguments& model = arguments.model;
  std::vector<std::string> command = {std::filesystem::read_symlink("/proc/self/exe").string(),
                                      "sweep",
                                      model.model,
                                      "--cell",
                                      "--quiet",
                                      "--opt=" + cell.switches,
                                      fmt::format("--resolution={}", size_text(cell.size)),
                                      fmt::format("--steps={}", number_or_own(cell.steps)),
                                      fmt::format("--batch={}", cell.batch),
                                      fmt::format("--trials={}", arguments.trials),
                                      "--device=" + device_argument(device),
                                      fmt::format("--threads={}", model.threads)};
  if (arguments.floors) command.emplace_back("--floors");
  if (model.random_weights) command.push_back(fmt::format("--random-weights={}", *model.random_weights));
  if (!model.random_format.empty()) command.push_back("--random-format=" + model.random_format);
  if (!model.variant.empty()) command.push_back("--variant=" + model.variant);
  for (const std::string& part : model.parts) command.push_back("--part=" + part);
  for (const std::string& value : model.config) command.push_back("--config=" + value);
  if (!model.baseline.empty()) command.push_back("--baseline=" + model.baseline);
  if (!model.cpu_isa.empty()) command.push_back("--cpu-isa=" + model.cpu_isa);
  return command;
}

/// Measures a cell in separate processes. This frees all memory before the next cell, and the system may kill the
/// process.
ResultFile run_cell(const SweepArguments& arguments, const Device& device, const SweepCell& cell) {
  const std::vector<std::string> command = cell_command(arguments, device, cell);
  std::vector<ResultFile> files;
  for (int i = 0; i < arguments.processes; ++i) {
    const ProcessOutcome outcome = run_process(command);
    if (outcome.signal == SIGKILL) {
      ModelArguments model = arguments.model;
      model.quiet = true;
      return out_of_memory(open_engine(model), cell);
    }
    files.push_back(read_bench_outcome(command, outcome));
    // the next process would not have enough memory either
    if (files.back().results.front().trials.empty()) return files.back();
  }
  return merge_processes(files);
}

/// The settings in the ids of cells other than the grid, so that cells with other settings are not confused with
/// them.
std::string setting_of(const ModelArguments& model, const Device& device) {
  std::vector<std::string> said;
  if (device != Device{}) said.push_back(device_argument(device));
  if (model.threads != 0) said.push_back(format_count(model.threads, "thread"));
  if (!model.baseline.empty()) said.push_back(model.baseline + " baseline");
  if (!model.cpu_isa.empty()) said.push_back(model.cpu_isa);
  if (model.random_weights) said.push_back(fmt::format("random weights {}", *model.random_weights));
  if (!model.random_format.empty()) said.push_back(model.random_format);
  return fmt::format("{}", fmt::join(said, ", "));
}

/// Rejects two requests for one work, such as the model's own size both as `own` and in pixels.
void check_cells(const Pipeline& pipeline, const SweepTask& task) {
  std::map<std::string, std::string> known;
  for (const SweepCell& cell : task.cells) {
    const std::string key = work_hash(work_of(pipeline, cell)) + request_of(pipeline, cell).switches.to_string();
    const auto [same, is_new] = known.try_emplace(key, cell_id(task, cell));
    if (!is_new) fail_usage("'{}' and '{}' are the same work; ask for it once", cell_id(task, cell), same->second);
  }
}

void run_sweep(const SweepArguments& arguments) {
  if (arguments.is_cell) return measure_cell(arguments);
  if (arguments.out.empty()) fail_usage("a sweep needs a file to keep its cells in: --out FILE");
  if (is_standard_output(arguments.out))
    fail_usage("--out -: a sweep keeps its cells in a file; --json prints it as well");
  check_clock();
  check_writable(arguments.out);
  if (!arguments.model.cpu_isa.empty()) limit_cpu_isa(*parse_cpu_isa(arguments.model.cpu_isa));
  const Device device = find_device(arguments.model.device);
  const std::unique_ptr<Pipeline> pipeline = open_pipeline(arguments.model.model, open_options(arguments.model));
  const SweepTask task{.model = pipeline->name(),
                       .cells = list_cells(arguments.grid),
                       .setting = setting_of(arguments.model, device),
                       .trials = arguments.trials,
                       .processes = arguments.processes,
                       .machine = describe_machine(),
                       .force = arguments.force};
  check_cells(*pipeline, task);
  const Log log(arguments.model.quiet);
  log.info("device: {}", name_of(device));
  constexpr std::int64_t kUnits = 1000;
  std::optional<Progress> progress;
  const auto show = [&](const SweepProgress& at) {
    if (!progress)
      progress.emplace(format_count(static_cast<std::int64_t>(at.cells), "cell"), kUnits, arguments.model.quiet,
                       STDERR_FILENO, ProgressUnit::kPercent);
    progress->set(static_cast<std::int64_t>(at.work_done * kUnits));
  };
  const ResultFile file =
      sweep(arguments.out, task,
            {.run = [&](const SweepCell& cell) { return run_cell(arguments, device, cell); },
             .work =
                 [&](const SweepCell& cell) {
                   return CellWork{work_of(*pipeline, cell), request_of(*pipeline, cell).switches.names()};
                 },
             .on_progress = show,
             .on_again = [&](const std::string& id,
                             const std::string& why) { log.info("measured again: {}: {}", id, why); }});
  if (arguments.output.is_json())
    print_out("{}\n", dump_json(to_json(file), 2));
  else
    print_tables(to_sweep_table(file, task), arguments.output);
  WithoutEffect(log, arguments.switches).say(file);
}

}  // namespace

void add_sweep_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "sweep", "measure time, throughput and memory over image sizes, numbers of steps, batch sizes and switches");
  const auto arguments = std::make_shared<SweepArguments>();
  add_model_arguments(*command, arguments->model);
  const auto add_list = [&](const char* name, std::vector<std::int64_t>& values, const char* what, std::int64_t high,
                            std::string_view own = {}) {
    command
        ->add_option_function<std::vector<std::string>>(
            name,
            [&values, name, high, own](const std::vector<std::string>& lists) {
              values = parse_whole_numbers(lists, name, 1, high, own);
            },
            what)
        ->type_name(fmt::format("INT in [1 - {}]", high))
        ->default_str(number_or_own(values.front()));
  };
  command
      ->add_option_function<std::vector<std::string>>(
          "--resolution",
          [arguments](const std::vector<std::string>& lists) {
            arguments->grid.sizes = parse_sizes(lists, "--resolution", kMostSidePixels);
          },
          "sizes in pixels, as WIDTHxHEIGHT such as 512x768, or one number for a square, separated by commas; own is "
          "the model's own size")
      ->type_name("SIZES")
      ->default_str(std::string(kOwn));
  add_list("--steps", arguments->grid.steps, "denoise steps, separated by commas; own is the model's own number",
           10'000, kOwn);
  add_list("--batch", arguments->grid.batches, "images per batch, separated by commas", 4096);
  command
      ->add_option(
          "--opt", arguments->grid.switches,
          "switches or presets, as in `run` but without auto; may be given several times, to sweep over the lists; "
          "default: baseline")
      ->type_name("LIST");
  add_strict_option(*command, arguments->switches);
  command->add_option("--trials", arguments->trials, "minimum number of steps to time in each cell")
      ->check(whole_number(3, 100'000))
      ->capture_default_str();
  command
      ->add_option(
          "--processes", arguments->processes,
          "number of processes to measure each cell in, one after the other; `compare` then needs no --process-noise")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--out", arguments->out,
                   "result file, which a sweep needs; its existing cells are kept, unless they have fewer trials or "
                   "processes")
      ->check(written_as({".json"}, Dash::kTaken))
      ->type_name("FILE");
  command->add_flag(
      "--floors", arguments->floors,
      "also measure the floor of each stage, its least possible time on this machine; takes some seconds per cell");
  command->add_flag("--force", arguments->force, "continue a file that another machine or build began");
  add_table_options(*command, arguments->output, "print the result file instead of the table");
  command->add_flag("--cell", arguments->is_cell, "measure a single cell in this process and print its result file");
  command->footer(fmt::format(
      "Example: headroom sweep {} --steps 4,10,28 --batch 1,4 --opt baseline --opt lossless --out sweep.json\n"
      "A sweep that was stopped or killed resumes when it is run again.",
      examples::kShipped));
  command->callback([arguments] {
    for (const std::string& list : arguments->grid.switches)
      if (!split_list(list, "--opt").empty())
        arguments->switches.list += (arguments->switches.list.empty() ? "" : ",") + list;
    arguments->switches.is_given = !arguments->grid.switches.empty();
    if (arguments->grid.switches.empty()) arguments->grid.switches = {"baseline"};
    for (std::string& list : arguments->grid.switches) {  // cells are named without blanks
      list = fmt::format("{}", fmt::join(split_list(list, "--opt"), ","));
      if (list.empty()) list = "baseline";
    }
    run_sweep(*arguments);
  });
}

}  // namespace headroom
