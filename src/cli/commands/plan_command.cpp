#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/output.hpp"
#include "base/text/json.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/table_output.hpp"
#include "kernels/core/generated_kernels.hpp"
#include "measure/results/result_records.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/statistics/trials.hpp"
#include "measure/tables/pass_notes.hpp"
#include "measure/tables/table.hpp"
#include "measure/work/asked_pass.hpp"
#include "measure/work/plan_text.hpp"
#include "pipelines/examples.hpp"
#include "plan/arena.hpp"
#include "plan/matmul_weights.hpp"

namespace headroom {
namespace {

struct PlanArguments {
  ModelArguments model;
  SwitchArguments switches;
  RequestOptions request;
  ImageSize size;
  std::string pass;  ///< empty: a whole request, or the first pass of a network that makes no images
  bool rejections = false;
  bool memory = false;
  bool as_json = false;
  int trials = 1;
};

void add_memory_table(Printout& printout, const Program& program) {
  Table table;
  table.add_column(Column{.header = "node", .align = Align::kLeft, .least = 16});
  table.add_column(Column{.header = "op", .align = Align::kLeft, .priority = 1, .least = 12});
  for (const char* header : {"activations held", "made here", "scratch", "weights read"}) table.add_column(header);
  const std::vector<StepMemory> memory = memory_by_step(program);
  std::size_t most = 0;
  const auto cell = [](std::size_t bytes) { return bytes_cell(static_cast<std::int64_t>(bytes)); };
  for (std::size_t i = 0; i < memory.size(); ++i) {
    const Step& step = program.steps[i];
    table.add_row({step.label, std::string(name_of(step.op)), cell(memory[i].activations), cell(memory[i].made),
                   cell(memory[i].scratch), cell(memory[i].weights)});
    if (memory[i].activations + memory[i].scratch > memory[most].activations + memory[most].scratch) most = i;
  }
  printout.add(std::move(table));
  if (!memory.empty())
    printout.add(fmt::format("\nmost at {} ({}): {} of activations and {} of scratch\n", program.steps[most].label,
                             name_of(program.steps[most].op), format_bytes(memory[most].activations),
                             format_bytes(memory[most].scratch)));
}

/// Device memory at every step, and its peak. The program's setup gets a table of its own.
Printout to_memory_table(const Program& program) {
  Printout printout;
  add_memory_table(printout, program);
  if (program.setup == nullptr) return printout;
  printout.add(std::string("\nits setup, which runs before it:\n\n"));
  add_memory_table(printout, *program.setup);
  return printout;
}

/// Milliseconds of each trial after the first one, in which libraries still search for algorithms.
std::vector<double> plan_again(const CompileRequest& compile_with, const SwitchSet& switches, int trials) {
  std::vector<double> times;
  for (int trial = 1; trial < trials; ++trial) {
    const double start = steady_clock_ms();
    static_cast<void>(compile_with(switches));
    times.push_back(steady_clock_ms() - start);
  }
  return times;
}

nlohmann::json to_json(const GeneratedKernels& generated) {
  return {{"compiled", generated.compiled.load()},
          {"compile_ms", 1e-6 * static_cast<double>(generated.busy_ns)},
          {"compile_thread_ms", 1e-6 * static_cast<double>(generated.compile_ns)},
          {"from_disk", generated.from_disk.load()},
          {"disk_ms", 1e-6 * static_cast<double>(generated.disk_ns)}};
}

nlohmann::json weights_to_json(const Program& program) {
  nlohmann::json matmuls = nlohmann::json::array();
  const auto add = [&](const Program& one, bool is_setup) {
    for (const MatmulWeights& weights : count_matmul_weights(one.graph))
      matmuls.push_back({{"stored", weights.stored},
                         {"computed", weights.computed},
                         {"packed", weights.is_packed},
                         {"matmuls", weights.matmuls},
                         {"setup", is_setup}});
  };
  add(program, false);
  if (program.setup != nullptr) add(*program.setup, true);
  return {{"bytes", weight_bytes(program)}, {"matmuls", std::move(matmuls)}};
}

nlohmann::json steps_to_json(const Program& program) {
  nlohmann::json steps = nlohmann::json::array();
  const std::vector<StepMemory> memory = memory_by_step(program);
  for (const Step& step : program.steps) {
    nlohmann::json entry = {
        {"node", step.label}, {"op", name_of(step.op)}, {"bytes", step.cost.bytes}, {"flops", step.cost.flops}};
    const StepMemory& held = memory[steps.size()];
    entry["memory"] = {{"activations_bytes", held.activations},
                       {"made_bytes", held.made},
                       {"scratch_bytes", held.scratch},
                       {"weights_bytes", held.weights}};
    if (const TiledRun* const run = tiled_run_at(program, static_cast<int>(steps.size()))) entry["parts"] = run->parts;
    if (step.kernel != nullptr) {
      entry["kernel"] = step.kernel->name();
      entry["implementation"] = step.prepared->implementation();
      entry["compute_type"] = step.kernel->compute_name(step.spec);
    }
    for (const RejectedKernel& rejected : step.rejections)
      entry["rejections"].push_back({{"kernel", rejected.kernel}, {"reason", rejected.reason}});
    steps.push_back(std::move(entry));
  }
  return steps;
}

nlohmann::json to_json(const Compiled& compiled, const std::vector<AutoTrial>& trials,
                       const std::vector<double>& again_ms, const GeneratedKernels& generated) {
  nlohmann::json passes = nlohmann::json::array();
  for (const PassRecord& pass : compiled.passes) {
    nlohmann::json kept = nlohmann::json::array();
    for (const PassNote& note : pass.notes) kept.push_back(to_json(note));
    passes.push_back({{"pass", pass.name},
                      {"switch", pass.switch_name},
                      {"rewrites", pass.rewrites},
                      {"ms", pass.milliseconds},
                      {"kept", std::move(kept)}});
  }
  nlohmann::json tried = nlohmann::json::array();
  for (const AutoTrial& trial : trials) tried.push_back(records::auto_trial_record().write(trial));
  const Program& program = *compiled.program;
  return {{"applied", compiled.applied},
          {"auto", std::move(tried)},
          {"passes", passes},
          {"optimize_ms", compiled.optimize_ms},
          {"plan_ms", compiled.plan_ms},
          {"again_ms", again_ms},
          {"generated_kernels", to_json(generated)},
          {"arena_bytes", program.arena_bytes},
          {"live_lower_bound_bytes", program.arena_lower_bound_bytes},
          {"weights", weights_to_json(program)},
          {"setup", program.setup ? steps_to_json(*program.setup) : nlohmann::json::array()},
          {"steps", steps_to_json(program)}};
}

void print_plan(const PlanArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  const Engine engine = open_network(arguments.model);
  const bool is_whole = engine.pipeline != nullptr && (arguments.pass.empty() || arguments.pass == kWholeRequest);
  RequestOptions options = arguments.request;
  options.switches = asked.fixed;
  if (is_whole) resolve_size(*engine.pipeline, arguments.size, options);
  const WithoutEffect without_effect(log, arguments.switches);
  without_effect.say(is_whole ? engine.pipeline->idle_options(options, {})
                              : idle_of_pass(engine, arguments.pass, options, arguments.size));
  AutoRequest request =
      is_whole
          ? make_auto_request(*engine.pipeline, options)
          : AutoRequest{.forward = asked_passes(engine, arguments.pass, options, arguments.size)(0), .denoise = {}};
  const DeviceTarget target = engine.backend->properties().target;
  const CompileRequest compile_with =
      is_whole ? whole_request(*engine.pipeline, options, target) : one_pass(request.forward, target);
  const ChosenSwitches chosen = choose_switches(asked, arguments.switches, *engine.backend, std::move(request), log);
  const SwitchSet& switches = chosen.set;
  const Compiled compiled = compile_with(switches);
  const std::shared_ptr<const GeneratedKernels> generated = engine.backend->context<GeneratedKernels>();
  const std::vector<double> again_ms = plan_again(compile_with, switches, arguments.trials);
  without_effect.say(compiled.declined);
  if (arguments.as_json) {
    print_out("{}\n", dump_json(to_json(compiled, chosen.trials, again_ms, *generated), 2));
    return;
  }
  if (arguments.memory) {
    print_tables(to_memory_table(*compiled.program));
    return;
  }
  print_lines(plan_text(compiled, switches, again_ms, *generated, arguments.rejections));
}

}  // namespace

void add_plan_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "plan", "show the program: chosen kernels, and rejected candidates with reasons; needs no weights in memory");
  const auto arguments = std::make_shared<PlanArguments>();
  add_model_arguments(*command, arguments->model);
  add_auto_switches(*command, arguments->switches, "lossless");
  add_request_options(*command, arguments->request, arguments->size);
  command->add_option("--pass", arguments->pass,
                      "one pass instead of a request's denoise loop: forward, a stage of a pipeline such as "
                      "text_encoder or decode, or for an autoencoder decode, encode, ...");
  command->add_flag("--memory", arguments->memory, "show the device memory around every step instead of the program");
  command->add_flag("--rejections", arguments->rejections, "show the reasons why other kernels were not chosen")
      ->excludes("--memory");
  command
      ->add_option("--trials", arguments->trials,
                   "plan this many times, and report the planning time after libraries have searched for algorithms")
      ->check(whole_number(1, 1000));
  command->add_flag("--json", arguments->as_json, "machine-readable output");
  command->footer(
      fmt::format("Example: headroom plan {} --random-weights 0 --opt fast --rejections\n"
                  "         headroom plan {} --random-weights 0 --pass decode --height 512 --width 512 --memory",
                  examples::kLarge, examples::kDecoder));
  command->callback([arguments] { print_plan(*arguments); });
}

}  // namespace headroom
