#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
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
  /// The folder of its config.json and other files; empty for a configuration alone and for a network of a file.
  std::filesystem::path folder;
  /// The dtype of its baseline: f32 or bf16. Code that opens it for a device sets it.
  DType baseline = DType::kF32;
  /// The name of its checkpoint in a store that holds a whole pipeline: "vae". Empty if it is alone.
  std::string part = {};
  /// Updates of its params in addition to the checkpoint, by their names in such a store.
  ParamUpdates updates = {};

  /// The place of its configuration in messages.
  [[nodiscard]] std::string place() const { return folder.empty() ? checkpoint.description() : folder.string(); }
  /// The number of weight elements, independent of how the checkpoint stores them.
  [[nodiscard]] std::int64_t parameters() const;
  /// The source of a graph's params, for computation in f32. Valid as long as the component.
  [[nodiscard]] ParamSource params() const;
  /// Builds one pass in f32 over inputs of these extents.
  [[nodiscard]] Graph build(const ComponentPass& pass, const InputShapes& given) const;
};

/// How a model is opened, other than by its name.
struct OpenOptions {
  /// Random weights from this seed replace those of all networks; configurations are still read.
  std::optional<std::uint64_t> random_seed = {};
  /// The block format in which matrices of random weights are stored; null: they are bf16.
  const BlockFormat* random_format = nullptr;
  std::string variant = {};  ///< of weights in folders: "fp16"
  /// Paths that replace or complete the parts of a pipeline: {"vae": "sdxl_vae.safetensors"}.
  std::map<std::string, std::string, std::less<>> parts = {};
  /// Values that replace those of configurations: of a network by itself and of a pipeline's denoiser "KEY", of a
  /// pipeline's parts "PART.KEY".
  std::map<std::string, nlohmann::json, std::less<>> config = {};

  /// Those of one part of a pipeline.
  [[nodiscard]] OpenOptions for_part(std::string_view role, bool is_denoiser) const;
};

/// Opens one of: a shipped name; a checkpoint folder whose config.json names a registered class; ORG/NAME in the
/// cache of the Hugging Face hub, or a model's folder there (run/hub_cache.hpp); a file with one network or with a
/// denoiser among others (run/single_file.hpp); or a name that includes a size (ComponentClass::sized), which has
/// random weights only. Throws Error for an unknown network, a missing checkpoint, tensors that are missing, unexpected
/// or of a wrong shape, and for a value of a configuration that its class does not have.
[[nodiscard]] Component open_component(const std::string& name_or_path, const OpenOptions& options = {});
/// The network of a checkpoint. Throws Error likewise.
[[nodiscard]] Component component_of(std::string name, Checkpoint checkpoint, const OpenOptions& options = {});
/// The params that a network reads, as a checkpoint stores them. Throws Error for a configuration that is not one of
/// its class.
[[nodiscard]] std::vector<TensorSpec> expected_params(const ComponentClass& kind, const nlohmann::json& config,
                                                      const ParamSource& params);
/// Throws a usage Error if the options name a variant, which such a `model` does not have.
void refuse_variant(const OpenOptions& options, std::string_view model);
/// Replaces values of a configuration. Throws a usage Error for a key that its class does not read.
void set_config(const ComponentClass& kind, nlohmann::json& config, const OpenOptions& options);

/// The folder that the argument refers to: itself, that of a shipped model, or a snapshot in the hub's cache. Empty
/// for a configuration without a folder, for a file and for an unknown name.
[[nodiscard]] std::filesystem::path find_model_folder(const std::string& name_or_path);

/// The dtype of the baseline on a device that keeps the precision of the checkpoint: bf16 if most elements are
/// floating-point numbers that take at most two bytes in the file, otherwise f32.
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
