#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "cli/without_effect.hpp"
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
  bool resume = false, dry_run = false;
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

void train(const TrainArguments& arguments) {
  const SwitchSet switches = SwitchSet::parse(arguments.switches.list);
  ModelArguments on_cpu = arguments.device;
  if (on_cpu.device == "auto") on_cpu.device = "cpu";
  if (on_cpu.device != "cpu") fail_usage("train runs on a CPU so far, not on {}", on_cpu.device);
  const TrainingConfig config = read_training_config(arguments);
  const std::unique_ptr<Backend> backend = open_backend(on_cpu);
  const SwitchSet applicable = switches.for_target(backend->properties().target);
  Trainer trainer(config, applicable, *backend);
  const Log log(arguments.device.quiet);
  WithoutEffect(log, arguments.switches).say(trainer.compiled().declined);
  if (arguments.dry_run) return print_run(trainer);

  Progress progress("training", config.steps, arguments.device.quiet);
  const Interruptible until_saved;  // an interruption ends the run with a checkpoint
  std::optional<Interrupted> interrupted;
  double loss = 0;
  RunOptions options{.out = arguments.out, .resume = arguments.resume};
  if (arguments.steps > 0) options.last_step = arguments.steps;
  options.on_step = [&](const StepRecord& record) {
    loss = record.loss;
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
  if (interrupted) throw *interrupted;
}

}  // namespace

void add_train_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("train", "train a language model on tokens, or an image model on images");
  const auto arguments = std::make_shared<TrainArguments>();
  command->add_option("config", arguments->config, "the run: model, data, sizes, optimizer (JSON)")
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
  command->add_flag("--dry-run", arguments->dry_run, "only say what the run consists of, and the memory that it takes");
  add_switches(*command, arguments->switches, "lossless");
  add_device_arguments(*command, arguments->device);
  command->footer(
      "Examples: headroom train gpt.json --out gpt\n"
      "          headroom train gpt.json --out gpt --resume\n"
      "          headroom train gpt.json --set steps=2000 --set schedule.learning_rate=3e-4 --dry-run");
  command->callback([arguments] { train(*arguments); });
}

}  // namespace headroom
