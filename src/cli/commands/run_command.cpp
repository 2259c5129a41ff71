#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/interrupt.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "base/text/format.hpp"
#include "base/text/json.hpp"
#include "base/text/list.hpp"
#include "base/text/nearest.hpp"
#include "cli/commands/auto.hpp"
#include "cli/commands/commands.hpp"
#include "cli/commands/computed_steps.hpp"
#include "cli/common.hpp"
#include "cli/images/image_maker.hpp"
#include "cli/images/image_text.hpp"
#include "cli/images/image_writer.hpp"
#include "cli/images/prompts_file.hpp"
#include "cli/images/serve_prompts.hpp"
#include "cli/number.hpp"
#include "cli/out_file.hpp"
#include "cli/output_name.hpp"
#include "measure/tables/table.hpp"
#include "media/image_grid.hpp"
#include "media/png.hpp"
#include "passes/step_caches/step_cache_options.hpp"
#include "pipelines/examples.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

struct RunArguments {
  ModelArguments model;
  SwitchArguments switches;
  std::string labels = "all";
  std::vector<std::string> prompts;
  std::string prompts_file;
  std::string like;
  std::vector<std::string> loras;
  ImageJob job;  // common settings of all images
  std::int64_t per_prompt = 1;
  std::int64_t batch = 0;
  std::size_t memory_limit = 0;  // bytes
  NewWork after_the_first = NewWork::kTakeOver;
  std::string out = "images.png";
  bool as_json = false;
  bool is_seed_given = false;
  std::vector<std::string> idle_of_requests;  // given options that have no effect with --prompts -
};

/// "all", or names and numbers of labels separated by commas.
std::vector<std::int64_t> parse_labels(const std::string& list, std::span<const std::string> names) {
  std::vector<std::int64_t> labels;
  if (list == "all") {
    for (std::size_t i = 0; i < names.size(); ++i) labels.push_back(static_cast<std::int64_t>(i));
    return labels;
  }
  for (const std::string& item : split_list(list, "--labels")) {
    const auto named = std::ranges::find(names, item);
    std::int64_t number = named - names.begin();
    if (named == names.end()) {
      const auto [end, error] = std::from_chars(item.data(), item.data() + item.size(), number);
      if (error != std::errc{} || end != item.data() + item.size() || number < 0 ||
          number >= static_cast<std::int64_t>(names.size()))
        fail_usage("unknown label '{}': expected one of {} or a number from 0 to {}{}", item, fmt::join(names, ", "),
                   names.size() - 1, did_you_mean(item, {names.begin(), names.end()}));
    }
    labels.push_back(number);
  }
  if (labels.empty()) fail_usage("--labels is empty: expected all, or names or numbers of labels separated by commas");
  return labels;
}

/// Contents of the images: the given prompts, or else the pipeline's own, by label.
struct Subjects {
  std::vector<ImageJob> jobs;  // one for each column of a grid
  bool are_labels = false;
};
Subjects choose_subjects(const RunArguments& arguments, const Pipeline& pipeline) {
  std::vector<std::string> prompts = arguments.prompts;
  if (!arguments.prompts_file.empty()) prompts = read_prompts(arguments.prompts_file);
  if (prompts.empty() && arguments.job.prompt) prompts.push_back(*arguments.job.prompt);
  Subjects subjects;
  for (std::string& prompt : prompts) {
    subjects.jobs.push_back(arguments.job);
    subjects.jobs.back().prompt = std::move(prompt);
  }
  if (!subjects.jobs.empty()) return subjects;
  if (pipeline.labels().empty()) fail_usage("{} has no labels and needs a prompt: give --prompt TEXT", pipeline.name());
  subjects.are_labels = true;
  for (const std::int64_t label : parse_labels(arguments.labels, pipeline.labels())) {
    subjects.jobs.push_back(arguments.job);
    subjects.jobs.back().label = label;
    subjects.jobs.back().prompt = pipeline.prompts()[static_cast<std::size_t>(label)];
  }
  return subjects;
}

