#include "run/model.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/json.hpp"
#include "base/nearest.hpp"
#include "io/safetensors.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kFashionFlux = "fashion-flux";
constexpr std::string_view kFluxDev = "flux-dev";

/// The folder of models that ships with the program: in the source tree it was built in, or installed beside it.
std::vector<fs::path> model_folders() {
  std::error_code ignored;
  const fs::path program = fs::read_symlink("/proc/self/exe", ignored);
  std::vector<fs::path> folders = {fs::path("models")};
  for (fs::path up = program.parent_path(); up != up.root_path() && !up.empty(); up = up.parent_path()) {
    folders.push_back(up / "models");
    folders.push_back(up / "share" / "headroom" / "models");
  }
  return folders;
}

std::optional<fs::path> find_shipped(std::string_view name) {
  for (const fs::path& folder : model_folders())
    if (fs::exists(folder / name / "config.json")) return folder / name;
  return std::nullopt;
}

/// Every param of the model where `dtype` says how each is stored; bf16 is how a stand-in checkpoint should be.
std::vector<TensorSpec> expected_params(
    const FluxConfig& config,
    std::function<DType(std::string_view)> dtype = [](std::string_view) { return DType::kBF16; }) {
  const ParamSource source{.dtype = std::move(dtype), .compute = DType::kF32};
  const Graph graph = build_flux_forward(config, {.batch = 1, .image_tokens = 1, .text_tokens = 1}, source);
  std::vector<TensorSpec> specs;
  for (const ValueId param : graph.values_of(ValueKind::kParam))
    specs.push_back(
        {.name = graph.value(param).name, .dtype = graph.type(param).dtype, .shape = graph.type(param).shape});
  return specs;
}

std::int64_t count_parameters(const FluxConfig& config) {
  std::int64_t count = 0;
  for (const TensorSpec& spec : expected_params(config)) count += spec.shape.numel();
  return count;
}

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

/// What `read` makes of a file in `folder`; its errors name the file alone and get the folder here.
template <typename Read>
auto read_in(const fs::path& folder, Read&& read) {
  try {
    return read();
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", folder.string(), error.what()), error.code());
  }
}

void read_extras(const fs::path& folder, Model& model) {
  if (const fs::path path = folder / "scheduler_config.json"; fs::exists(path)) {
    const nlohmann::json schedule = read_json(path);
    model.schedule = read_in(folder, [&] { return parse_flow_match_schedule(schedule); });
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

Model open_folder(const fs::path& folder, const std::string& name, std::optional<std::uint64_t> random_seed) {
  if (random_seed) {
    const nlohmann::json json = read_json(folder / "config.json");
    const FluxConfig config = read_in(folder, [&] { return parse_flux_config(json); });
    Model model{.name = name,
                .config = config,
                .checkpoint = Checkpoint::random(json, expected_params(config), *random_seed),
                .schedule = {},
                .prompts = {},
                .pixels = {}};
    read_extras(folder, model);
    return model;
  }
  Checkpoint checkpoint = Checkpoint::open(folder);
  const FluxConfig config = read_in(checkpoint.folder(), [&] { return parse_flux_config(checkpoint.config()); });
  const auto stored = [&](std::string_view tensor) {
    return checkpoint.has(tensor) ? checkpoint.entry(tensor).dtype : DType::kBF16;
  };
  require_params(checkpoint, expected_params(config, stored));
  const fs::path found = checkpoint.folder();
  Model model{
      .name = name, .config = config, .checkpoint = std::move(checkpoint), .schedule = {}, .prompts = {}, .pixels = {}};
  read_extras(found, model);
  return model;
}

/// The configuration that a name such as "flux-512x4+8" states: FLUX of that width, in heads of 128, with so many
/// double and single blocks. Nothing for other names.
std::optional<nlohmann::json> parse_flux_size(const std::string& name) {
  long width = 0, layers = 0, single_layers = 0;
  int end = 0;
  constexpr long kHeadDim = 128;
  constexpr long kMost = 1 << 16;
  if (std::sscanf(name.c_str(), "flux-%18ldx%18ld+%18ld%n", &width, &layers, &single_layers, &end) != 3 ||
      static_cast<std::size_t>(end) != name.size())
    return std::nullopt;
  if (width < kHeadDim || width % kHeadDim != 0 || width > kMost || layers < 1 || single_layers < 1)
    fail_usage("{}: the width must be a multiple of {} up to {}, and there must be blocks of both kinds", name,
               kHeadDim, kMost);
  nlohmann::json config = flux_dev_config();
  config["num_attention_heads"] = width / kHeadDim;
  config["num_layers"] = layers;
  config["num_single_layers"] = single_layers;
  return config;
}

/// A model that is a configuration alone.
Model open_random(const std::string& name, const nlohmann::json& json, std::uint64_t seed) {
  const FluxConfig config = read_in(name, [&] { return parse_flux_config(json); });
  return Model{.name = name,
               .config = config,
               .checkpoint = Checkpoint::random(json, expected_params(config), seed),
               .schedule = {},
               .prompts = {},
               .pixels = {}};
}

}  // namespace

ParamSource Model::params() const {
  return {.dtype = [this](std::string_view tensor) { return checkpoint.entry(tensor).dtype; }, .compute = DType::kF32};
}

std::int64_t Model::parameters() const { return count_parameters(config); }

DType checkpoint_baseline(const Checkpoint& checkpoint) {
  std::size_t narrow = 0;
  for (const TensorSpec& tensor : checkpoint.tensors())
    if (tensor.dtype == DType::kBF16) narrow += static_cast<std::size_t>(tensor.shape.numel()) * size_of(DType::kBF16);
  return 2 * narrow > checkpoint.total_bytes() ? DType::kBF16 : DType::kF32;
}

std::vector<ShippedModel> list_shipped_models() {
  std::vector<ShippedModel> models;
  if (const auto folder = find_shipped(kFashionFlux)) {
    const Checkpoint checkpoint = Checkpoint::open(*folder);
    models.push_back({std::string(kFashionFlux), "FLUX on 32x32 pictures of clothes, ten classes", *folder,
                      checkpoint.parameter_count()});
  }
  models.push_back({std::string(kFluxDev),
                    "FLUX.1-dev, 1024x1024; its checkpoint does not ship: give a folder or --random-weights",
                    {},
                    count_parameters(parse_flux_config(flux_dev_config()))});
  return models;
}

Model open_model(const std::string& name_or_folder, std::optional<std::uint64_t> random_seed) {
  const fs::path path(name_or_folder);
  if (fs::is_directory(path)) {
    const fs::path clean = fs::weakly_canonical(path);
    return open_folder(path, clean.filename().string(), random_seed);
  }
  if (name_or_folder == kFluxDev) {
    if (!random_seed)
      fail("flux-dev has no checkpoint here: give its folder instead of the name, or --random-weights SEED");
    return open_random(name_or_folder, flux_dev_config(), *random_seed);
  }
  if (const std::optional<nlohmann::json> config = parse_flux_size(name_or_folder)) {
    if (!random_seed) fail("{} is a size without a checkpoint: give --random-weights SEED", name_or_folder);
    return open_random(name_or_folder, *config, *random_seed);
  }
  if (name_or_folder.find('/') == std::string::npos)
    if (const auto folder = find_shipped(name_or_folder)) return open_folder(*folder, name_or_folder, random_seed);
  const std::array<std::string, 2> names = {std::string(kFashionFlux), std::string(kFluxDev)};
  fail_usage("no model '{}': expected a folder with a config.json, or a name that `headroom models` lists{}",
             name_or_folder, did_you_mean(name_or_folder, names));
}

}  // namespace headroom
