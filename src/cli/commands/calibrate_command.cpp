#include <algorithm>
#include <filesystem>
#include <iterator>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/tensors/divide_up.hpp"
#include "base/text/json.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "cli/phase_progress.hpp"
#include "cli/table_output.hpp"
#include "measure/tables/pass_notes.hpp"
#include "measure/tables/table.hpp"
#include "measure/work/asked_pass.hpp"
#include "passes/step_caches/step_cache_options.hpp"
#include "pipelines/examples.hpp"
#include "pipelines/schedules/calibrate_steps.hpp"
#include "pipelines/schedules/step_calibration.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kTokensAtOnce = 4096;  // in one generation, without --batch

struct CalibrateArguments {
  ModelArguments model;
  SwitchList switches;
  RequestOptions request;
  ImageSize size;
  CalibrationEffort effort = {.images = 64, .probed_images = 10, .seed = 1'000'000};
  std::int64_t batch = 0;
  std::string out;  // empty: next to the denoiser's weights
  bool as_json = false;
};

/// Compiles the denoise loop as it is calibrated. Reports switches without effect, and layers that lose accuracy.
/// Returns the latter.
std::vector<PassNote> report_denoiser(const Engine& engine, const RequestOptions& options,
                                      const WithoutEffect& without_effect, const Log& log) {
  const Compiled compiled = compile_denoise(*engine.pipeline, engine.pipeline->resolve(options), options.switches,
                                            engine.backend->properties().target);
  without_effect.say(compiled.declined);
  std::vector<PassNote> losses;
  for (const PassRecord& pass : compiled.passes) {
    std::ranges::copy_if(pass.notes, std::back_inserter(losses),
                         [](const PassNote& note) { return note.kind == NoteKind::kLossy; });
    for (const std::string& loss : describe_losses(pass, options.switches)) log.info("{}: {}", pass.name, loss);
  }
  return losses;
}

void print(const MeasuredSchedules& measured, const std::vector<PassNote>& losses, std::int64_t images, bool as_json) {
  const std::vector<StepSchedule>& best = measured.best;
  if (as_json) {
    nlohmann::json array = nlohmann::json::array();
    for (std::size_t i = 0; i < best.size(); ++i)
      array.push_back({{"computed", i + 1},
                       {"schedule", best[i].digits},
                       {"error", best[i].error},
                       {"error_spread_evenly", measured.spread_errors[i]}});
    nlohmann::json lossy = nlohmann::json::array();
    for (const PassNote& note : losses) lossy.push_back(to_json(note));
    print_out("{}\n", dump_json({{"images", images}, {"lossy", std::move(lossy)}, {"schedules", std::move(array)}}, 2));
    return;
  }
  Table table;
  for (const char* header : {"computed", "error", "spread evenly"}) table.add_column(header);
  table.add_column("steps", Align::kLeft);
  for (std::size_t i = 0; i < best.size(); ++i) {
    std::string marks = best[i].digits;
    std::ranges::replace(marks, '1', '#');
    std::ranges::replace(marks, '0', '.');
    table.add_row({std::to_string(i + 1), format_significant(best[i].error),
                   format_significant(measured.spread_errors[i]), marks});
  }
  print_tables(table);
}

