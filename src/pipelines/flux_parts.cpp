#include "pipelines/flux_parts.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "models/autoencoder.hpp"
#include "models/config.hpp"
#include "models/flux.hpp"
#include "pipelines/scheduler.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kScheduler = "scheduler_config.json";

std::vector<std::string> read_names(const nlohmann::json& names, const std::string& context) {
  if (!names.is_array() || !std::ranges::all_of(names, [](const auto& name) { return name.is_string(); }))
    fail("{}: expected a list of texts", context);
  return names.get<std::vector<std::string>>();
}

FluxDefaults read_defaults(const fs::path& folder, const FluxConfig& flux) {
  FluxDefaults defaults;
  const fs::path path = folder / "generation_config.json";
  if (!fs::exists(path)) return defaults;
  const nlohmann::json generation = read_json(path);
  const std::string context = path.string();
  if (generation.contains("num_inference_steps")) defaults.steps = get_int(generation, "num_inference_steps", context);
  if (generation.contains("guidance_scale"))
    defaults.guidance_scale = get_double(generation, "guidance_scale", context);
  if (generation.contains("max_sequence_length"))
    defaults.text_tokens = get_int(generation, "max_sequence_length", context);
  if (generation.contains("prompts")) defaults.prompts = read_names(generation.at("prompts"), context + ": prompts");
  if (generation.contains("pixel_format")) {
    defaults.pixels = parse_pixel_format(generation.at("pixel_format"), context + ": pixel_format");
    if (defaults.pixels->token_channels() != flux.in_channels)
      fail("{}: patches of {} x {} x {} are not the model's {} channels", context, defaults.pixels->patch,
           defaults.pixels->patch, defaults.pixels->channels, flux.in_channels);
  }
  return defaults;
}

/// Levels as FLUX.1-dev's are shifted.
nlohmann::json default_scheduler() { return {{"use_dynamic_shifting", true}}; }

nlohmann::json read_scheduler(const fs::path& folder) {
  nlohmann::json config = read_scheduler_config(folder / kScheduler);
  config::read_in(folder.string(), [&] {
    if (!is_flow_matching(config))
      fail("{}: _class_name is {}, expected a scheduler of flow matching", kScheduler, config::class_name(config));
    return parse_scheduler(config);
  });
  return config;
}

Component open_part(const ModelIndex& index, std::string_view part, std::string_view expected,
                    std::optional<std::uint64_t> random_seed) {
  Component component = open_component(index.part(part, expected).string(), random_seed);
  component.part = part;
  return component;
}

/// What the denoiser reads of a text encoder.
struct Reading {
  std::string output;  ///< of the encoder
  std::string input;   ///< of the denoiser
  std::int64_t width;  ///< of that input
};

/// Adds an encoder and its tokenizer, for prompts of so many tokens, or of as many as a request says.
void add_reader(FluxParts& parts, const ModelIndex& index, std::string_view tokenizer, Component encoder,
                const Reading& reading, std::int64_t tokens) {
  const fs::path folder = index.part(tokenizer);
  TextReader reader{.encoder = encoder.part,
                    .tokenizer = open_tokenizer(folder),
                    .output = reading.output,
                    .input = reading.input,
                    .tokens = tokens};
  require_vocabulary(reader.tokenizer, folder, encoder);
  const Graph graph = encoder.build(pass_named(*encoder.kind, "encode"), {{"input_ids", Shape{1, 1}}});
  const auto output = std::ranges::find(graph.outputs(), reading.output, &Output::name);
  HR_CHECK(output != graph.outputs().end());
  const Shape& made = graph.type(output->value).shape;
  if (const std::int64_t width = made[made.rank() - 1]; width != reading.width)
    fail("{}: {} is {} wide, but the transformer's {} are {}", encoder.folder.string(), reading.output, width,
         reading.input, reading.width);
  parts.readers.push_back(std::move(reader));
  parts.components.push_back(std::move(encoder));
}

}  // namespace

FluxParts flux_parts_of(Component transformer) {
  FluxParts parts{.folder = transformer.folder,
                  .components = {},
                  .readers = {},
                  .scheduler = default_scheduler(),
                  .defaults = {},
                  .labels = {}};
  if (!parts.folder.empty()) {
    if (fs::exists(parts.folder / kScheduler)) parts.scheduler = read_scheduler(parts.folder);
    parts.defaults = read_defaults(parts.folder, parse_flux_config(transformer.config));
  }
  parts.components.push_back(std::move(transformer));
  return parts;
}

FluxParts open_flux_parts(const ModelIndex& index, std::optional<std::uint64_t> random_seed) {
  FluxParts parts{.folder = index.folder(),
                  .components = {},
                  .readers = {},
                  .scheduler = read_scheduler(index.part("scheduler")),
                  .defaults = {},
                  .labels = {},
                  .is_kontext = index.class_name() == "FluxKontextPipeline"};
  Component transformer = open_part(index, "transformer", kFluxTransformer, random_seed);
  transformer.name = fs::weakly_canonical(index.folder()).filename().string();
  const FluxConfig flux = parse_flux_config(transformer.config);
  parts.components.push_back(std::move(transformer));
  parts.defaults = read_defaults(index.folder(), flux);

  Component clip = open_part(index, "text_encoder", "CLIPTextModel", random_seed);
  const std::int64_t positions = clip.kind->text_tokens(clip.config);
  add_reader(parts, index, "tokenizer", std::move(clip),
             {.output = "pooler_output", .input = "pooled_projections", .width = flux.pooled_projection_dim},
             positions);
  add_reader(parts, index, "tokenizer_2", open_part(index, "text_encoder_2", "T5EncoderModel", random_seed),
             {.output = "last_hidden_state", .input = "encoder_hidden_states", .width = flux.joint_attention_dim},
             /*tokens=*/0);

  if (const fs::path path = index.folder() / "labels.json"; fs::exists(path)) {
    parts.labels = read_names(read_json(path), path.string());
    if (parts.labels.size() != parts.defaults.prompts.size())
      fail("{} has {} names, but generation_config.json has {} prompts", path.string(), parts.labels.size(),
           parts.defaults.prompts.size());
  }
  if (parts.defaults.pixels) return parts;
  Component vae = open_part(index, "vae", /*expected=*/{}, random_seed);
  const Autoencoder coder = config::read_in(vae.folder.string(), [&] { return parse_autoencoder(vae.config); });
  if (const std::int64_t channels = 4 * coder.latent_channels; channels != flux.in_channels)
    fail("{}: 2 x 2 latents have {} channels, but the transformer's tokens have {}", vae.folder.string(), channels,
         flux.in_channels);
  parts.components.push_back(std::move(vae));
  return parts;
}

}  // namespace headroom
