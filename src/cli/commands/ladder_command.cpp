#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/file_lock.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/quantity.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/given_options.hpp"
#include "cli/images/prompts_file.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "cli/table_output.hpp"
#include "measure/protocol/bench_process.hpp"
#include "measure/protocol/ladder.hpp"
#include "measure/protocol/unfinished_ladder.hpp"
#include "measure/results/describe.hpp"
#include "measure/work/asked_pass.hpp"
#include "measure/work/ladder_subject.hpp"
#include "media/image_grid.hpp"
#include "media/png.hpp"
#include "pipelines/examples.hpp"
#include "pipelines/stages/images.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

struct LadderArguments {
  ModelArguments model;
  SwitchArguments switches;
  LadderOptions options;
  ImageSize size;
  std::string pass;  ///< empty: requests, or the first pass of a network that makes none
  std::string prompts;
  std::string precision;
  std::string out;
  int max_rounds = 0;              ///< 0: three times `rounds`
  int processes = 0;               ///< rounds, each in a process of its own; 0 measures here
  std::int64_t round = -1;         ///< index of the round to measure here for a parent process
  std::vector<std::size_t> rungs;  ///< the rungs of that round
  bool is_default = true;          ///< --opt was not given
  TableOutput output;
};

/// Progress over one rung after the other.
class RungProgress {
 public:
  explicit RungProgress(bool quiet) : quiet_(quiet) {}
  void show(const LadderProgress& progress) {
    if (progress.rung != rung_ || progress.round != round_) {
      rung_ = progress.rung;
      round_ = progress.round;
      const std::string label =
          fmt::format("round {} [{}/{}] {}", round_ + 1, progress.rung_number, progress.rungs, rung_);
      if (shown_)
        shown_->begin(label, progress.steps_total);
      else
        shown_.emplace(label, progress.steps_total, quiet_);
    }
    shown_->set(progress.steps_done);
  }

 private:
  bool quiet_;
  std::string rung_;
  std::int64_t round_ = -1;
  std::optional<Progress> shown_;
};

void write_images(const fs::path& folder, const Rung& rung, const HostTensor& pixels) {
  constexpr int kColumns = 10;
  const std::vector<Image> images = to_images(pixels);
  write_png(folder / (rung.name + ".png"), image_grid(images, std::min(kColumns, static_cast<int>(images.size())), 2));
}

/// The identity of a ladder: a stopped ladder only continues if it is equal.
nlohmann::json describe_options(const LadderArguments& arguments, const Engine& engine, const LadderSubject& subject,
                                const LadderOptions& options) {
  const Target target = engine.backend->properties().target;
  const RequestOptions& request = options.request;
  return {{"model", engine.network().name},
          {"pass", subject.pass()},
          {"weights", engine.network().checkpoint.description()},
          {"LoRA files", arguments.model.loras},
          {"parts", arguments.model.parts},
          {"config", arguments.model.config},
          {"device", name_of(target.device)},
          {"GPU", gpu_of(*engine.backend).value_or(GpuIdentity{}).uuid},
          {"threads", target.threads},
          {"vector units", name_of(target.cpu_isa)},
          {"baseline", name_of(engine.network().baseline)},
          {"switches", options.switches.to_string()},
          {"ends", options.only_ends},
          {"images", request.images},
          {"token rows", request.token_rows},
          {"token columns", request.token_columns},
          {"height", subject.is_pass() ? arguments.size.height : 0},  // requests record it as tokens
          {"width", subject.is_pass() ? arguments.size.width : 0},
          {"text tokens", request.text_tokens},
          {"steps", request.steps},
          {"guidance", request.guidance_scale ? nlohmann::json(*request.guidance_scale) : nlohmann::json()},
          {"true CFG scale", request.true_cfg_scale ? nlohmann::json(*request.true_cfg_scale) : nlohmann::json()},
          {"seed", options.seed},
          {"trials", options.min_trials},
          {"precision", options.precision},
          {"floors", options.floors},
          {"quality", options.quality_images},
          {"prompts", fmt::format("{}", fmt::join(options.prompts, "\n"))},
          {"in processes", arguments.processes > 0}};
}