/// The subjects in rows; each image has the next seed.
std::vector<ImageJob> list_jobs(const Subjects& subjects, std::int64_t rows, std::uint64_t seed) {
  std::vector<ImageJob> jobs;
  for (std::int64_t row = 0; row < rows; ++row)
    for (const ImageJob& subject : subjects.jobs) {
      jobs.push_back(subject);
      jobs.back().seed = seed + (jobs.size() - 1);
    }
  return jobs;
}

/// "fox.png", or for several images "fox-1.png" and so on.
fs::path numbered(const fs::path& path, std::size_t index, std::size_t count) {
  if (count == 1) return path;
  return path.parent_path() / fmt::format("{}-{}{}", path.stem().string(), index + 1, path.extension().string());
}

nlohmann::json to_json(std::span<const StageRun> stages) {
  nlohmann::json array = nlohmann::json::array();
  for (const StageRun& stage : stages)
    array.push_back({{"name", stage.name}, {"ms", stage.milliseconds}, {"memory_bytes", stage.bytes}});
  return array;
}

/// Totals over the images of a command.
struct Took {
  std::vector<StageRun> stages;
  std::vector<double> step_ms;
  std::size_t images = 0;
  std::int64_t steps = 0;                     // per image
  std::int64_t calls = 0;                     // calls of the denoiser per image
  std::vector<std::string> switches;          // applied switches
  std::vector<ComputedSteps> computed_steps;  // for each generation, if there is a step cache

  [[nodiscard]] double total_ms() const {
    double total = 0;
    for (const StageRun& stage : stages) total += stage.milliseconds;
    return total;
  }
  [[nodiscard]] double steps_ms() const {
    double total = 0;
    for (const double ms : step_ms) total += ms;
    return total;
  }
};

void tell(const RunArguments& arguments, const Took& took, const std::string& model,
          const std::vector<std::string>& files) {
  // If the image goes to standard output, the rest goes to standard error.
  const int descriptor = is_standard_output(arguments.out) ? STDERR_FILENO : STDOUT_FILENO;
  if (arguments.as_json) {
    nlohmann::json summary = {{"model", model},
                              {"images", took.images},
                              {"steps", took.steps},
                              {"switches", took.switches},
                              {"total_ms", took.total_ms()},
                              {"prologue_ms", std::max(0.0, took.total_ms() - took.steps_ms())},
                              {"step_ms", took.step_ms},
                              {"stages", to_json(took.stages)},
                              {"out", files.size() == 1 ? nlohmann::json(files[0]) : nlohmann::json(files)}};
    if (!took.computed_steps.empty()) summary["computed_steps"] = numbers_of(took.computed_steps);
    write_output(descriptor, dump_json(summary, 2) + "\n");
    return;
  }
  const std::string steps = took.calls == took.steps ? format_count(took.steps, "step")
                                                     : fmt::format("{}, {}", format_count(took.steps, "step"),
                                                                   format_count(took.calls, "call"));
  const std::string summary = fmt::format(
      "{} in {} of {}: {} an image; wrote {}\n", format_count(static_cast<std::int64_t>(took.images), "image"), steps,
      format_ms(took.steps_ms() / static_cast<double>(took.step_ms.size())),
      format_ms(took.total_ms() / static_cast<double>(took.images)),
      files.size() == 1 ? files[0] : fmt::format("{} to {}", files.front(), files.back()));
  write_output(descriptor, summary + tell_computed_steps(took.computed_steps));
}

