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

/// One network from which graphs can be built: its configuration, and its checkpoint or random weights.
struct Component {
  std::string name;
  const ComponentClass* kind = nullptr;
  nlohmann::json config;
  Checkpoint checkpoint;
  std::filesystem::path folder;  ///< the folder of its config.json and other files; empty for a configuration alone
  /// The dtype of its baseline: f32 or bf16. Code that opens it for a device sets it.
  DType baseline = DType::kF32;
  /// The name of its checkpoint in a store that holds a whole pipeline: "vae". Empty if it is alone.
  std::string part = {};
  /// Updates of its params in addition to the checkpoint, by their names in such a store.
  ParamUpdates updates = {};

  /// The number of weight elements, independent of how the checkpoint stores them.
  [[nodiscard]] std::int64_t parameters() const;
  /// The source of a graph's params, for computation in f32. Valid as long as the component.
  [[nodiscard]] ParamSource params() const;
  /// Builds one pass in f32 over inputs of these extents.
  [[nodiscard]] Graph build(const ComponentPass& pass, const InputShapes& given) const;
};

/// Opens one of: a shipped name; a checkpoint folder whose config.json names a registered class; ORG/NAME in the
/// cache of the Hugging Face hub, or a model's folder there (run/hub_cache.hpp); or a name that includes a size
/// (ComponentClass::sized), which has random weights only. With `random_seed`, random weights replace the checkpoint;
/// config.json is still read if there is a folder. Throws Error for an unknown network, a missing checkpoint, and
/// tensors that are missing, unexpected or of a wrong shape.
[[nodiscard]] Component open_component(const std::string& name_or_folder,
                                       std::optional<std::uint64_t> random_seed = std::nullopt);
/// The folder that the argument refers to: itself, that of a shipped model, or a snapshot in the hub's cache. Empty
/// for a configuration without a folder, and for an unknown name.
[[nodiscard]] std::filesystem::path find_model_folder(const std::string& name_or_folder);

/// The dtype of the baseline on a device that keeps the precision of the checkpoint: bf16 if most bytes are bf16,
/// otherwise f32.
[[nodiscard]] DType checkpoint_baseline(const Checkpoint& checkpoint);

/// An entry of `headroom models`.
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
  std::string class_name;                  ///< from its config.json; "?" if that names none
  std::optional<std::int64_t> parameters;  ///< known if the weights are present
  std::vector<std::string> passes;         ///< empty for an unregistered class
};
/// Describes a folder with a config.json. Throws Error if that file or its weights are broken.
[[nodiscard]] FoundComponent look_at_component(const std::filesystem::path& folder);
/// Describes the folder itself and those below it (find_model_folders()), in order. `folder` may also be ORG/NAME in
/// the hub's cache. Throws Error if none has a config.json.
[[nodiscard]] std::vector<FoundComponent> list_components(const std::filesystem::path& folder);

}  // namespace headroom
