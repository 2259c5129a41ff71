#include "run/component.hpp"

#include <dlfcn.h>
#include <fmt/ranges.h>
#include <link.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/text/json.hpp"
#include "base/text/nearest.hpp"
#include "base/text/printable.hpp"
#include "io/weights_files.hpp"
#include "models/config.hpp"
#include "run/hub_cache.hpp"
#include "run/model_folders.hpp"
#include "run/single_file.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// The file that contains this code: the program, or a library that it has loaded.
fs::path own_file() {
  static const char kHere = 0;
  Dl_info unused;
  void* loaded = nullptr;
  std::error_code ignored;
  if (dladdr1(&kHere, &unused, &loaded, RTLD_DL_LINKMAP) != 0)
    if (const std::string_view library = static_cast<const link_map*>(loaded)->l_name; !library.empty())
      return fs::canonical(library, ignored);
  return fs::read_symlink("/proc/self/exe", ignored);
}

/// The folders of shipped models: in the source tree of the build, or installed next to the program.
std::vector<fs::path> model_folders() {
  std::vector<fs::path> folders = {fs::path("models")};
  for (fs::path up = own_file().parent_path(); up != up.root_path() && !up.empty(); up = up.parent_path()) {
    folders.push_back(up / "models");
    folders.push_back(up / "share" / "headroom" / "models");
  }
  return folders;
}

/// Whether it is the folder of a network or of a whole pipeline.
bool holds_model(const fs::path& folder) {
  std::error_code unknown;  // an unreadable folder contains none
  return fs::exists(folder / "config.json", unknown) || fs::exists(folder / "model_index.json", unknown) ||
         fs::exists(folder / "modular_model_index.json", unknown);
}

/// By name; the first of several folders with the same name.
std::map<std::string, fs::path> shipped_folders() {
  std::map<std::string, fs::path> shipped;
  for (const fs::path& models : model_folders()) {
    std::error_code ignored;
    for (fs::directory_iterator entry(models, ignored), end; !ignored && entry != end; entry.increment(ignored))
      if (holds_model(entry->path())) shipped.emplace(entry->path().filename().string(), entry->path());
  }
  return shipped;
}

/// The model's description in its generation_config.json.
std::string description_of(const fs::path& folder) {
  const fs::path path = folder / "generation_config.json";
  return is_there(path) ? get_string_or(read_json(path), "description", "", path.native()) : "";
}

/// The params of a network with random weights, as current checkpoints store them.
std::vector<TensorSpec> stand_in_params(const ComponentClass& kind, const nlohmann::json& config) {
  return expected_params(kind, config, {.dtype = [](std::string_view) { return DType::kBF16; }});
}

std::int64_t count_parameters(const std::vector<TensorSpec>& params) {
  std::int64_t count = 0;
  for (const TensorSpec& param : params) count += param.shape.numel();
  return count;
}

ParamSource params_of(const Checkpoint& checkpoint, const std::string& part = {}) {
  return {
      .dtype = [&](std::string_view name) { return checkpoint.has(name) ? checkpoint.entry(name).dtype : DType::kF32; },
      .compute = DType::kF32,
      .has = [&](std::string_view name) { return checkpoint.has(name); },
      .shape = [&](std::string_view name) { return checkpoint.entry(name).shape; },
      .checkpoint = part};
}

/// The params of a checkpoint whose config.json is not trusted yet. A config.json may claim thousands of layers, so
/// building the graph stops with an Error once more tensors are missing than one would list.
ParamSource unverified_params_of(const Checkpoint& checkpoint) {
  static constexpr std::size_t kMostMissing = 1000;
  ParamSource params = params_of(checkpoint);
  params.dtype = [&checkpoint, dtype = params.dtype,
                  missing = std::set<std::string, std::less<>>()](std::string_view name) mutable {
    if (!checkpoint.has(name) && missing.emplace(name).second && missing.size() > kMostMissing)
      fail("config.json: the network that it describes needs more than {} tensors that the weights lack, {} among them",
           kMostMissing, *missing.begin());
    return dtype(name);
  };
  return params;
}