/// Makes all jobs, and passes on each image with its number when it is ready.
Took make_all(ImageMaker& maker, std::span<const PreparedImage> jobs, const RunArguments& arguments, const Log& log,
              const std::function<void(std::size_t index, Image image)>& take) {
  Took took;
  std::unique_ptr<Progress> progress;
  const Interruptible between_steps;  // also ends a loop that runs on the device
  for (std::size_t done = 0; done < jobs.size();) {
    const auto group = jobs.subspan(done, maker.count_together(jobs.subspan(done), arguments.batch));
    const Generator& generator = maker.generator(group);
    if (progress == nullptr) {
      WithoutEffect(log, arguments.switches).say(generator.compiled().declined);
      report_notes(log, generator.compiled());
      for (const std::string& note : maker.notes()) log.info("{}", note);
      took.steps = generator.request().steps;
      took.calls = generator.request().calls();
      took.switches = generator.compiled().applied;
      // All groups have the size of the first, except the last.
      const auto groups = static_cast<std::int64_t>((jobs.size() + group.size() - 1) / group.size());
      progress = std::make_unique<Progress>("denoising", groups * generator.request().calls(), arguments.model.quiet);
    }
    MadeImages made = maker.make(group, [&] {
      Interruptible::check();
      progress->advance();
    });
    Interruptible::check();
    if (done == 0) report_replay_obstacle(log, generator.session());
    for (std::size_t i = 0; i < made.images.size(); ++i) take(done + i, std::move(made.images[i]));
    for (const StageRun& stage : made.stages) add(took.stages, stage);
    if (!made.computed_steps.empty()) took.computed_steps.push_back(made.computed_steps);
    took.step_ms.insert(took.step_ms.end(), made.step_ms.begin(), made.step_ms.end());
    done += group.size();
  }
  took.images = jobs.size();
  return took;
}

/// The switches for the jobs.
SwitchSet choose(const RunArguments& arguments, const SwitchRequest& asked, const Engine& engine,
                 const RequestOptions& options, const Log& log) {
  return choose_switches(asked, arguments.switches, *engine.backend, make_auto_request(*engine.pipeline, options), log)
      .set;
}

void run(const RunArguments& arguments) {
  const Log log(arguments.model.quiet);
  const WithoutEffect without_effect(log, arguments.switches);
  const SwitchRequest asked = arguments.switches.request();
  std::optional<OutFile> out;
  if (arguments.prompts_file != "-") out.emplace(arguments.out);
  const Engine engine = open_engine(arguments.model);
  const Pipeline& pipeline = *engine.pipeline;
  if (const std::string obstacle = pipeline.obstacle_to_images(); !obstacle.empty()) {
    require_whole_pipeline(arguments.model.model, open_options(arguments.model));
    fail("{}", obstacle);
  }
  if (arguments.prompts_file == "-") {
    for (const std::string& option : arguments.idle_of_requests)
      without_effect.say(option +
                         " changes nothing: requests say themselves what they make, and each is made by itself");
    const SwitchSet switches =
        choose(arguments, asked, engine, prepare(pipeline, arguments.job, asked.fixed).options, log);
    serve_prompts(engine, switches, arguments.memory_limit, arguments.after_the_first, arguments.job, without_effect);
    return;
  }

  const Subjects subjects = choose_subjects(arguments, pipeline);
  const std::vector<ImageJob> jobs = list_jobs(subjects, arguments.per_prompt, arguments.job.seed);
  if (is_standard_output(arguments.out) && jobs.size() > 1 && !subjects.are_labels)
    fail_usage("--out - writes one picture, and {} were asked for", jobs.size());
  std::vector<PreparedImage> prepared;
  for (const ImageJob& job : jobs) prepared.push_back(prepare(pipeline, job, asked.fixed));
  without_effect.say(pipeline.idle_options(prepared.front().options, prepared.front().image));
  if (arguments.is_seed_given && is_seed_idle(pipeline, prepared.front()))
    without_effect.say("--seed changes nothing: the noise is given, and the sampler draws none");
  for (std::size_t i = 0; i < subjects.jobs.size(); ++i)  // the others have the same texts
    for (const std::string& note : tell_cut_texts(pipeline, prepared[i])) log.info("{}", note);
  const SwitchSet switches = choose(arguments, asked, engine, prepared.front().options, log);
  ImageMaker maker(engine, switches, arguments.memory_limit, arguments.after_the_first);

  std::vector<std::string> files;
  Took took;
  const auto text_of = [&](const ImageJob& job) { return request_text(engine, switches, job); };
  if (subjects.are_labels) {
    std::vector<Image> images(jobs.size());
    took = make_all(maker, prepared, arguments, log, [&](std::size_t i, Image image) { images[i] = std::move(image); });
    if (jobs.size() == 1)
      write_png(out->path(), images.front(), text_of(jobs.front()));
    else
      write_png(out->path(), image_grid(images, static_cast<int>(subjects.jobs.size()), 2));
    files.push_back(out->path());
  } else {
    ImageWriter writer;
    for (std::size_t i = 0; i < jobs.size(); ++i) files.push_back(numbered(out->path(), i, jobs.size()).string());
    took = make_all(maker, prepared, arguments, log,
                    [&](std::size_t i, Image image) { writer.write(files[i], std::move(image), text_of(jobs[i])); });
    writer.finish();
  }
  out->finish();
  if (is_standard_output(arguments.out)) files = {arguments.as_json ? "-" : "standard output"};
  tell(arguments, took, pipeline.name(), files);
}

