#include "cli/option_names.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>

#include "base/text/list.hpp"
#include "base/text/nearest.hpp"

namespace headroom {
namespace {

/// A former name of an option.
struct FormerName {
  std::string_view command, former, current;
};
constexpr std::array<FormerName, 9> kFormerNames = {{{"forward", "--output", "--out"},
                                                     {"stream", "--output", "--out"},
                                                     {"stream", "--guidance-scale", "--guidance"},
                                                     {"bench", "--save", "--out"},
                                                     {"profile", "--save", "--out"},
                                                     {"compare", "--save", "--out"},
                                                     {"ladder", "--images", "--batch"},
                                                     {"profile", "--images", "--batch"},
                                                     {"plan", "--images", "--batch"}}};

/// A name used by other programs, and its equivalent: the first of these options that the command has, or an
/// explanation if no option is equivalent.
struct ForeignName {
  std::string_view names, meant;
};
constexpr std::array<ForeignName, 24> kForeignNames = {
    {{"--num-inference-steps,--num-steps,--inference-steps,--sampling-steps,--sample-steps", "--steps"},
     {"--guidance-scale,--cfg,--cfg-scale,--guidance_scale,--distilled-guidance", "--guidance"},
     {"--output,--output-path,--output-file,--output-dir,--outfile,--out-file,-o,--save-path", "--out"},
     {"--save,--save-json,--export-json,--csv", "--out,--save"},
     {"--prompt-text,--text,--positive,--positive-prompt,-p", "--prompt"},
     {"--negative,--neg,--neg-prompt,--uc,-n", "--negative-prompt"},
     {"-s,--random-seed,--noise-seed,--generator", "--seed"},
     {"-W,-w,--image-width,--resolution,--size", "--width,--resolution"},
     {"-H,--image-height", "--height,--resolution"},
     {"--sampling-method,--sampler,--sampler-name,--sample-method,--scheduler,--method", "--opt sampler=NAME"},
     {"--init-img,--init-image,--input-image,--ref-image,-r", "--image"},
     {"-i", "--image,--input"},
     {"--denoise,--denoising-strength,--img2img-strength", "--strength"},
     {"--num-images,--num-images-per-prompt,--batch-count,--images-per-prompt,-b", "--per-prompt,--batch"},
     {"--batch-size,--images", "--batch"},
     {"--lora-path,--lora-model-dir,--lora-weights,--loras", "--lora"},
     {"--num-threads,--nthreads,-t,-j", "--threads"},
     {"--gpu,--gpu-id,--cuda,--device-id,--cpu,-d", "--device"},
     {"--dtype,--torch-dtype,--type,--fp16,--bf16,--fp32,--half,--quantize,--weight-type", "--opt"},
     {"--compile,--torch-compile,--fa,--diffusion-fa,--xformers,--attention,--optimize,-O", "--opt"},
     {"--tiny-vae,--taesd,--vae,--diffusion-model,--clip-l,--t5xxl,--checkpoint,--ckpt,--model,--model-path,--repo,"
      "--pretrained-model-name-or-path,-m",
      "MODEL without a name, the folder of a checkpoint in diffusers layout"},
     {"--iterations,--iters,--repeat,--repeats,--runs,--num-runs", "--trials"},
     {"--regression-threshold,--tolerance,--fail-over", "--threshold"},
     {"--silent,--no-progress,--no-progress-bar", "--quiet"}}};

/// Commands of other programs, or names that are options here.
constexpr std::array<ForeignName, 11> kForeignCommands = {
    {{"help", "headroom --help"},
     {"version", "headroom --version"},
     {"generate,txt2img,img2img,img_gen,draw,sample,infer", "run"},
     {"serve,server", "run MODEL --prompts -"},
     {"vid_gen,video,live", "stream"},
     {"benchmark,time,perf", "bench"},
     {"quantize,export,save", "convert"},
     {"list,ls", "models"},
     {"info,show,dump,metadata,header", "inspect"},
     {"diff,check,gate", "compare"},
     {"plot,chart,charts,dashboard", "report"}}};

bool names_it(const ForeignName& foreign, std::string_view name) {
  const std::vector<std::string> names = split_list(foreign.names, "names");
  return std::ranges::find(names, name) != names.end();
}

std::string_view name_of_option(std::string_view argument) { return argument.substr(0, argument.find('=')); }

/// Whether the command has the option and shows it in its help.
bool has_option(const CLI::App& command, const std::string& name) {
  const CLI::Option* const option = command.get_option_no_throw(name);
  return option != nullptr && !option->get_group().empty();
}

/// Option names, except those of the program alone.
std::vector<std::string> names_of_options(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional() && !option->get_group().empty()) names.push_back(option->get_name());
  return names;
}

/// The equivalent, if the command has it.
std::optional<std::string> find_meant(const CLI::App& command, const ForeignName& foreign) {
  if (!foreign.meant.starts_with("--"))
    return command.get_option_no_throw("MODEL") == nullptr ? std::nullopt : std::optional(std::string(foreign.meant));
  for (const std::string& meant : split_list(foreign.meant, "options"))
    if (has_option(command, meant.substr(0, meant.find(' ')))) return meant;
  return std::nullopt;
}

}  // namespace

