#include "run/component.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/json.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

/// Every param of the component's passes, as `params` says they are stored.
std::vector<TensorSpec> expected_params(const ComponentClass& kind, const nlohmann::json& config,
                                        const ParamSource& params) {
  constexpr PassSize kSmall{.batch = 1, .height = 128, .width = 128};
  std::map<std::string, TensorType> types;
  for (const ComponentPass& pass : kind.passes) {
    const Graph graph = pass.build(config, pass.shapes(config, kSmall), params);
    for (const ValueId param : graph.values_of(ValueKind::kParam))
      types.emplace(graph.value(param).name, graph.type(param));
  }
  std::vector<TensorSpec> specs;
  for (const auto& [name, type] : types) specs.push_back({.name = name, .dtype = type.dtype, .shape = type.shape});
  return specs;
}

ParamSource params_of(const Checkpoint& checkpoint) {
  return {
      .dtype = [&](std::string_view name) { return checkpoint.has(name) ? checkpoint.entry(name).dtype : DType::kF32; },
      .compute = DType::kF32,
      .has = [&](std::string_view name) { return checkpoint.has(name); },
      .shape = [&](std::string_view name) { return checkpoint.entry(name).shape; }};
}

Component open_random(std::string name, const ComponentClass& kind, nlohmann::json config, std::uint64_t seed) {
  const ParamSource in_bf16{.dtype = [](std::string_view) { return DType::kBF16; }};
  std::vector<TensorSpec> params = expected_params(kind, config, in_bf16);
  return {.name = std::move(name),
          .kind = &kind,
          .config = config,
          .checkpoint = Checkpoint::random(config, std::move(params), seed)};
}

const ComponentClass* class_of(const fs::path& folder) {
  if (!fs::exists(folder / "config.json")) return nullptr;
  const nlohmann::json config = read_json(folder / "config.json");
  const auto name = config.find("_class_name");
  if (name == config.end()) return nullptr;
  const auto found =
      std::ranges::find_if(component_classes(), [&](const ComponentClass& kind) { return *name == kind.name; });
  return found == component_classes().end() ? nullptr : &*found;
}

}  // namespace

Graph Component::build(const ComponentPass& pass, const InputShapes& given) const {
  return pass.build(config, given, params_of(checkpoint));
}

std::optional<Component> open_component(const std::string& name_or_folder, std::optional<std::uint64_t> random_seed) {
  const fs::path folder(name_or_folder);
  if (fs::is_directory(folder)) {
    const ComponentClass* const kind = class_of(folder);
    if (kind == nullptr) return std::nullopt;
    std::string name = fs::weakly_canonical(folder).filename().string();
    if (random_seed) return open_random(std::move(name), *kind, read_json(folder / "config.json"), *random_seed);
    Checkpoint checkpoint = Checkpoint::open(folder);
    nlohmann::json config = checkpoint.config();
    require_params(checkpoint, expected_params(*kind, config, params_of(checkpoint)));
    return Component{
        .name = std::move(name), .kind = kind, .config = std::move(config), .checkpoint = std::move(checkpoint)};
  }
  for (const ComponentClass& kind : component_classes()) {
    if (kind.shipped_name.empty() || kind.shipped_name != name_or_folder) continue;
    if (!random_seed)
      fail("{} has no checkpoint here: give its folder instead of the name, or --random-weights SEED", name_or_folder);
    return open_random(name_or_folder, kind, kind.shipped_config(), *random_seed);
  }
  return std::nullopt;
}

}  // namespace headroom