/// A component with random weights.
Component make_random(std::string name, nlohmann::json config, fs::path folder, const OpenOptions& options) {
  const ComponentClass& kind = class_of(config);
  std::vector<TensorSpec> params = stand_in_params(kind, config);
  Checkpoint checkpoint = Checkpoint::random(config, std::move(params), *options.random_seed, options.random_format);
  return {.name = std::move(name),
          .kind = &kind,
          .config = std::move(config),
          .checkpoint = std::move(checkpoint),
          .folder = std::move(folder)};
}

Component open_folder(const fs::path& given, std::string name, const OpenOptions& options) {
  const fs::path folder = find_config_folder(given);
  const auto read = [&](const auto& body) { return config::read_in(folder.string(), body); };
  if (options.random_seed) {
    refuse_variant(options, "random weights");
    nlohmann::json config = read_config(folder);
    return read([&] {
      set_config(class_of(config), config, options);
      return make_random(std::move(name), std::move(config), folder, options);
    });
  }
  return component_of(std::move(name), Checkpoint::open(folder, options.variant), options);
}

/// The folder of a path, or of ORG/NAME in the hub's cache; for a model's folder in such a cache, its snapshot.
/// Nothing for another name and for a file.
std::optional<fs::path> given_folder(const std::string& name_or_folder) {
  const fs::path path(name_or_folder);
  if (is_folder(path)) return is_hub_folder(path) ? hub_snapshot(path) : path;
  if (is_there(path)) return std::nullopt;
  const std::optional<fs::path> cached = find_in_hub_cache(name_or_folder);
  return cached ? std::optional(hub_snapshot(*cached)) : std::nullopt;
}

/// "models and /usr/share/headroom/models": the existing folders that are searched for shipped models.
std::string searched_folders() {
  std::vector<std::string> there;
  std::set<fs::path> real;  // lists a folder with two names once
  for (const fs::path& folder : model_folders()) {
    std::error_code unknown;
    if (fs::is_directory(folder, unknown) && real.insert(fs::canonical(folder, unknown)).second)
      there.push_back(folder.string());
  }
  if (there.empty()) return "./models and the folders next to the program, none of which exists";
  return fmt::format("{}", fmt::join(there, " and "));
}

/// Reports a path, or ORG/NAME, without a folder. `models/NAME` is a path: the hub has no organization of that name,
/// which is part of its own addresses.
[[noreturn]] void refuse_missing_folder(const std::string& name, const std::vector<std::string>& shipped) {
  const fs::path path(name), parent = path.parent_path();
  const std::optional<fs::path> cache = hub_cache_folder();
  if (is_hub_name(name) && parent != "models" && cache && !is_folder(parent))
    fail_usage("no model '{}': there is no such folder, and {} does not hold it; to download it there: hf download {}",
               name, cache->native(), name);
  const std::string last = path.filename().string();
  if (std::ranges::find(shipped, last) != shipped.end())
    fail_usage("no model '{}': there is no such folder; '{}' ships with the program and is opened by that name", name,
               last);
  std::vector<std::string> siblings;
  std::error_code unknown;
  if (fs::is_directory(parent, unknown))
    for (const fs::path& sibling : list_folder(parent)) siblings.push_back(sibling.string());
  fail_usage("no model '{}': there is no such folder{}", name, did_you_mean(name, siblings));
}

/// Reports a name that is neither shipped nor includes a size.
[[noreturn]] void refuse_unknown_name(const std::string& name, std::vector<std::string> shipped) {
  for (const ComponentClass& kind : component_classes())
    for (const NamedConfig& named : kind.named) shipped.emplace_back(named.name);
  for (const std::string& cached : names_in_hub_cache())
    if (cached.ends_with("/" + name))
      fail_usage("no model '{}': the cache of the Hugging Face hub holds '{}', by which it can be opened", name,
                 cached);
  fail_usage(
      "no model '{}': expected a folder with a config.json or model_index.json, ORG/NAME in the cache of the Hugging "
      "Face hub, or a name that `headroom models` lists (models that ship were looked for in {}){}",
      name, searched_folders(), did_you_mean(name, shipped));
}