std::vector<std::string> with_empty_values(std::vector<std::string> arguments) {
  std::vector<std::string> separate;
  const auto end = std::ranges::find(arguments, "--");
  for (auto argument = arguments.begin(); argument != end; ++argument) {
    const bool is_empty = argument->starts_with("--") && argument->find('=') == argument->size() - 1;
    separate.push_back(is_empty ? argument->substr(0, argument->size() - 1) : *argument);
    if (is_empty) separate.emplace_back();
  }
  separate.insert(separate.end(), end, arguments.end());
  return separate;
}

CurrentArguments with_current_names(std::vector<std::string> arguments) {
  CurrentArguments current{.arguments = std::move(arguments), .notes = {}};
  const auto command =
      std::ranges::find_if(current.arguments, [](const std::string& argument) { return !argument.starts_with('-'); });
  if (command == current.arguments.end()) return current;
  std::set<std::string_view> noted;
  for (auto argument = command + 1; argument != current.arguments.end() && *argument != "--"; ++argument)
    for (const FormerName& name : kFormerNames) {
      if (name.command != *command || name.former != name_of_option(*argument)) continue;
      *argument = std::string(name.current) + argument->substr(name.former.size());
      if (noted.insert(name.former).second)
        current.notes.push_back(fmt::format("{} is called {} now; the former name goes away in the next version",
                                            name.former, name.current));
      break;
    }
  return current;
}

std::string hint_at_option(const CLI::App& command, std::string_view option) {
  const std::string_view name = name_of_option(option);
  std::string spelled(name);  // with underscores, as in Python
  std::ranges::replace(spelled, '_', '-');
  if (spelled != name && has_option(command, spelled)) return fmt::format("; did you mean '{}'?", spelled);
  for (const ForeignName& foreign : kForeignNames)
    if (names_it(foreign, name) || names_it(foreign, spelled))
      if (const std::optional<std::string> meant = find_meant(command, foreign))
        return meant->starts_with("--") ? fmt::format("; did you mean '{}'?", *meant)
                                        : fmt::format("; expected {}", *meant);
  return did_you_mean(name, names_of_options(command));
}

std::string hint_at_command(const CLI::App& app, std::string_view command) {
  for (const ForeignName& foreign : kForeignCommands)
    if (names_it(foreign, command)) return fmt::format("; did you mean '{}'?", foreign.meant);
  std::vector<std::string> names;
  for (const CLI::App* each : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(each->get_name());
  return did_you_mean(command, names);
}

}  // namespace headroom