/// Runs each round in a separate process of this program with the same options.
class RoundProcesses {
 public:
  RoundProcesses(const CLI::App& command, const LadderArguments& arguments, const Device& device,
                 const LadderOptions& options)
      : command_(command), arguments_(arguments), device_(device), options_(options) {}

  void run(Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs) const {
    add_round(ladder, run_bench_process(command_line(round, rungs)), round);
  }

 private:
  [[nodiscard]] std::vector<std::string> command_line(std::int64_t round, std::span<const std::size_t> rungs) const {
    constexpr std::array<std::string_view, 20> kLadderOptions = {
        "--strict",       "--opt",    "--auto-seconds", "--max-error",      "--max-request-error",
        "--auto-refresh", "--rounds", "--max-rounds",   "--processes",      "--quality",
        "--floors",       "--out",    "--json",         "--quiet",          "--round",
        "--rungs",        "--help",   "--device",       "--cache-schedule", "--format"};
    std::vector<std::string> line = {own_program(), "ladder", arguments_.model.model};
    for (std::string& option : given_options(command_, kLadderOptions)) line.push_back(std::move(option));
    line.push_back("--device=" + device_argument(device_));
    line.push_back("--opt=" + options_.switches.to_string());
    line.push_back(fmt::format("--round={}", round));
    if (!rungs.empty()) line.push_back(fmt::format("--rungs={}", fmt::join(rungs, ",")));
    if (round == 0 && options_.quality_images > 0) line.push_back(fmt::format("--quality={}", options_.quality_images));
    if (round == 0 && options_.floors) line.emplace_back("--floors");
    if (round == 0 && !arguments_.out.empty()) line.push_back("--out=" + arguments_.out);
    line.insert(line.end(), {"--json", "--quiet"});
    return line;
  }

  const CLI::App& command_;
  const LadderArguments& arguments_;
  Device device_;
  const LadderOptions& options_;
};

void print(const LadderArguments& arguments, const Ladder& ladder, const ResultFile& file) {
  if (arguments.output.is_json())
    print_out("{}\n", dump_json(to_json(file), 2));
  else
    print_tables(to_table(ladder), arguments.output);
}

/// Climbs the ladder. With a folder, saves measurements there, so that a stopped ladder can continue.
void climb_and_save(const LadderArguments& arguments, const CLI::App& command, const Engine& engine,
                    const LadderSubject& subject, const LadderOptions& options, Ladder& ladder) {
  const Log log(arguments.model.quiet);
  const fs::path results = fs::path(arguments.out) / "results.json";
  std::optional<FileLock> lock;  // locks the folder for the whole climb, including rounds in other processes
  std::optional<UnfinishedLadder> unfinished;
  if (!arguments.out.empty()) {
    make_folder(arguments.out);
    lock.emplace(results);
    unfinished.emplace(fs::path(arguments.out) / "unfinished.json",
                       describe_options(arguments, engine, subject, options));
    if (const std::int64_t visits = unfinished->restore(ladder); visits > 0)
      log.info("going on with the ladder that was stopped: {} are there", format_count(visits, "visit"));
    else if (fs::exists(results))
      log.info("{} is of a finished ladder: all is measured again, and it is replaced at the end", results.string());
  }
  const auto save = [&] {
    if (unfinished) unfinished->save(ladder);
  };
  const int max_rounds = arguments.max_rounds > 0 ? arguments.max_rounds : 3 * options.rounds;
  if (arguments.processes > 0) {
    const RoundProcesses processes(command, arguments, device_of(*engine.backend), options);
    Progress progress("rounds", max_rounds, arguments.model.quiet);
    climb(ladder, options.rounds, max_rounds,
          [&](Ladder& climbed, std::int64_t round, std::span<const std::size_t> rungs) {
            progress.set(round);
            processes.run(climbed, round, rungs);
            save();
          });
  } else {
    RungProgress progress(arguments.model.quiet);
    const Interruptible between_steps;
    const LadderObserver observer{.on_progress =
                                      [&](const LadderProgress& at) {
                                        Interruptible::check();
                                        progress.show(at);
                                      },
                                  .on_pixels =
                                      [&](const Rung& rung, const HostTensor& pixels) {
                                        if (unfinished) write_images(arguments.out, rung, pixels);
                                      },
                                  .on_visited = save};
    try {
      climb(ladder, options.rounds, max_rounds, subject.rounds(options, next_process(ladder), observer));
    } catch (const Interrupted&) {
      if (unfinished) log.info("stopped; the same command goes on from here");
      throw;
    }
  }
  if (!unfinished) return;
  write_results(results, to_results(ladder));
  unfinished->finish();
}

