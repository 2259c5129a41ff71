#include "pipelines/pipeline_parts.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/text/json.hpp"
#include "base/text/printable.hpp"
#include "models/config.hpp"
#include "models/text_encoders/language_model.hpp"
#include "pipelines/schedules/scheduler.hpp"
#include "pipelines/stages/gguf_tokenizer.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScheduler = "scheduler_config.json";

std::vector<std::string> read_names(const nlohmann::json& names, const std::string& context) {
  if (!names.is_array() || !std::ranges::all_of(names, [](const auto& name) { return name.is_string(); }))
    fail("{}: expected a list of texts", context);
  return names.get<std::vector<std::string>>();
}

std::vector<std::string> read_labels(const fs::path& folder, const GenerationDefaults& defaults) {
  if (folder.empty()) return {};
  const fs::path path = folder / "labels.json";
  if (!fs::exists(path)) return {};
  std::vector<std::string> labels = read_names(read_json(path), path.string());
  if (labels.size() != defaults.prompts.size())
    fail("{} has {} names, but generation_config.json has {} prompts", path.string(), labels.size(),
         defaults.prompts.size());
  return labels;
}

/// A network of the class.
Component open_part(const PartsSource& source, std::string_view role, std::string_view class_name) {
  Component component = source.open_network(role);
  if (component.kind->name != class_name)
    fail("{} is a {}, expected a {} for the part {}", component.place(), component.kind->name, class_name, role);
  return component;
}

}  // namespace

const Component* PipelineParts::find(std::string_view part) const {
  const auto found = std::ranges::find(components, part, &Component::part);
  return found == components.end() ? nullptr : &*found;
}

GenerationDefaults read_defaults(const fs::path& folder) {
  GenerationDefaults defaults;
  const fs::path path = folder / "generation_config.json";
  if (folder.empty() || !fs::exists(path)) return defaults;
  const nlohmann::json generation = read_json(path);
  const std::string context = path.string();
  if (!generation.is_object()) fail("{}: expected an object, got {}", context, generation.type_name());
  const auto has = [&](const char* key) { return generation.contains(key) && !generation.at(key).is_null(); };
  if (has("num_inference_steps")) defaults.steps = get_int(generation, "num_inference_steps", context);
  if (has("guidance_scale")) defaults.guidance_scale = get_double(generation, "guidance_scale", context);
  if (has("max_sequence_length")) defaults.text_tokens = get_int(generation, "max_sequence_length", context);
  if (has("prompts")) defaults.prompts = read_names(generation.at("prompts"), context + ": prompts");
  if (has("pixel_format"))
    defaults.pixels = parse_pixel_format(generation.at("pixel_format"), context + ": pixel_format");
  return defaults;
}

void read_guider(PipelineParts& parts, const PartsSource& source) {
  constexpr std::string_view kGuider = "guider", kGuidance = "ClassifierFreeGuidance";
  if (!source.has(kGuider)) {
    if (!source.class_of(kGuider).empty())
      fail("{} names a guider that is not in it: copy its guider_config.json into the folder {}", source.place(),
           (source.folder() / kGuider).string());
    return;
  }
  constexpr const char* kFile = "guider_config.json";
  const fs::path folder = source.folder() / kGuider;
  const nlohmann::json config = read_json(folder / kFile);
  config::read_in(folder.string(), [&] {
    if (const std::string class_name = config::class_name(config); class_name != kGuidance)
      fail("{}: _class_name is {}, expected {}", kFile, printable_name(class_name), kGuidance);
    const auto require = [&](const char* key, double expected) {
      if (const double value = get_double_or(config, key, expected, kFile); value != expected)
        fail("{}: {} is {}, expected {}: guidance is in all steps, and its result is not rescaled", kFile, key, value,
             expected);
    };
    require("start", 0);
    require("stop", 1);
    require("guidance_rescale", 0);
    const double own = get_double_or(config, "guidance_scale", 7.5, kFile);  // diffusers' default
    const double scale = get_bool_or(config, "use_original_formulation", false, kFile) ? own + 1 : own;
    const bool is_enabled = get_bool_or(config, "enabled", true, kFile);
    if (!parts.defaults.guidance_scale) parts.defaults.guidance_scale = is_enabled ? scale : 1;
  });
}

