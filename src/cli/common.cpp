#include "cli/common.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/tensors/block_format.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"
#include "cli/images/image_job.hpp"
#include "cli/number.hpp"
#include "kernels/core/limit_isa.hpp"

namespace headroom {
namespace {

/// Accepts the devices of parse_device().
CLI::Validator device_name() {
  return {[](std::string& text) {
            try {
              (void)parse_device(text);
              return std::string();
            } catch (const Error& error) {
              return std::string(error.what());
            }
          },
          ""};
}

}  // namespace

void add_model_arguments(CLI::App& command, ModelArguments& arguments) {
  command
      .add_option("MODEL", arguments.model,
                  "a name that `headroom models` lists, a checkpoint folder in diffusers layout, a safetensors or GGUF "
                  "file, or ORG/NAME in the Hugging Face cache")
      ->required();
  add_parts_arguments(command, arguments);
  command
      .add_option("--random-weights", arguments.random_weights,
                  "use random weights with this seed instead of the checkpoint; quality is then not reported")
      ->check(seed_number())
      ->type_name("SEED");
  command
      .add_option("--random-format", arguments.random_format,
                  "store matrices of random weights in this block format of GGUF files, such as Q4_K; default: bf16")
      ->type_name("FORMAT");
  command
      .add_option("--baseline", arguments.baseline,
                  "dtype of the computation, unless a switch changes it; default: fp32 on a CPU, the checkpoint's "
                  "dtype on a GPU")
      ->check(CLI::IsMember({"fp32", "bf16"}));
  add_device_arguments(command, arguments);
}

void add_parts_arguments(CLI::App& command, ModelArguments& arguments) {
  const auto add_list = [&](const char* option, std::vector<std::string>& list, const char* help, const char* type) {
    command.add_option(option, list, help)
        ->expected(1)
        ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
        ->type_name(type);
  };
  add_list(
      "--part", arguments.parts,
      "replace or complete a part of a pipeline by a folder or file: vae=ae.safetensors; may be given several times",
      "PART=PATH");
  add_list(
      "--config", arguments.config,
      "replace a value of a network's configuration: vae.scaling_factor=0.13025, or of the denoiser KEY=VALUE; may "
      "be given several times",
      "[PART.]KEY=VALUE");
  command
      .add_option("--variant", arguments.variant,
                  "variant of the weights in a folder, such as fp16 for model.fp16.safetensors; default: files without "
                  "one, or the only variant")
      ->type_name("NAME");
}

namespace {

/// "vae" and "ae.safetensors" of "vae=ae.safetensors"
std::pair<std::string, std::string> split_assignment(std::string_view option, const std::string& text) {
  const std::size_t equal = text.find('=');
  if (equal == std::string::npos || equal == 0 || equal + 1 == text.size())
    fail_usage("{} is '{}', expected {}", option, text, option == "--part" ? "PART=PATH" : "KEY=VALUE");
  return {text.substr(0, equal), text.substr(equal + 1)};
}

const BlockFormat* parse_random_format(const ModelArguments& arguments) {
  if (arguments.random_format.empty()) return nullptr;
  if (!arguments.random_weights) fail_usage("--random-format is for --random-weights SEED, which is missing");
  const BlockFormat* const format = find_block_format(arguments.random_format);
  if (format != nullptr && format->is_packed()) return format;
  std::vector<std::string> known;
  for (const BlockFormat& each : block_formats())
    if (each.is_packed()) known.emplace_back(each.name);
  fail_usage("--random-format is '{}', expected one of {}{}", arguments.random_format, fmt::join(known, ", "),
             did_you_mean(arguments.random_format, known));
}

/// Numbers, lists, true, false and null are JSON; other texts need no quotes.
nlohmann::json json_or_text(const std::string& text) {
  try {
    return parse_json(text, "--config");
  } catch (const Error&) {
    return text;
  }
}

}  // namespace

OpenOptions open_options(const ModelArguments& arguments) {
  OpenOptions options{.random_seed = arguments.random_weights,
                      .random_format = parse_random_format(arguments),
                      .variant = arguments.variant};
  if (options.variant.find('/') != std::string::npos)
    fail_usage("--variant is '{}', expected a name such as fp16", options.variant);
  for (const std::string& part : arguments.parts) {
    auto [role, path] = split_assignment("--part", part);
    if (!options.parts.emplace(role, std::move(path)).second) fail_usage("--part {} is given twice", role);
  }
  for (const std::string& value : arguments.config) {
    auto [key, text] = split_assignment("--config", value);
    if (!options.config.emplace(key, json_or_text(text)).second) fail_usage("--config {} is given twice", key);
  }
  return options;
}

void add_device_arguments(CLI::App& command, ModelArguments& arguments) {
  command
      .add_option("--device", arguments.device,
                  "auto, cpu, cuda, cuda:N for GPU number N, or cuda:N-M; auto is the first usable GPU, or the CPU if "
                  "there is none")
      ->check(device_name())
      ->type_name("DEVICE")
      ->capture_default_str();
  command.add_option("--threads", arguments.threads, "CPU threads; 0: all CPUs of the affinity mask")
      ->check(whole_number(0, 1024))
      ->capture_default_str();
  std::vector<std::string> isas;
  for (const CpuIsa isa : all_cpu_isas()) isas.emplace_back(name_of(isa));
  command.add_option("--cpu-isa", arguments.cpu_isa, "widest vector instructions to use; default: the CPU's widest")
      ->check(CLI::IsMember(isas));
  command.add_flag("-q,--quiet", arguments.quiet, "no progress bar and no notes");
}

void add_lora_option(CLI::App& command, std::vector<std::string>& loras) {
  command
      .add_option("--lora", loras,
                  "a LoRA file to add to the weights, with its weight: style.safetensors:0.8; the default weight is 1, "
                  "and it may be negative; may be given several times")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->type_name("FILE[:WEIGHT]");
}

std::vector<LoraUse> parse_loras(std::span<const std::string> loras) {
  std::vector<LoraUse> uses;
  for (const std::string& text : loras) {
    uses.push_back(parse_lora(text));
    require_lora_weight(uses.back(), "--lora");
  }
  return uses;
}

void add_size_options(CLI::App& command, RequestOptions& request, ImageSize& size) {
  CLI::Option* const rows =
      command.add_option("--token-rows", request.token_rows, "rows of image tokens; default: the model's own")
          ->check(whole_number(1, 1024));
  CLI::Option* const columns =
      command.add_option("--token-columns", request.token_columns, "columns of image tokens; default: the model's own")
          ->check(whole_number(1, 1024));
  command.add_option("--text-tokens", request.text_tokens, "text tokens; default: the model's own, or 512")
      ->check(whole_number(1, 8192));
  command.add_option("--height", size.height, "image height in pixels, instead of --token-rows")
      ->check(whole_number(1, 16'384))
      ->excludes(rows);
  command.add_option("--width", size.width, "image width in pixels, instead of --token-columns")
      ->check(whole_number(1, 16'384))
      ->excludes(columns);
}

void add_steps_option(CLI::App& command, std::int64_t& steps, const std::string& what) {
  command.add_option("--steps", steps, what + "; default: the model's own number")->check(whole_number(1, 10'000));
}

void add_guidance_option(CLI::App& command, std::optional<double>& guidance) {
  command.add_option("--guidance", guidance, "guidance scale; default: the model's own")
      ->check(real_number(0.0, 100.0));
}

void add_true_cfg_option(CLI::App& command, std::optional<double>& scale) {
  command
      .add_option(
          "--true-cfg-scale", scale,
          "scale of classifier-free guidance of FLUX and Qwen-Image, by a second pass for the negative prompt; doubles "
          "the work; off up to 1; default: the model's own with a negative prompt, otherwise none")
      ->check(real_number(0.0, 100.0));
}

void add_pass_option(CLI::App& command, std::string& pass) {
  command.add_option("--pass", pass,
                     "pass to run: for a network decode, encode, hidden-states, ...; for a pipeline forward, a stage "
                     "such as text_encoder or decode, request for whole requests, or frame for a frame of a stream");
}

void add_request_options(CLI::App& command, RequestOptions& request, ImageSize& size) {
  command.add_option("--batch", request.images, "images per batch")
      ->check(whole_number(1, 4096))
      ->capture_default_str();
  add_steps_option(command, request.steps, "denoise steps");
  add_size_options(command, request, size);
}

void add_search_option(CLI::App& command, NewWork& after_the_first) {
  command
      .add_option_function<std::string>(
          "--search",
          [&after_the_first](const std::string& sizes) {
            after_the_first = sizes == "every" ? NewWork::kMeasure : NewWork::kTakeOver;
          },
          "sizes for which the fastest GPU algorithms are searched: first, after which new sizes use those of the "
          "nearest tuned size, or every")
      ->check(CLI::IsMember({"first", "every"}))
      ->default_str("first");
}

void add_strict_option(CLI::App& command, SwitchList& switches) {
  command.add_flag("--strict", switches.is_strict,
                   "fail (exit code 1) if a switch named by --opt declines, or an option has no effect");
}

void add_switches(CLI::App& command, SwitchList& switches, std::string_view fallback, bool takes_auto) {
  switches.list = fallback;
  const auto names =
      all_switches() | std::views::transform([](const SwitchInfo& info) {
        return info.needs_argument() ? fmt::format("{}={}", info.name, info.value) : std::string(info.name);
      });
  std::vector<std::string_view> presets;
  for (const Preset& preset : all_presets())
    if (takes_auto || preset.name != "auto") presets.push_back(preset.name);
  command
      .add_option_function<std::string>(
          "--opt",
          [&switches](const std::string& list) {
            switches.list = list;
            switches.is_given = true;
          },
          fmt::format("optimizations, separated by commas: {}; or presets: {}", fmt::join(names, ", "),
                      fmt::join(presets, ", ")))
      ->type_name("LIST")
      ->default_str(switches.list);
  add_strict_option(command, switches);
}

std::string device_argument(const Device& device) {
  return device.index == 0 && device.count == 0 ? std::string(name_of(device.kind)) : name_of(device);
}

std::unique_ptr<Backend> open_backend(const ModelArguments& arguments) {
  if (!arguments.cpu_isa.empty()) limit_cpu_isa(*parse_cpu_isa(arguments.cpu_isa));
  return make_backend(find_device(arguments.device), arguments.threads);
}

void tell_device(const Log& log, const Backend& backend) {
  log.info("device: {}, {}", name_of(device_of(backend)), backend.properties().name);
}

namespace {

/// The dtype of the baseline: as requested, otherwise by the device.
DType choose_baseline(const ModelArguments& arguments, const Backend& backend, const Checkpoint& checkpoint) {
  if (!arguments.baseline.empty()) return arguments.baseline == "bf16" ? DType::kBF16 : DType::kF32;
  return backend.properties().target.device->keeps_precision ? checkpoint_baseline(checkpoint) : DType::kF32;
}

Engine open(const ModelArguments& arguments, bool must_be_pipeline) {
  Engine engine;
  engine.backend = open_backend(arguments);
  const auto baseline = [&](const Checkpoint& checkpoint) {
    return choose_baseline(arguments, *engine.backend, checkpoint);
  };
  const OpenOptions options = open_options(arguments);
  static_cast<OpenedModel&>(engine) = open_model(arguments.model, options, must_be_pipeline, baseline);
  if (is_pipeline(arguments.model, options)) engine.folder = find_model_folder(arguments.model);
  const Log log(arguments.quiet);
  for (const Component& component : engine.components())
    for (const std::string& note : component.checkpoint.notes()) log.info("{}", note);
  if (!arguments.loras.empty()) {
    LoraFiles files;
    ParamUpdates updates = files.updates(parse_loras(arguments.loras), engine.components());
    for (const std::string& note : files.notes()) log.info("{}", note);
    if (engine.pipeline)
      engine.pipeline->set_updates(updates);
    else
      engine.component->updates = std::move(updates);
  }
  engine.weights = std::make_unique<WeightStore>(*engine.backend, engine.components());
  tell_device(log, *engine.backend);
  return engine;
}

}  // namespace

Engine open_network(const ModelArguments& arguments) { return open(arguments, /*must_be_pipeline=*/false); }

Engine open_engine(const ModelArguments& arguments) { return open(arguments, /*must_be_pipeline=*/true); }

void report_notes(const Log& log, const Compiled& compiled) {
  for (const PassRecord& pass : compiled.passes)
    for (const PassNote& note : pass.notes)
      if (note.nodes.empty()) log.info("{}: {}", pass.name, note.reason);
}

void report_replay_obstacle(const Log& log, const Session& session) {
  const std::optional<ReplayObstacle>& obstacle = session.obstacle_to_one_replay();
  if (!obstacle) return;
  log.info("switch graph left the host in the loop: {}{}", obstacle->reason,
           obstacle->path.empty() ? "" : fmt::format(" ({})", obstacle->path));
}

}  // namespace headroom