/// Measures one round for the process that requested it.
void print_round(const LadderArguments& arguments, const LadderSubject& subject, const LadderOptions& options,
                 Ladder& ladder) {
  for (const std::size_t i : arguments.rungs)
    if (i == 0 || i >= ladder.rungs.size())
      fail_usage("--rungs: {} is no rung above the baseline; there are {}", i, ladder.rungs.size() - 1);
  LadderObserver observer;
  if (!arguments.out.empty())
    observer.on_pixels = [&](const Rung& rung, const HostTensor& pixels) { write_images(arguments.out, rung, pixels); };
  subject.rounds(options, 0, observer)(ladder, arguments.round, arguments.rungs);
  print_out("{}\n", dump_json(to_json(to_results(ladder))));
}

void ladder(const LadderArguments& arguments, const CLI::App& command) {
  const Log log(arguments.model.quiet);
  static_cast<void>(arguments.switches.request());  // reports an unknown name before anything is opened
  LadderOptions options = arguments.options;
  if (!arguments.precision.empty()) options.precision = parse_share(arguments.precision, "--precision");
  if (arguments.processes > 0) options.rounds = arguments.processes;
  if (arguments.max_rounds > 0 && arguments.max_rounds < options.rounds)
    fail_usage("--max-rounds is {}, expected at least the {} rounds that {} asks for", arguments.max_rounds,
               options.rounds, arguments.processes > 0 ? "--processes" : "--rounds");
  check_clock();
  if (!arguments.out.empty()) check_writable_in(arguments.out, "results.json");
  if (!arguments.prompts.empty()) options.prompts = read_prompts(arguments.prompts);
  const Engine engine = open_network(arguments.model);
  const LadderSubject subject(engine, *engine.backend, arguments.pass, arguments.size, options);
  const WithoutEffect without_effect(log, arguments.switches);
  without_effect.say(subject.idle_options(options));
  const SwitchRequest asked = arguments.is_default ? SwitchRequest::parse(subject.default_switches(options.request))
                                                   : arguments.switches.request();
  options.switches =
      choose_switches(asked, arguments.switches, *engine.backend, subject.auto_request(options.request), log).set;
  subject.check_switches(options.switches);
  Ladder climbed = make_ladder(options.switches, options.only_ends);
  if (arguments.round >= 0) return print_round(arguments, subject, options, climbed);
  climb_and_save(arguments, command, engine, subject, options, climbed);
  const ResultFile file = to_results(climbed);
  print(arguments, climbed, file);
  without_effect.say(file);
  if (!arguments.out.empty())
    log.info("wrote results.json{} to {}", subject.makes_images() ? " and a grid of images for each measured rung" : "",
             arguments.out);
}

}  // namespace