/// Takes the switches of a PNG, unless --opt is given. Options override equivalent switches: --steps overrides
/// steps=N, which becomes the job's number of steps, and --cache-schedule overrides the schedule of a step cache.
void take_switches(const CLI::App& command, const std::string& of_png, RunArguments& arguments) {
  const bool has_steps = command.count("--steps") != 0;
  if (command.count("--opt") != 0) {
    if (!has_steps && SwitchRequest::parse(arguments.switches.list).fixed.has("steps")) arguments.job.steps = 0;
    return;
  }
  const SwitchSet switches = SwitchSet::parse(of_png);
  if (const auto steps = switches.number("steps"); steps && !has_steps) arguments.job.steps = *steps;
  arguments.switches.list = switches.without("steps").to_string();
  if (!arguments.switches.schedule.empty()) arguments.switches.list = without_schedule(arguments.switches.list);
}

/// Takes the request from a PNG that `run` wrote, and its switches if none were given.
void take_from(const CLI::App& command, RunArguments& arguments) {
  const LikeImage like = read_like(arguments.like);
  // Options given with --like override the values of the image.
  const ImageJob given = arguments.job;
  arguments.job = like.job;
  const auto is_given = [&](const char* option) { return command.count(option) != 0; };
  if (is_given("--prompt-2")) arguments.job.prompt_2 = given.prompt_2;
  if (is_given("--negative-prompt")) arguments.job.negative_prompt = given.negative_prompt;
  if (is_given("--height")) arguments.job.size.height = given.size.height;
  if (is_given("--width")) arguments.job.size.width = given.size.width;
  if (is_given("--steps")) arguments.job.steps = given.steps;
  if (is_given("--text-tokens")) arguments.job.text_tokens = given.text_tokens;
  if (is_given("--guidance")) arguments.job.guidance = given.guidance;
  if (is_given("--true-cfg-scale")) arguments.job.true_cfg_scale = given.true_cfg_scale;
  if (is_given("--seed")) arguments.job.seed = given.seed;
  if (is_given("--image")) arguments.job.images = given.images;
  if (is_given("--strength")) arguments.job.strength = given.strength;
  if (is_given("--noise")) arguments.job.noise = given.noise;
  if (is_given("--lora")) arguments.job.loras = given.loras;
  if (is_given("--labels"))
    arguments.job.prompt.reset();
  else if (!like.job.prompt)
    arguments.labels = std::to_string(like.job.label);
  if (is_given("--labels") || is_given("--prompt") || is_given("--prompts")) arguments.job.label = 0;
  take_switches(command, like.switches, arguments);
}