PipelineParts parts_of(Component denoiser, nlohmann::json scheduler) {
  PipelineParts parts{.folder = denoiser.folder, .place = denoiser.place(), .scheduler = std::move(scheduler)};
  if (!parts.folder.empty()) {
    if (fs::exists(parts.folder / kScheduler)) parts.scheduler = read_scheduler_config(parts.folder / kScheduler);
    parts.defaults = read_defaults(parts.folder);
  }
  parts.components.push_back(std::move(denoiser));
  return parts;
}

PipelineParts open_parts(const PartsSource& source, const PartNeed& denoiser) {
  PipelineParts parts{.folder = source.folder(), .place = source.place()};
  parts.scheduler = source.scheduler();
  Component opened = open_part(source, denoiser.role, denoiser.class_name);
  opened.name = source.name();
  parts.components.push_back(std::move(opened));
  parts.defaults = read_defaults(parts.folder);
  parts.labels = read_labels(parts.folder, parts.defaults);
  return parts;
}

void require_flow_matching(const PipelineParts& parts) {
  config::read_in(parts.place, [&] {
    if (is_flow_matching(parts.scheduler) == false)
      fail("scheduler_config.json: _class_name is {}, expected a scheduler of flow matching",
           config::class_name(parts.scheduler));
  });
}

Autoencoder add_autoencoder(PipelineParts& parts, const PartsSource& source) {
  const Component& vae = parts.components.emplace_back(source.open_network("vae"));
  return config::read_in(vae.place(), [&] { return parse_autoencoder(vae.config); });
}

void add_autoencoder_of_tokens(PipelineParts& parts, const PartsSource& source, std::int64_t token_channels) {
  if (const std::int64_t channels = 4 * add_autoencoder(parts, source).latent_channels; channels != token_channels)
    fail("{}: 2 x 2 latents have {} channels, but the transformer's tokens have {}", parts.find("vae")->place(),
         channels, token_channels);
}

std::int64_t output_width(const Component& encoder, std::string_view pass, std::string_view output) {
  const Graph graph =
      encoder.build(pass_named(*encoder.kind, pass), {{"input_ids", Shape{1, 1}}, {kTextTokens, Shape{1}}});
  const auto found = std::ranges::find(graph.outputs(), output, &Output::name);
  HR_CHECK(found != graph.outputs().end());
  return graph.type(found->value).shape[-1];
}

TextReader& add_reader(PipelineParts& parts, const PartsSource& source, const EncoderPart& encoder) {
  const fs::path place = source.tokenizer_path(encoder.tokenizer);
  Component opened = open_part(source, encoder.part, encoder.class_name);
  if (!encoder.stacked_layers.empty()) {
    const std::int64_t states = config::read_in(
        opened.place(), [&] { return parse_language_model_config(opened.config).num_hidden_layers + 1; });
    std::vector<std::int64_t> layers = encoder.stacked_layers;
    for (std::int64_t& layer : layers)
      if (layer < 0) layer += states;
    opened.config["text_encoder_out_layers"] = layers;
  }
  TextReader reader{.encoder = opened.part,
                    .pass = std::string(encoder.pass),
                    .tokenizer = is_folder(place) ? open_tokenizer(place, source.class_of(encoder.tokenizer))
                                                  : open_gguf_tokenizer(place),
                    .readings = {},
                    .tokens = encoder.has_request_tokens ? 0 : opened.kind->text_tokens(opened.config),
                    .before = std::string(encoder.before),
                    .after = std::string(encoder.after),
                    .dropped_tokens = encoder.dropped_tokens,
                    .pads = encoder.pads,
                    .pad_multiple = encoder.pad_multiple};
  require_vocabulary(reader.tokenizer, place, opened);
  for (const auto& [reading, expected] : encoder.readings) {
    if (const std::int64_t width = output_width(opened, encoder.pass, reading.output);
        expected != 0 && width != expected)
      fail("{}: {} is {} wide, but the {}'s {} are {}", opened.place(), reading.output, width,
           parts.components.front().part, reading.input, expected);
    reader.readings.push_back(reading);
  }
  parts.components.push_back(std::move(opened));
  return parts.readers.emplace_back(std::move(reader));
}

}  // namespace headroom