void add_ladder_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ladder",
      "main command: measure time, memory and quality of the baseline, each optimization alone, and all together");
  const auto arguments = std::make_shared<LadderArguments>();
  arguments->options.request.images = 0;
  add_model_arguments(*command, arguments->model);
  add_lora_option(*command, arguments->model.loras);
  add_auto_switches(*command, arguments->switches, "");
  CLI::Option* const opt = command->get_option("--opt");
  opt->description(
      opt->get_description() +
      "; default: arena, flash, fuse, hoist, bf16 or int8 on a CPU, fp8 on a GPU (and bf16 if the baseline "
      "is fp32), tile on a CPU, streams and graph on a GPU, layouts for convolutions, and half the steps");
  command
      ->add_option("--batch", arguments->options.request.images,
                   "images per batch, or samples of a pass; 0: one image for each label of the model, or one")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  add_steps_option(*command, arguments->options.request.steps, "denoise steps of the baseline");
  add_size_options(*command, arguments->options.request, arguments->size);
  add_pass_option(*command, arguments->pass);
  command->add_flag("--ends", arguments->options.only_ends, "measure only the baseline and all switches together");
  add_guidance_option(*command, arguments->options.request.guidance_scale);
  add_true_cfg_option(*command, arguments->options.request.true_cfg_scale);
  command->add_option("--seed", arguments->options.seed, "seed of the first image's noise")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--trials", arguments->options.min_trials, "minimum number of steps to time at each rung")
      ->check(whole_number(3, 100'000))
      ->capture_default_str();
  command
      ->add_option(
          "--precision", arguments->precision,
          "end a rung early once the 95% interval of its median step is within this share of the median, such as 1%")
      ->type_name("SHARE");
  CLI::Option* const rounds = command
                                  ->add_option("--rounds", arguments->options.rounds,
                                               "rounds, each visiting every rung, alternately up and down so that slow "
                                               "drift of a shared machine cancels")
                                  ->check(whole_number(2, 1000))
                                  ->capture_default_str();
  command
      ->add_option("--max-rounds", arguments->max_rounds,
                   "most rounds in all: rungs that are not settled are measured again; default: three times --rounds")
      ->check(whole_number(2, 3000));
  command
      ->add_option("--processes", arguments->processes,
                   "number of processes to measure in, one round in each, so that the results include the variation "
                   "between processes")
      ->check(whole_number(2, 1000))
      ->excludes(rounds);
  command
      ->add_option("--quality", arguments->options.quality_images,
                   "images to make and judge at each rung, by PSNR and FLIP against the baseline's and by the model's "
                   "classifier; for the pass frame: clips; 0: only compare the images of the first batch")
      ->check(whole_number(0, 100'000))
      ->capture_default_str();
  command
      ->add_option("--prompts", arguments->prompts,
                   "file of prompts, one per line, used by the images in order; default: the model's own")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command->add_flag(
      "--floors", arguments->options.floors,
      "also measure the floor of each stage, its least possible time on this machine; takes some seconds per rung");
  command
      ->add_option("--out", arguments->out,
                   "folder for results.json and a PNG grid for each measured rung; a stopped ladder is resumed from "
                   "it, a finished one is measured again and replaced")
      ->check(folder_name())
      ->type_name("DIR");
  // Internal options for the processes of --processes.
  command->add_option("--round", arguments->round)->check(whole_number(0, 1'000'000))->group("");
  command->add_option("--rungs", arguments->rungs)->delimiter(',')->check(whole_number(0, 1'000'000))->group("");
  add_table_options(*command, arguments->output, "print the result file instead of the table");
  command->footer(fmt::format(
      "Example: headroom ladder {} --out out/demo\n"
      "         headroom ladder {} --random-weights 0 --device cuda:0 --steps 8 --height 512 --width 512 --ends\n"
      "         headroom ladder {}/vae --pass decode --height 512 --width 512\n"
      "A ladder with --out that was stopped or killed resumes when it is run again.",
      examples::kShipped, examples::kLarge, examples::kFolder));
  command->callback([arguments, command] {
    arguments->is_default = command->count("--opt") == 0;
    ladder(*arguments, *command);
  });
}

}  // namespace headroom