/// The configuration that ships under that name, or that a name with sizes defines.
std::optional<nlohmann::json> find_config(const std::string& name) {
  for (const ComponentClass& kind : component_classes()) {
    for (const NamedConfig& named : kind.named)
      if (named.name == name) return named.config();
    if (kind.sized == nullptr) continue;
    if (std::optional<nlohmann::json> config = kind.sized(name)) return config;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t Component::parameters() const { return count_parameters(stand_in_params(*kind, config)); }

ParamSource Component::params() const {
  ParamSource params = params_of(checkpoint, part);
  params.blocks = [this](std::string_view param) { return checkpoint.block_format(param); };
  return params;
}

Graph Component::build(const ComponentPass& pass, const InputShapes& given) const {
  return pass.build(config, given, params());
}

std::vector<TensorSpec> expected_params(const ComponentClass& kind, const nlohmann::json& config,
                                        const ParamSource& params) {
  constexpr PassSize kSmall{.batch = 1, .height = 128, .width = 128, .text_tokens = 1};
  std::map<std::string, TensorType> types;
  std::set<std::vector<std::string_view>> seen;
  for (const ComponentPass& pass : kind.passes) {
    if (!seen.insert(pass.inputs).second) continue;  // another pass with the same purpose and weights
    const Graph graph = pass.build(config, pass.shapes(config, kSmall), params);
    for (const ValueId param : graph.values_of(ValueKind::kParam))
      types.emplace(graph.value(param).name, graph.type(param));
  }
  std::vector<TensorSpec> specs;
  for (const auto& [name, type] : types) specs.push_back({.name = name, .dtype = type.dtype, .shape = type.shape});
  return specs;
}

OpenOptions OpenOptions::for_part(std::string_view role, bool is_denoiser) const {
  OpenOptions own{.random_seed = random_seed, .random_format = random_format, .variant = variant};
  for (const auto& [key, value] : config) {
    const std::size_t dot = key.find('.');
    if (dot == std::string::npos ? is_denoiser : key.substr(0, dot) == role)
      own.config.emplace(dot == std::string::npos ? key : key.substr(dot + 1), value);
  }
  return own;
}

void refuse_variant(const OpenOptions& options, std::string_view model) {
  if (!options.variant.empty())
    fail_usage("--variant {}: there are none in {}: they are files of a folder, such as {}", options.variant, model,
               weights_file_names(options.variant).front());
}

void set_config(const ComponentClass& kind, nlohmann::json& config, const OpenOptions& options) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : config.items()) keys.push_back(key);
  for (const auto& [key, value] : options.config) {
    // Every class refuses an object where it reads a number, a text or a list.
    nlohmann::json probe = config;
    probe[key] = {{"headroom", "probe"}};
    bool is_read = false;
    try {
      static_cast<void>(expected_params(kind, probe, {.dtype = [](std::string_view) { return DType::kF32; }}));
    } catch (const Error&) {
      is_read = true;
    }
    if (!is_read)
      fail_usage("--config {}: {} has no such value{}", printable_name(key), kind.name, did_you_mean(key, keys));
    config[key] = value;
  }
}

Component component_of(std::string name, Checkpoint checkpoint, const OpenOptions& options) {
  const fs::path folder = checkpoint.folder();
  const auto read = [&](const auto& body) {
    return config::read_in(folder.empty() ? checkpoint.description() : folder.string(), body);
  };
  nlohmann::json config = checkpoint.config();
  const auto* const kind = read([&] {
    const ComponentClass& found = class_of(config);
    set_config(found, config, options);
    return &found;
  });
  require_params(checkpoint, read([&] { return expected_params(*kind, config, unverified_params_of(checkpoint)); }),
                 kind->is_unread);
  return {.name = std::move(name),
          .kind = kind,
          .config = std::move(config),
          .checkpoint = std::move(checkpoint),
          .folder = folder};
}

