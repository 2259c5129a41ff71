#include "run/model.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "io/safetensors.hpp"
#include "models/config.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

PromptTable read_prompts(const fs::path& folder, const FluxConfig& config) {
  const fs::path path = folder / "prompts.safetensors";
  const SafetensorsFile file = SafetensorsFile::open(path);
  PromptTable table{.encoder_hidden_states = convert(file.read("encoder_hidden_states"), DType::kF32),
                    .pooled_projections = convert(file.read("pooled_projections"), DType::kF32),
                    .labels = {}};
  const nlohmann::json labels = read_json(folder / "labels.json");
  if (!labels.is_array() || !std::ranges::all_of(labels, [](const auto& label) { return label.is_string(); }))
    fail("{}: expected a list of names", (folder / "labels.json").string());
  for (const auto& label : labels) table.labels.push_back(label.get<std::string>());
  const auto prompts = static_cast<std::int64_t>(table.labels.size()) + 1;
  const Shape& text = table.encoder_hidden_states.shape();
  if (text.rank() != 3 || text[0] != prompts || text[2] != config.joint_attention_dim)
    fail("{}: encoder_hidden_states is {}, expected [{}, tokens, {}]", path.string(), text, prompts,
         config.joint_attention_dim);
  if (!(table.pooled_projections.shape() == Shape{prompts, config.pooled_projection_dim}))
    fail("{}: pooled_projections is {}, expected [{}, {}]", path.string(), table.pooled_projections.shape(), prompts,
         config.pooled_projection_dim);
  return table;
}

PixelFormat read_pixel_format(const nlohmann::json& json, const FluxConfig& config, const std::string& context) {
  const PixelFormat pixels{.height = get_int(json, "height", context),
                           .width = get_int(json, "width", context),
                           .channels = get_int(json, "channels", context),
                           .patch = get_int(json, "patch", context)};
  if (pixels.patch < 1 || pixels.height < 1 || pixels.width < 1 || pixels.height % pixels.patch != 0 ||
      pixels.width % pixels.patch != 0)
    fail("{}: {} x {} pixels do not divide into patches of {}", context, pixels.height, pixels.width, pixels.patch);
  if ((pixels.channels != 1 && pixels.channels != 3) ||
      pixels.patch * pixels.patch * pixels.channels != config.in_channels)
    fail("{}: patches of {} x {} x {} are not the model's {} channels", context, pixels.patch, pixels.patch,
         pixels.channels, config.in_channels);
  return pixels;
}

/// What ships beside the transformer's config.json.
void read_extras(const fs::path& folder, Model& model) {
  if (const fs::path path = folder / "scheduler_config.json"; fs::exists(path)) {
    const nlohmann::json schedule = read_json(path);
    model.schedule = config::read_in(folder.string(), [&] { return parse_flow_match_schedule(schedule); });
  }
  if (fs::exists(folder / "prompts.safetensors")) model.prompts = read_prompts(folder, model.config);
  if (const fs::path path = folder / "generation_config.json"; fs::exists(path)) {
    const nlohmann::json generation = read_json(path);
    model.default_steps = get_int_or(generation, "num_inference_steps", model.default_steps, path.string());
    model.guidance_scale = get_double_or(generation, "guidance_scale", model.guidance_scale, path.string());
    if (generation.contains("pixel_format"))
      model.pixels = read_pixel_format(get(generation, "pixel_format", path.string()), model.config,
                                       path.string() + ": pixel_format");
  }
}

}  // namespace

Model make_model(Component transformer) {
  if (!makes_images(transformer))
    fail_usage("{} is an {}, which makes no images by itself: forward, bench and plan take it", transformer.name,
               transformer.kind->name);
  Model model{.transformer = std::move(transformer), .config = {}, .schedule = {}, .prompts = {}, .pixels = {}};
  model.config = parse_flux_config(model.transformer.config);
  if (!model.transformer.folder.empty()) read_extras(model.transformer.folder, model);
  return model;
}

bool makes_images(const Component& component) { return component.kind->name == kFluxTransformer; }

Model open_model(const std::string& name_or_folder, std::optional<std::uint64_t> random_seed) {
  return make_model(open_component(name_or_folder, random_seed));
}

}  // namespace headroom