void add_prompt_options(CLI::App& command, RunArguments& arguments) {
  CLI::Option* const labels =
      command
          .add_option("--labels", arguments.labels,
                      "for a model with labels: names or numbers of the labels to draw, separated by commas, or all")
          ->type_name("LIST")
          ->capture_default_str();
  CLI::Option* const prompt =
      command.add_option("--prompt", arguments.prompts, "text that describes the image; may be given several times")
          ->expected(1)
          ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
          ->excludes(labels)
          ->type_name("TEXT");
  command
      .add_option("--prompts", arguments.prompts_file,
                  "file with one prompt per line; - serves requests: each line of the input is a request in JSON, each "
                  "line of the output an answer")
      ->excludes(labels)
      ->excludes(prompt)
      ->type_name("FILE");
  command.add_option("--per-prompt,--per-label", arguments.per_prompt, "images per prompt or label")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command
      .add_option("--like", arguments.like,
                  "repeat the request stored in this PNG, which run has written, changed by the other options")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
  command
      .add_option("--negative-prompt", arguments.job.negative_prompt,
                  "negative prompt of classifier-free guidance: see --guidance and --true-cfg-scale")
      ->type_name("TEXT");
  command
      .add_option("--prompt-2", arguments.job.prompt_2,
                  "prompt for the second text encoder, if the model has two; default: the same prompt")
      ->type_name("TEXT");
  command
      .add_option("--image", arguments.job.images,
                  "PNG or JPEG: the image to edit for an editing model, else the initial image instead of pure noise; "
                  "may be given several times for a model that reads several")
      ->check(CLI::ExistingFile)
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE");
  command
      .add_option("--strength", arguments.job.strength,
                  "share of noise on the initial image, above 0 up to 1; default: the model's own")
      ->check(real_number(0.0, 1.0));
}

void add_size_and_sampling(CLI::App& command, ImageJob& job) {
  command.add_option("--height", job.size.height, "image height in pixels; default: the model's own")
      ->check(whole_number(1, 16'384));
  command.add_option("--width", job.size.width, "image width in pixels; default: the model's own")
      ->check(whole_number(1, 16'384));
  add_steps_option(command, job.steps, "denoise steps");
  add_guidance_option(command, job.guidance);
  add_true_cfg_option(command, job.true_cfg_scale);
  command.add_option("--text-tokens", job.text_tokens, "text tokens; default: the model's own number")
      ->check(whole_number(1, 8192));
  command.add_option("--seed", job.seed, "seed of the first image's noise; each further image uses the next seed")
      ->check(seed_number())
      ->capture_default_str();
  command
      .add_option("--noise", job.noise,
                  "safetensors file with the initial noise, instead of the seed's: latents, for FLUX packed [tokens, "
                  "channels], for a U-Net [channels, height, width]")
      ->check(CLI::ExistingFile)
      ->type_name("FILE");
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "make images (PNG)");
  const auto arguments = std::make_shared<RunArguments>();
  add_model_arguments(*command, arguments->model);
  add_lora_option(*command, arguments->loras);
  add_auto_switches(*command, arguments->switches, "lossless");
  add_prompt_options(*command, *arguments);
  add_size_and_sampling(*command, arguments->job);
  command
      ->add_option("--batch", arguments->batch,
                   "images per batch; 0: as many as have 4096 image tokens together, which is one of 1024 x 1024")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  command
      ->add_option("--memory-limit", arguments->memory_limit,
                   "limit of device memory, such as 16GiB; if it is too small for all stages, it holds one at a time "
                   "(offloading); default: all memory")
      ->transform(byte_size())
      ->type_name("SIZE");
  add_search_option(*command, arguments->after_the_first);
  command
      ->add_option("--out", arguments->out,
                   "PNG to write: fox.png; for several prompts fox-1.png and so on; for labels a grid with a column "
                   "for each; - for standard output")
      ->check(written_as({".png"}, Dash::kTaken))
      ->type_name("FILE")
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "machine-readable summary");
  command->footer(
      fmt::format("Example: headroom run {0} --prompt \"an ankle boot\" --out boot.png\n"
                  "         headroom run {0} --labels Sneaker,Bag --per-label 4 --opt fast --out shoes.png\n"
                  "         headroom run {1} --prompt \"a red fox in snow\" --seed 7 --out fox.png\n"
                  "         headroom run {1} --like fox.png --steps 50 --out fox-50.png\n"
                  "         headroom run {1} --prompts - < requests.jsonl",
                  examples::kShipped, examples::kFolder));
  command->callback([command, arguments] {
    arguments->job.loras = parse_loras(arguments->loras);
    if (!arguments->like.empty()) take_from(*command, *arguments);
    arguments->is_seed_given = command->count("--seed") != 0;
    for (const char* option : {"--per-prompt", "--batch", "--out", "--json"})
      if (command->count(option) != 0) arguments->idle_of_requests.emplace_back(option);
    run(*arguments);
  });
}

}  // namespace headroom