Component open_component(const std::string& name_or_path, const OpenOptions& options) {
  if (const std::optional<fs::path> folder = given_folder(name_or_path))
    return open_folder(*folder, model_name_of(*folder), options);
  if (is_there(name_or_path)) {
    refuse_variant(options, name_or_path);
    return open_single_file(name_or_path, {}, options);
  }
  if (const std::optional<nlohmann::json> stated = find_config(name_or_path)) {
    if (!options.random_seed)
      fail("{} has no checkpoint here: give its folder instead of the name, or --random-weights SEED", name_or_path);
    refuse_variant(options, "random weights");
    return config::read_in(name_or_path, [&] {
      nlohmann::json config = *stated;
      set_config(class_of(config), config, options);
      return make_random(name_or_path, std::move(config), {}, options);
    });
  }
  std::vector<std::string> names;
  for (const auto& [name, folder] : shipped_folders()) {
    if (name == name_or_path) return open_folder(folder, name, options);
    names.push_back(name);
  }
  if (name_or_path.find('/') != std::string::npos) refuse_missing_folder(name_or_path, names);
  refuse_unknown_name(name_or_path, std::move(names));
}

fs::path find_model_folder(const std::string& name_or_folder) {
  if (const std::optional<fs::path> folder = given_folder(name_or_folder)) return *folder;
  if (is_there(name_or_folder) || find_config(name_or_folder)) return {};
  const std::map<std::string, fs::path> shipped = shipped_folders();
  const auto found = shipped.find(name_or_folder);
  return found == shipped.end() ? fs::path() : found->second;
}

DType checkpoint_baseline(const Checkpoint& checkpoint) {
  std::int64_t narrow = 0, all = 0;
  for (const TensorSpec& tensor : checkpoint.tensors()) {
    all += tensor.shape.numel();
    if (is_float(tensor.dtype) && checkpoint.is_narrow(tensor.name)) narrow += tensor.shape.numel();
  }
  return 2 * narrow > all ? DType::kBF16 : DType::kF32;
}

std::vector<ShippedModel> list_shipped_models() {
  std::vector<ShippedModel> models;
  for (const auto& [name, folder] : shipped_folders())
    models.push_back({name, description_of(folder), folder, Checkpoint::open(folder).parameter_count()});
  for (const ComponentClass& kind : component_classes())
    for (const NamedConfig& named : kind.named)
      models.push_back({std::string(named.name),
                        std::string(named.description),
                        {},
                        count_parameters(stand_in_params(kind, named.config()))});
  return models;
}

FoundComponent look_at_component(const fs::path& folder) {
  const nlohmann::json config = read_json(folder / "config.json");
  const std::string class_name = config.is_object() ? config::class_name(config) : "";
  FoundComponent found{
      .folder = folder, .class_name = class_name.empty() ? "?" : class_name, .parameters = {}, .passes = {}};
  for (const ComponentClass& kind : component_classes())
    if (kind.name == found.class_name)
      for (const ComponentPass& pass : kind.passes) found.passes.emplace_back(pass.name);
  if (has_weights(folder)) found.parameters = Checkpoint::open(folder).parameter_count();
  return found;
}

std::vector<FoundComponent> list_components(const fs::path& folder) {
  const fs::path root = given_folder(folder.string()).value_or(folder);
  std::vector<FoundComponent> found;
  for (const fs::path& each : find_model_folders(root))
    if (is_there(each / "config.json")) found.push_back(look_at_component(each));
  if (found.empty()) static_cast<void>(find_config_folder(root));  // reports what is there instead
  return found;
}

}  // namespace headroom
