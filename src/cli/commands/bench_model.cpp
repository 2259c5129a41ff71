#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/json.hpp"
#include "cli/commands/bench.hpp"
#include "cli/table_output.hpp"
#include "measure/results/describe.hpp"
#include "measure/work/asked_pass.hpp"

namespace headroom {
namespace {

/// Shows the trials of a measurement. Their time begins after the warm-up, so that the time left is that of trials.
class TrialsShown {
 public:
  explicit TrialsShown(const BenchArguments& arguments) : arguments_(arguments) {}
  void show(const TrialProgress& at) {
    const std::int64_t trials = arguments_.protocol.trials;
    if (!progress_) progress_.emplace("measuring", trials, arguments_.model.quiet);
    if (at.warming_up)
      progress_->begin("measuring", trials);
    else
      progress_->set(at.done);
  }

 private:
  const BenchArguments& arguments_;
  std::optional<Progress> progress_;
};

BenchOptions options_of(const BenchArguments& arguments) {
  return {.protocol = arguments.protocol,
          .cold = arguments.cold,
          .first_step = arguments.first_step,
          .floors = arguments.floors};
}

/// Saves and prints what was measured under the chosen switches.
void finish(const BenchArguments& arguments, const ChosenSwitches& chosen, BenchReport report, const Log& log) {
  chosen.describe(report.file.results.front().configuration);
  if (!arguments.save.empty()) write_results(arguments.save, report.file);
  if (arguments.as_json) {
    print_out("{}\n", dump_json(to_json(report.file), 2));
    return;
  }
  print_tables(report.text);
  for (const std::string& warning : report.warnings) log.warning("{}", warning);
}

}  // namespace

void bench_pass(const BenchArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  const Engine engine = open_network(arguments.model);
  RequestOptions request = arguments.request;
  request.switches = asked.fixed;
  for (const IdleOption& idle : idle_of_pass(engine, arguments.pass, request, arguments.size))
    fail_usage("{}", sentence_of(idle));
  const PassMaker make = asked_passes(engine, arguments.pass, request, arguments.size);
  const ChosenSwitches chosen =
      choose_switches(asked, arguments.switches, *engine.backend, {.forward = make(0), .denoise = {}}, log);
  TrialsShown trials(arguments);
  finish(arguments, chosen,
         measure_pass(
             engine, *engine.backend, *engine.weights, make, chosen.set, options_of(arguments),
             {.on_compiled =
                  [&](const Compiled& compiled) { WithoutEffect(log, arguments.switches).say(compiled.declined); },
              .on_progress = [&](const TrialProgress& at) { trials.show(at); },
              .on_measured = [&](const Session& session) { report_replay_obstacle(log, session); }}),
         log);
}

void bench_requests(const BenchArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = arguments.switches.request();
  if (arguments.cold || arguments.first_step)
    fail_usage("--cold and --first-step are for one pass, and not for whole requests");
  const Engine engine = open_engine(arguments.model);
  const Pipeline& pipeline = *engine.pipeline;
  RequestOptions options = arguments.request;
  options.switches = asked.fixed;
  resolve_size(pipeline, arguments.size, options);
  const ChosenSwitches chosen =
      choose_switches(asked, arguments.switches, *engine.backend, make_auto_request(pipeline, options), log);
  options.switches = chosen.set;
  TrialsShown trials(arguments);
  finish(arguments, chosen,
         measure_requests(pipeline, *engine.backend, *engine.weights, options, options_of(arguments),
                          {.on_compiled =
                               [&](const Compiled& compiled) {
                                 WithoutEffect(log, arguments.switches).say(compiled.declined);
                                 report_notes(log, compiled);
                               },
                           .on_progress = [&](const TrialProgress& at) { trials.show(at); },
                           .on_measured = [&](const Session& session) { report_replay_obstacle(log, session); }}),
         log);
}

}  // namespace headroom
