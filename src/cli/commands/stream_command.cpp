#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/quantity.hpp"
#include "cli/commands/commands.hpp"
#include "cli/common.hpp"
#include "cli/live/server.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "cli/streams/stream_controls.hpp"
#include "cli/streams/stream_progress.hpp"
#include "cli/streams/stream_runner.hpp"
#include "cli/streams/stream_video.hpp"
#include "cli/table_output.hpp"
#include "measure/gates/budget.hpp"
#include "measure/quality/stream_judge.hpp"
#include "measure/results/describe.hpp"
#include "measure/tables/table.hpp"
#include "pipelines/examples.hpp"

namespace headroom {
namespace {

constexpr std::int64_t kMostFrames = 1'000'000'000'000;

struct StreamArguments {
  ModelArguments model;
  SwitchList switches;
  StreamVideoArguments video;
  double fps = 0;
  std::int64_t frames = -1;
  bool drops = false, waits = false;
  StreamOptions stream;
  std::string control, live;
  std::string save, budget;
  std::int64_t judged_clips = 0;
  bool as_json = false;
};

/// Rejects contradictory options before anything is loaded.
void check_arguments(const StreamArguments& arguments) {
  if (arguments.drops && arguments.waits) fail_usage("--drop and --wait contradict each other: give one");
  if (arguments.drops && arguments.fps == 0 && arguments.video.input != "-")
    fail_usage("--drop is for frames that come at their own pace: give --fps as well");
  check_output(arguments.video);
  if ((arguments.video.width == 0) != (arguments.video.height == 0))
    fail_usage("--width and --height are given together");
  if (is_standard_output(arguments.save)) fail_usage("--save -: --json prints the result file");
  if (!arguments.save.empty()) {
    check_clock();
    check_writable(arguments.save);
  }
}

Subject describe_stream(const FrameStream& stream, const StreamArguments& arguments) {
  const StreamRequest& request = stream.request();
  nlohmann::json asked = {{"width", request.size.width},
                          {"height", request.size.height},
                          {"steps", request.steps},
                          {"late", arguments.drops ? "drop" : "wait"}};
  if (stream.model().takes_strength()) asked["strength"] = request.strength;
  if (arguments.fps > 0) asked["fps"] = arguments.fps;
  if (request.guidance != ResidualGuidance::kNone) asked["guidance"] = request.guidance_scale;
  return {.kind = SubjectKind::kStream,
          .name = stream.model().denoiser().name,
          .request = std::move(asked),
          .parameters = stream.model().denoiser().parameters()};
}

ResultFile result_of(const FrameStream& stream, const StreamArguments& arguments, const SwitchSet& switches,
                     const Engine& engine, const LatencyRecord& latency,
                     const std::optional<StreamJudgement>& judgement) {
  ResultFile file = begin_result_file();
  Result result = begin_result(switches, describe_stream(stream, arguments), stream.compiled(),
                               stream.model().denoiser().checkpoint, *engine.backend);
  add_plan_and_memory(result, file.plans, stream.session(), *engine.weights, *engine.backend);
  result.latency = latency;
  if (judgement) result.quality = quality_records(*judgement);
  file.results.push_back(std::move(result));
  return file;
}

/// Results go to standard error if the frames go to standard output.
int descriptor_for_results(const StreamArguments& arguments) {
  return is_standard_output(arguments.video.output) ? STDERR_FILENO : STDOUT_FILENO;
}
/// With --json the tables go to standard error, so that the JSON has its output to itself.
int descriptor_for_tables(const StreamArguments& arguments) {
  return arguments.as_json ? STDERR_FILENO : descriptor_for_results(arguments);
}

Table summary_of(const LatencyRecord& latency) {
  Table table;
  table.add_column("frame in to frame out", Align::kLeft);
  for (const char* header : {"p50", "p90", "p99", "p99.9", "most", "jitter"}) table.add_column(header);
  const std::size_t frames = latency.latency_ms.size();  // the jitter is between two
  const auto add = [&](std::string what, const LatencySummary& of) {
    table.add_row({std::move(what), ms_cell(of.p50_ms), ms_cell(of.p90_ms), ms_cell(of.p99_ms), ms_cell(of.p99_9_ms),
                   ms_cell(of.max_ms), frames > 1 ? ms_cell(of.jitter_ms) : no_value()});
  };
  add(fmt::format("{}, {:.1f} in a second{}", format_count(latency.shown, "frame"),
                  static_cast<double>(latency.shown) / std::max(latency.seconds, 1e-9),
                  latency.dropped > 0 ? fmt::format(", {} of {} dropped", latency.dropped, latency.came) : ""),
      latency.statistics);
  for (const auto& [part, times] : {std::pair("decode", &latency.decode_ms),
                                    {"queue", &latency.queue_ms},
                                    {"device", &latency.device_ms},
                                    {"encode", &latency.encode_ms}})
    add(fmt::format("  {}", part), summarize_latency(*times));
  return table;
}

Printout summary_of(const StreamJudgement& judgement, std::int64_t clips) {
  const auto with_interval = [](const Estimate& estimate, int digits) {
    std::string text = fmt::format("{:.{}f}", estimate.value, digits);
    if (estimate.interval)
      text += fmt::format(" [{:.{}f}, {:.{}f}]", estimate.interval->low, digits, estimate.interval->high, digits);
    return text;
  };
  Table table;
  table.add_column("judged on", Align::kLeft);
  for (const char* header : {"PSNR against its teacher", "flicker of the camera's", "the teacher's"})
    table.add_column(header);
  table.add_row({format_count(clips, "clip"), with_interval(judgement.psnr_db, 1) + " dB",
                 with_interval(judgement.flicker, 2) + "x", with_interval(judgement.teacher_flicker, 2) + "x"});
  Printout printout(std::move(table));
  printout.add("\n");
  return printout;
}

void stream(const StreamArguments& arguments, ExitCode& exit_code) {
  check_arguments(arguments);
  std::optional<double> budget_ms;
  if (!arguments.budget.empty()) budget_ms = parse_budget_ms(arguments.budget, "--budget");
  std::optional<LiveAddress> address;
  if (!arguments.live.empty()) address = parse_live_address(arguments.live);
  const Log log(arguments.model.quiet);
  std::unique_ptr<VideoReader> reader = open_input(arguments.video, arguments.fps);
  const VideoFormat format = reader->format();
  for (const std::string& note : reader->notes()) log.info("{}", note);

  const Engine engine = open_network(arguments.model);
  const std::unique_ptr<StreamModel> model =
      engine.pipeline ? make_stream_model(*engine.pipeline) : make_stream_model(*engine.component);
  const SwitchSet switches = SwitchSet::parse(arguments.switches.list).for_target(engine.backend->properties().target);
  StreamOptions options = arguments.stream;
  options.size = {.height = format.height, .width = format.width};
  options.switches = switches;
  const WithoutEffect without_effect(log, arguments.switches);
  without_effect.say(model->idle_options(options));
  FrameStream frames(*model, *engine.backend, *engine.weights, options);
  without_effect.say(frames.compiled().declined);

  const int descriptor = descriptor_for_tables(arguments);
  const auto print_summary = [&](const Printout& printout) {
    write_output(descriptor, fitted_text(printout, descriptor));
  };
  std::optional<StreamJudgement> judgement;
  if (arguments.judged_clips > 0) {
    judgement = judge_stream(open_stream_teacher(engine.network()), arguments.judged_clips, frames);
    print_summary(summary_of(*judgement, arguments.judged_clips));
  }

  VideoFormat shown = format;
  if (arguments.fps > 0) shown.rate = {static_cast<int>(std::lround(1000 * arguments.fps)), 1000};
  std::unique_ptr<VideoWriter> writer = open_output(arguments.video, shown);
  LiveView view(facts_of(frames, engine.backend->properties().name, arguments.fps), controls_of(frames.request()));
  StreamRunner runner(std::move(reader), std::move(writer), frames, view,
                      {.fps = arguments.fps > 0 ? std::optional(arguments.fps) : std::nullopt,
                       .drops = arguments.drops,
                       .is_live = arguments.video.input == "-",
                       .frames = arguments.frames});
  report_replay_obstacle(log, frames.session());

  std::optional<LiveServer> page;
  if (address) announce(log, page.emplace(view, *address));

  const Interruptible until_finished;
  StreamProgress progress(arguments.model.quiet);
  std::optional<ControlFile> control;
  if (!arguments.control.empty()) control.emplace(arguments.control);
  const StreamEnd end = runner.run([&](const LatencyLog& times) {
    progress.show(times.shown(), times.dropped(), view);
    if (control)
      if (const std::string problem = control->poll(view); !problem.empty()) log.warning("{}", problem);
  });
  progress.finish();
  if (end.latency.shown > 0) {
    const ResultFile results = result_of(frames, arguments, switches, engine, end.latency, judgement);
    if (arguments.as_json)
      write_output(descriptor_for_results(arguments), dump_json(to_json(results), 2) + "\n");
    else
      write_output(descriptor_for_results(arguments),
                   fitted_text(summary_of(end.latency), descriptor_for_results(arguments)));
    if (!arguments.save.empty()) write_results(arguments.save, results);
    if (budget_ms) {
      const std::vector<BudgetLine> lines = judge_budgets(results, *budget_ms);
      write_output(descriptor, "\n");
      print_summary(to_table(lines, *budget_ms));
      exit_code = exit_code_of(lines);
    }
  }
  if (!end.input_error.empty()) fail("{}", end.input_error);
  if (end.is_interrupted) Interruptible::check();
}

}  // namespace

void add_stream_command(CLI::App& app, ExitCode& exit_code) {
  CLI::App* command = app.add_subcommand("stream", "process a live video with a model, frame by frame");
  const auto arguments = std::make_shared<StreamArguments>();
  add_model_arguments(*command, arguments->model);
  add_lora_option(*command, arguments->model.loras);
  add_switches(*command, arguments->switches, "lossless");
  add_stream_video_options(*command, arguments->video);
  command->add_option("--fps", arguments->fps, "pace the input like a camera, at this many frames per second")
      ->check(real_number(0.01, 100'000.0));
  command->add_flag("--drop", arguments->drops, "drop a frame that still waits when the next one arrives");
  command->add_flag("--wait", arguments->waits, "show every frame, however late (default)");
  command->add_option("--frames", arguments->frames, "end after this many frames")->check(whole_number(1, kMostFrames));
  command->add_option("--prompt", arguments->stream.prompt, "prompt for the frames");
  command->add_option("--negative-prompt", arguments->stream.negative_prompt, "negative prompt of rcfg=initialize");
  command->add_option("--steps", arguments->stream.steps, "calls of the denoiser per frame")
      ->check(whole_number(1, 10'000));
  command
      ->add_option("--strength", arguments->stream.strength,
                   "share of noise in the denoiser's initial input, above 0 up to 1; default: 0.5")
      ->check(real_number(0.0, 1.0));
  command->add_option("--guidance", arguments->stream.guidance_scale, "guidance scale of rcfg; default: 1.2")
      ->check(real_number(0.0, 100.0));
  command->add_option("--delta", arguments->stream.guidance_delta, "scale of the residual noise in rcfg; default: 1")
      ->check(real_number(0.0, 10.0));
  command->add_option("--seed", arguments->stream.seed, "seed of the noise, which is the same for all frames")
      ->check(seed_number());
  command
      ->add_option("--control", arguments->control,
                   "JSON file with settings such as prompt and strength, read again whenever it changes")
      ->type_name("FILE");
  command
      ->add_option(
          "--live", arguments->live,
          "serve a web page with the stream and its controls: :8080 for this machine only, or an address and a port")
      ->type_name("ADDRESS");
  add_search_option(*command, arguments->stream.new_work);
  command->add_option("--save", arguments->save, "write the times of each frame to a result file")
      ->check(written_as({".json"}, Dash::kTaken))
      ->type_name("FILE");
  command->add_flag("--json", arguments->as_json,
                    "print the result file instead of the table, to standard error if --out is -");
  command
      ->add_option("--quality", arguments->judged_clips,
                   "clips on which the model is judged before the stream begins, by PSNR against its teacher and by "
                   "flicker; 0: none")
      ->check(whole_number(0, 10'000));
  command->add_option("--budget", arguments->budget,
                      "limit of median and p99 from frame in to frame out, as a time (40ms) or a rate (60fps)");
  command->footer(
      fmt::format("Example: headroom stream {0} --input in.mp4 --out out.mp4 --prompt \"oil painting\"\n"
                  "         ffmpeg -i in.mp4 -f yuv4mpegpipe - | headroom stream {0} --input - --out - | ffplay -\n"
                  "Exit codes: 0 ok, 1 error, 3 the budget was missed, 4 too few frames to tell.",
                  examples::kStream));
  command->callback([arguments, &exit_code] { stream(*arguments, exit_code); });
}

}  // namespace headroom
