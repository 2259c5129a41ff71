#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "cli/without_effect.hpp"
#include "measure/probes/floor.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/results/describe.hpp"
#include "models/config.hpp"
#include "train/training_run.hpp"

namespace headroom {
namespace {

struct TrainArguments {
  ModelArguments device;
  SwitchList switches;
  std::string config, out;
  std::vector<std::string> settings;
  std::int64_t steps = 0;
  bool resume = false, dry_run = false, mfu = false;
  std::string save;
};

TrainingConfig read_training_config(const TrainArguments& arguments) {
  nlohmann::json config = read_json(arguments.config);
  for (const std::string& setting : arguments.settings) set_config_value(config, setting);
  return parse_training_config(config, arguments.config);
}

/// What a run consists of, and the memory that it takes.
void print_run(const Trainer& trainer) {
  const TrainingConfig& config = trainer.config();
  const Objective& objective = trainer.objective();
  const MemoryNeed need = trainer.need();
  const std::int64_t samples = config.size.samples();
  const std::string frozen = trainer.frozen_parameters() == 0
                                 ? std::string()
                                 : fmt::format(" ({} more are frozen)", trainer.frozen_parameters());
  print_out("{}{} of {}, {} of {} each: {} epochs of the data\n", format_count(trainer.parameters(), "parameter"),
            frozen, config::class_name(config.model), format_count(config.steps, "step"),
            format_count(samples * objective.units_of_sample(), objective.unit()),
            format_significant(static_cast<double>(config.steps * samples) /
                               static_cast<double>(objective.samples_per_epoch())));
  print_out("memory {}: weights, moments and sums {}, activations {}, constants and inputs {}\n",
            format_bytes(need.total()), format_bytes(need.state), format_bytes(need.activations),
            format_bytes(need.total() - need.state - need.activations));
}

/// FLOPs per second of bare products in the arithmetic of the run.
double measure_peak(const TrainingConfig& config, Backend& backend) {
  constexpr double kSeconds = 1;
  MachineRates rates(backend, short_protocol(backend, kSeconds));
  const Yardstick& gemm = rates.gemm(config.precision == Precision::kF32    ? "f32"
                                     : config.precision == Precision::kBF16 ? "bf16"
                                                                            : "f16");
  return gemm.work / (gemm.ms / 1e3);
}

/// A result file of the times of the steps, without the first ones, which warm up, and of the machine's conditions.
ResultFile result_of(const Trainer& trainer, const SwitchSet& switches, const Backend& backend,
                     std::vector<double> step_ms, const Conditions& conditions) {
  const TrainingConfig& config = trainer.config();
  const StepSize& size = config.size;
  nlohmann::json request = {{"pass", "training step"}, {"batch", size.batch}, {"micro_batches", size.micro_batches}};
  if (config.objective == ObjectiveKind::kCausalLm) request["tokens"] = size.tokens;
  if (config.precision != Precision::kF32) request["precision"] = config.precision == Precision::kBF16 ? "bf16" : "f16";
  const Subject subject{.kind = SubjectKind::kModel,
                        .name = config::class_name(config.model),
                        .request = std::move(request),
                        .parameters = trainer.parameters() + trainer.frozen_parameters()};
  ResultFile file = begin_result_file();
  Result result =
      begin_result(switches.to_string(), subject, describe_configuration(switches, trainer.compiled(), backend));
  constexpr std::ptrdiff_t kWarmUp = 3;
  const std::ptrdiff_t warmup = std::min(kWarmUp, std::ssize(step_ms) - 1);
  step_ms.erase(step_ms.begin(), step_ms.begin() + warmup);
  Trials trials{.wall_ms = std::move(step_ms), .warmup = warmup};
  trials.conditions = conditions.part(static_cast<std::size_t>(warmup), trials.wall_ms.size());
  result.trials.push_back(make_series("step", trials));
  add_plan_and_memory(result, file.plans, trainer.session(), trainer.store(), backend);
  file.results.push_back(std::move(result));
  return file;
}

void train(const TrainArguments& arguments) {
  if (!arguments.save.empty()) {
    check_clock();
    check_writable(arguments.save);
  }
  const SwitchSet switches = SwitchSet::parse(arguments.switches.list);
  const TrainingConfig config = read_training_config(arguments);
  if (arguments.steps > config.steps)
    fail_usage("--steps {}: the run ends after {}, its key steps", arguments.steps, format_count(config.steps, "step"));
  const std::unique_ptr<Backend> backend = open_backend(arguments.device);
  const SwitchSet applicable = switches.for_target(backend->properties().target);
  Trainer trainer(config, applicable, *backend);
  const Log log(arguments.device.quiet);
  WithoutEffect(log, arguments.switches).say(trainer.compiled().declined);
  if (arguments.dry_run) {
    print_run(trainer);
    return trainer.require_start();
  }

  Progress progress("training", config.steps, arguments.device.quiet);
  const Interruptible until_saved;  // an interruption ends the run with a checkpoint
  std::optional<Interrupted> interrupted;
  double loss = 0;
  std::vector<double> step_ms;
  std::optional<ConditionsProbe> probe;
  if (!arguments.save.empty()) probe.emplace(pci_bus_id_of(*backend));
  RunOptions options{.out = arguments.out, .resume = arguments.resume};
  if (arguments.steps > 0) options.last_step = arguments.steps;
  if (arguments.mfu) options.peak_flops = measure_peak(config, *backend);
  options.before_step = [&] {
    if (probe) probe->begin();
  };
  options.on_step = [&](const StepRecord& record) {
    if (probe) probe->add_trial();
    loss = record.loss;
    step_ms.push_back(record.ms);
    progress.set(record.step);
    if (record.is_skipped()) log.warning("step {} was skipped: the norm of its gradient is not finite", record.step);
  };
  options.on_validation = [&](std::int64_t step, double found) {
    log.info("step {}: loss {:.4f}, validation {:.4f}", step, loss, found);
  };
  options.should_stop = [&] {
    try {
      Interruptible::check();
    } catch (const Interrupted& signal) {
      interrupted = signal;
    }
    return interrupted.has_value();
  };
  const RunOutcome outcome = run_training(trainer, options);
  progress.finish();
  if (outcome.last_step == outcome.first_step)
    print_out("{} has {} already: nothing was to be done\n", arguments.out, format_count(outcome.last_step, "step"));
  else
    print_out("wrote {}: {} of {}, loss {:.4f}{}\n", outcome.checkpoint.native(),
              format_count(outcome.last_step, "step"), config.steps, loss,
              outcome.validation ? fmt::format(", validation {:.4f}", *outcome.validation) : std::string());
  if (!arguments.save.empty() && !step_ms.empty())
    write_results(arguments.save, result_of(trainer, applicable, *backend, std::move(step_ms), probe->take()));
  if (interrupted) throw *interrupted;
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "train a language model on tokens, or an image model on images");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("CONFIG", arguments->config, "the run: model, data, sizes, optimizer (JSON)")
      ->required()
      ->type_name("CONFIG");
  command->add_option("--out", arguments->out, "folder for checkpoints and the log")
      ->check(folder_name())
      ->default_val("trained")
      ->type_name("DIR");
  command->add_flag("--resume", arguments->resume, "continue from the last checkpoint in DIR, if there is one");
  command
      ->add_option("--steps", arguments->steps,
                   "end after step N with a checkpoint; the learning rate stays that of all steps of CONFIG")
      ->check(whole_number(1, 100'000'000))
      ->type_name("N");
  command->add_option("--set", arguments->settings, "replace a value of CONFIG: optimizer.clip=0.5; may be repeated")
      ->type_name("KEY=VALUE");
  CLI::Option* const dry_run = command->add_flag("--dry-run", arguments->dry_run,
                                                 "only say what the run consists of, and the memory that it takes");
  CLI::Option* const mfu = command->add_flag(
      "--mfu", arguments->mfu, "first measure the rate of bare products; the log then tells each step's share of it");
  CLI::Option* const save =
      command->add_option("--save", arguments->save, "write the times of the steps and their memory to a result file")
          ->check(written_as({".json"}))
          ->type_name("FILE");
  for (CLI::Option* const of_a_run : {mfu, save}) dry_run->excludes(of_a_run);
  add_switches(*command, arguments->switches, "lossless");
  add_device_arguments(*command, arguments->device);
  command->footer(
      "Examples: headroom train gpt.json --out gpt\n"
      "          headroom train gpt.json --out gpt --resume\n"
      "          headroom train gpt.json --set steps=2000 --set schedule.learning_rate=3e-4 --dry-run");
  command->callback([arguments] { train(*arguments); });
}

}  // namespace headroom