void calibrate(const CalibrateArguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchSet asked = SwitchSet::parse(arguments.switches.list);
  if (has_step_cache(asked))
    fail_usage("--opt {}: calibration computes every step, so it takes no step cache", arguments.switches.list);
  if (is_standard_output(arguments.out)) fail_usage("--out -: a calibration is kept in a file; --json prints it");
  if (arguments.effort.probed_images > arguments.effort.images)
    fail_usage("--probe-images {}: --images {} are all there are to take them from", arguments.effort.probed_images,
               arguments.effort.images);
  const Engine engine = open_engine(arguments.model);
  const Pipeline& pipeline = *engine.pipeline;
  if (pipeline.has_random_weights()) fail_usage("what random weights compute says nothing of which steps to skip");
  RequestOptions options = arguments.request;
  resolve_size(pipeline, arguments.size, options);
  options.switches = asked.for_target(engine.backend->properties().target);
  const WithoutEffect without_effect(log, arguments.switches);
  without_effect.say(pipeline.idle_options(options, {}));
  const std::int64_t tokens = pipeline.resolve(options).image_tokens(), asked_images = arguments.effort.images;
  options.images =
      arguments.batch != 0 ? arguments.batch : std::clamp<std::int64_t>(kTokensAtOnce / tokens, 1, asked_images);
  const std::vector<PassNote> losses = report_denoiser(engine, options, without_effect, log);
  // Before hours of work: the existing file must be readable, and its folder writable.
  if (arguments.out.empty() && calibration_file(pipeline).empty())
    fail_usage("{} is in no folder that would keep its calibration: give --out FILE", pipeline.name());
  const std::filesystem::path file =
      arguments.out.empty() ? calibration_file(pipeline) : std::filesystem::path(arguments.out);
  static_cast<void>(read_calibrations(pipeline, file));
  check_writable(file);
  const std::int64_t images = divide_up(asked_images, options.images) * options.images;
  PhaseProgress progress(arguments.model.quiet);
  const Interruptible between_steps;
  const MeasuredSchedules measured =
      calibrate_steps(pipeline, *engine.backend, *engine.weights, options, arguments.effort,
                      [&](std::string_view phase, std::int64_t done, std::int64_t total) {
                        Interruptible::check();
                        progress.show(phase, done, total);
                      });
  keep_calibration(pipeline,
                   {.request = calibrated_request(pipeline, pipeline.resolve(options)),
                    .images = images,
                    .schedules = measured.best},
                   file);
  print(measured, losses, images, arguments.as_json);
  log.info("wrote {}", file.string());
  if (arguments.out.empty()) return;
  const std::filesystem::path known = calibration_file(pipeline);
  std::error_code ignored;
  if (known.empty() || std::filesystem::equivalent(file, known, ignored)) return;
  log.info("copy it to {}{} for meancache=K to find it", known.string(),
           std::filesystem::exists(known) ? ", whose schedules it replaces," : "");
}

}  // namespace

void add_calibrate_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("calibrate", "find the best steps for meancache=K to compute, for every K");
  const auto arguments = std::make_shared<CalibrateArguments>();
  add_model_arguments(*command, arguments->model);
  add_switches(*command, arguments->switches, "lossless");
  command->add_option("--images", arguments->effort.images, "images to make with all steps computed")
      ->check(whole_number(1, 100'000))
      ->capture_default_str();
  command
      ->add_option("--probe-images", arguments->effort.probed_images,
                   "number of these images used to measure the error of skipped steps; this takes most of the time")
      ->check(whole_number(1, 10'000))
      ->capture_default_str();
  command->add_option("--batch", arguments->batch, "images per batch; 0: as many as have 4096 image tokens together")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  add_steps_option(*command, arguments->request.steps, "denoise steps");
  add_guidance_option(*command, arguments->request.guidance_scale);
  add_true_cfg_option(*command, arguments->request.true_cfg_scale);
  add_size_options(*command, arguments->request, arguments->size);
  command
      ->add_option("--seed", arguments->effort.seed,
                   "seed of the first image's noise; each further image uses the next seed")
      ->check(seed_number())
      ->capture_default_str();
  command
      ->add_option("--out", arguments->out,
                   "file for the calibration; default: meancache.json next to the denoiser's weights, where "
                   "meancache=K finds it")
      ->check(written_as({".json"}, Dash::kTaken))
      ->type_name("FILE");
  command->add_flag("--json", arguments->as_json, "machine-readable output");
  command->footer(
      fmt::format("Example: headroom calibrate {}\n"
                  "         headroom calibrate {} --images 16 --opt fast,steps=50",
                  examples::kShipped, examples::kFolder));
  command->callback([arguments, command] {
    CalibrationEffort& effort = arguments->effort;
    if (command->count("--probe-images") == 0) effort.probed_images = std::min(effort.probed_images, effort.images);
    calibrate(*arguments);
  });
}

}  // namespace headroom
