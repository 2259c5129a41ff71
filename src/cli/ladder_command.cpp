#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/file.hpp"
#include "base/json.hpp"
#include "base/progress.hpp"
#include "base/quantity.hpp"
#include "cli/auto.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "measure/ladder.hpp"
#include "measure/machine.hpp"
#include "run/images.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  ModelArguments model;
  SwitchArguments switches;
  LadderOptions options;
  ImageSize size;
  std::string precision;
  std::string out;
  bool is_default = true;  ///< no --opt was given
  bool as_json = false;
};

/// A progress bar for each rung in turn.
class RungProgress {
 public:
  explicit RungProgress(bool quiet) : quiet_(quiet) {}
  void show(const LadderProgress& progress) {
    if (progress.rung != rung_ || progress.round != round_) {
      rung_ = progress.rung;
      round_ = progress.round;
      bar_.reset();
      bar_ = std::make_unique<Progress>(fmt::format("[{}/{}] {}", progress.rung_number, progress.rungs, rung_),
                                        progress.steps_total, quiet_);
    }
    bar_->set(progress.steps_done);
  }

 private:
  bool quiet_;
  std::string rung_;
  std::int64_t round_ = -1;
  std::unique_ptr<Progress> bar_;
};

void write_images(const fs::path& folder, const Ladder& ladder, int columns) {
  for (const Rung& rung : ladder.rungs) {
    if (rung.pixels.numel() == 0) continue;
    const std::vector<Image> images = to_images(rung.pixels);
    write_png(folder / (rung.name + ".png"), image_grid(images, std::min(columns, static_cast<int>(images.size())), 2));
  }
}

/// What is climbed unless told: the switches that can change something on the device.
std::string default_switches(const Engine& engine) {
  if (engine.backend->properties().target.device == DeviceKind::kCpu)
    return "arena,flash,fuse,hoist,bf16,tile,steps=14";
  return engine.model->baseline == DType::kBF16 ? "lossless,fp8,steps=14" : "lossless,bf16,fp8,steps=14";
}

void ladder(const Arguments& arguments) {
  const Log log(arguments.model.quiet);
  static_cast<void>(SwitchRequest::parse(arguments.switches.list));  // a wrong name is told before anything is opened
  LadderOptions options = arguments.options;
  if (!arguments.precision.empty()) options.precision = parse_share(arguments.precision, "--precision");
  if (!arguments.out.empty()) check_writable_in(arguments.out, "results.json");
  const Engine engine = open_engine(arguments.model);
  resolve_size(*engine.model, arguments.size, options.request);
  const SwitchRequest asked =
      SwitchRequest::parse(arguments.is_default ? default_switches(engine) : arguments.switches.list);
  options.request.images = images_of(options.request, *engine.model);
  options.switches =
      choose_switches(asked, arguments.switches, engine, {.denoise = options.request, .forward = {}}, log).set;
  RungProgress progress(arguments.model.quiet);
  Ladder climbed = climb(*engine.model, *engine.backend, options, [&](const LadderProgress& at) { progress.show(at); });

  ResultFile file{.created = utc_now(), .machine = describe_machine(), .plans = climbed.plans, .results = {}};
  for (const Rung& rung : climbed.rungs) file.results.push_back(rung.result);
  report_declined(log, file.results);
  if (arguments.as_json)
    fmt::print("{}\n", dump_json(to_json(file), 2));
  else
    fmt::print("{}", to_table(climbed));
  if (arguments.out.empty()) return;
  make_folder(arguments.out);  // here, so that a ladder that is interrupted leaves none
  write_results(fs::path(arguments.out) / "results.json", file);
  write_images(arguments.out, climbed, 10);
  log.info("wrote results.json{} to {}",
           climbed.rungs.front().pixels.numel() > 0 ? " and a grid of images for each rung" : "", arguments.out);
}

}  // namespace

void add_ladder_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "ladder", "the main job: baseline, each optimization alone, all together: time, memory, quality");
  const auto arguments = std::make_shared<Arguments>();
  arguments->options.request.images = 0;
  add_model_arguments(*command, arguments->model);
  add_auto_switches(*command, arguments->switches, "");
  command
      ->add_option("--images", arguments->options.request.images,
                   "images made at once; 0 makes one for each label of the model")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--steps", arguments->options.request.steps,
                   "denoise steps of the baseline; 0 takes the model's own number")
      ->check(whole_number(0, 10'000))
      ->capture_default_str();
  add_size_options(*command, arguments->options.request, arguments->size);
  command->add_flag("--ends", arguments->options.only_ends,
                    "measure the baseline and all switches together, and nothing between");
  command
      ->add_option("--guidance", arguments->options.request.guidance_scale, "guidance scale; 0 takes the model's own")
      ->check(real_number(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--seed", arguments->options.seed, "seed of the first image's noise")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--trials", arguments->options.min_trials, "steps to time at each rung, at least")
      ->check(whole_number(3, 100'000))
      ->capture_default_str();
  command
      ->add_option("--precision", arguments->precision,
                   "end a rung early once the 95% interval of its median step is within this share of the median: 1%")
      ->type_name("SHARE");
  command
      ->add_option("--rounds", arguments->options.rounds,
                   "times to climb, up and down in turn, so that slow drift of a shared machine cancels")
      ->check(whole_number(1, 1000))
      ->capture_default_str();
  command
      ->add_option("--quality", arguments->options.quality_images,
                   "images to make and judge at each rung (accuracy, Frechet distance); 0 for none")
      ->check(whole_number(0, 100'000))
      ->capture_default_str();
  command->add_option("--out", arguments->out, "folder for results.json and a PNG grid for each rung")
      ->type_name("DIR");
  command->add_flag("--json", arguments->as_json, "print the result file instead of the table");
  command->footer(
      "Example: headroom ladder models/fashion-flux --out out/demo\n"
      "         headroom ladder flux-dev --random-weights 0 --device cuda --steps 8 --token-rows 32 --token-columns 32 "
      "--ends");
  command->callback([arguments, command] {
    arguments->is_default = command->count("--opt") == 0;
    ladder(*arguments);
  });
}

}  // namespace headroom
