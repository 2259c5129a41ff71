#include <algorithm>
#include <charconv>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/error.hpp"
#include "base/file.hpp"
#include "base/format.hpp"
#include "base/json.hpp"
#include "base/list.hpp"
#include "base/nearest.hpp"
#include "base/output.hpp"
#include "base/progress.hpp"
#include "cli/auto.hpp"
#include "cli/commands.hpp"
#include "cli/common.hpp"
#include "cli/number.hpp"
#include "cli/output_name.hpp"
#include "measure/table.hpp"
#include "media/image_grid.hpp"
#include "media/png.hpp"
#include "pipelines/examples.hpp"
#include "pipelines/generator.hpp"
#include "pipelines/images.hpp"

namespace headroom {
namespace {

struct Arguments {
  ModelArguments model;
  SwitchArguments switches;
  std::string labels = "all";
  std::int64_t per_label = 1;
  std::int64_t steps = 0;
  double guidance = 0;
  std::uint64_t seed = 0;
  std::string out = "images.png";
  bool as_json = false;
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

std::vector<ImageRequest> make_requests(const std::vector<std::int64_t>& labels, const Arguments& arguments) {
  std::vector<ImageRequest> requests;
  for (std::int64_t n = 0; n < arguments.per_label; ++n)
    for (const std::int64_t label : labels)
      requests.push_back({.label = label, .seed = arguments.seed + requests.size()});
  return requests;
}

nlohmann::json stages_of(const Generator& generator) {
  nlohmann::json stages = nlohmann::json::array();
  for (const StageRun& stage : generator.stages())
    stages.push_back({{"name", stage.name}, {"ms", stage.milliseconds}, {"memory_bytes", stage.bytes}});
  return stages;
}

void run(const Arguments& arguments) {
  const Log log(arguments.model.quiet);
  const SwitchRequest asked = SwitchRequest::parse(arguments.switches.list);
  check_writable(arguments.out);
  const Engine engine = open_engine(arguments.model);
  const Pipeline& pipeline = *engine.pipeline;
  if (const std::string obstacle = pipeline.obstacle_to_images(); !obstacle.empty()) fail("{}", obstacle);
  const std::vector<std::int64_t> labels = parse_labels(arguments.labels, pipeline.labels());
  const std::vector<ImageRequest> requests = make_requests(labels, arguments);

  RequestOptions options{.images = static_cast<std::int64_t>(requests.size()),
                         .steps = arguments.steps,
                         .guidance_scale = arguments.guidance,
                         .switches = {}};
  options.switches =
      choose_switches(asked, arguments.switches, *engine.backend, make_auto_request(pipeline, options), log).set;
  Generator generator(pipeline, *engine.backend, *engine.weights, options);
  report_declined(log, generator.compiled().declined);
  std::vector<double> step_ms;
  Progress progress("denoising", generator.request().steps, arguments.model.quiet);
  const HostTensor latents = generator.generate(requests, [&](std::int64_t, double milliseconds) {
    step_ms.push_back(milliseconds);
    progress.advance();
  });
  const std::vector<Image> images = to_images(generator.decode(latents));
  write_png(arguments.out, image_grid(images, static_cast<int>(labels.size()), 2));

  double steps_ms = 0;
  for (const double ms : step_ms) steps_ms += ms;
  const double prologue_ms = generator.session().outside_loops_ms();
  const double total_ms = prologue_ms + steps_ms;
  if (arguments.as_json) {
    const nlohmann::json summary = {{"model", pipeline.name()},
                                    {"images", requests.size()},
                                    {"steps", generator.request().steps},
                                    {"switches", generator.compiled().applied},
                                    {"total_ms", total_ms},
                                    {"prologue_ms", prologue_ms},
                                    {"step_ms", step_ms},
                                    {"stages", stages_of(generator)},
                                    {"out", arguments.out}};
    print_out("{}\n", dump_json(summary, 2));
  } else {
    print_out("{} in {} of {}: {} an image; wrote {}\n", format_count(std::ssize(requests), "image"),
              format_count(std::ssize(step_ms), "step"), format_ms(steps_ms / static_cast<double>(step_ms.size())),
              format_ms(total_ms / static_cast<double>(requests.size())), arguments.out);
  }
}

}  // namespace

void add_run_command(CLI::App& app) {
  CLI::App* command = app.add_subcommand("run", "make images (PNG)");
  const auto arguments = std::make_shared<Arguments>();
  add_model_arguments(*command, arguments->model);
  add_auto_switches(*command, arguments->switches, "lossless");
  command->add_option("--labels", arguments->labels, "what to draw: names or numbers separated by commas, or all")
      ->capture_default_str();
  command->add_option("--per-label", arguments->per_label, "images of each label")
      ->check(whole_number(1, 1024))
      ->capture_default_str();
  command->add_option("--steps", arguments->steps, "denoise steps; 0 takes the model's own number")
      ->check(whole_number(0, 10'000))
      ->capture_default_str();
  command->add_option("--guidance", arguments->guidance, "guidance scale; 0 takes the model's own")
      ->check(real_number(0.0, 100.0))
      ->capture_default_str();
  command->add_option("--seed", arguments->seed, "seed of the first image's noise; each next image takes the next seed")
      ->check(seed_number())
      ->capture_default_str();
  command->add_option("--out", arguments->out, "PNG to write: a grid with a column for each label")
      ->check(written_as({".png"}))
      ->type_name("FILE")
      ->capture_default_str();
  command->add_flag("--json", arguments->as_json, "machine-readable summary");
  command->footer(fmt::format("Example: headroom run {} --labels Sneaker,Bag --per-label 4 --opt fast --out shoes.png",
                              examples::kShipped));
  command->callback([arguments] { run(*arguments); });
}

}  // namespace headroom
