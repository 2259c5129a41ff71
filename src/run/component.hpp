#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "io/checkpoint.hpp"
#include "models/component.hpp"
#include "run/weights/param_update.hpp"

namespace headroom {

/// One network, ready to build graphs from: its configuration, and its checkpoint or random weights.
struct Component {
  std::string name;
  const ComponentClass* kind = nullptr;
  nlohmann::json config;
  Checkpoint checkpoint;
  std::filesystem::path folder;  ///< of its config.json, with what ships beside it; empty for a configuration alone
  /// What its baseline computes in: f32 or bf16. Whoever opens it for a device chooses.
  DType baseline = DType::kF32;
  /// What its checkpoint is called in a store that holds those of a whole pipeline: "vae". Empty where it is alone.
  std::string part = {};
  /// What its params are beside what the checkpoint says, by their names in such a store.
  ParamUpdates updates = {};

  /// The numbers that its weights are, in whatever form the checkpoint has them.
  [[nodiscard]] std::int64_t parameters() const;
  /// Where a graph's params come from, computing in f32. Valid while the component is.
  [[nodiscard]] ParamSource params() const;
  /// One pass over inputs of these extents, computing in f32.
  [[nodiscard]] Graph build(const ComponentPass& pass, const InputShapes& given) const;
};

/// Opens a shipped name, a checkpoint folder whose config.json names a class of the registry, ORG/NAME in the cache of the Hugging Face
/// hub or a model's folder there (run/hub_cache.hpp), or a name that states a size (ComponentClass::sized), which has random weights only. With `random_seed`, random weights stand in for the checkpoint (config.json is still read where there is a
/// folder). Throws Error where the network is unknown, its checkpoint is missing, or tensors are missing, unexpected or wrongly shaped.
[[nodiscard]] Component open_component(const std::string& name_or_folder,
                                       std::optional<std::uint64_t> random_seed = std::nullopt);
/// The folder that is meant: one that is given, that of a model that ships, or a snapshot in the hub's cache; empty for a configuration
/// without one, and for a name that nothing has.
[[nodiscard]] std::filesystem::path find_model_folder(const std::string& name_or_folder);

/// What the baseline on a GPU computes in: bf16 where most of the checkpoint's bytes are, else f32.
[[nodiscard]] DType checkpoint_baseline(const Checkpoint& checkpoint);

/// What `headroom models` lists.
struct ShippedModel {
  std::string name;
  std::string description;
  std::filesystem::path folder;  ///< empty for a configuration without a checkpoint
  std::int64_t parameters = 0;
};
[[nodiscard]] std::vector<ShippedModel> list_shipped_models();

/// A folder with a config.json.
struct FoundComponent {
  std::filesystem::path folder;
  std::string class_name;                  ///< as its config.json states it; "?" where it does not
  std::optional<std::int64_t> parameters;  ///< where its weights are there
  std::vector<std::string> passes;         ///< none where the class is not in the registry
};
/// Of a folder with a config.json. Throws Error where that or its weights are broken.
[[nodiscard]] FoundComponent look_at_component(const std::filesystem::path& folder);
/// The folder itself and those below it (find_model_folders()), in order. `folder` may also be ORG/NAME in the hub's cache. Throws
/// Error where none has a config.json.
[[nodiscard]] std::vector<FoundComponent> list_components(const std::filesystem::path& folder);

}  // namespace headroom
