#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "io/checkpoint.hpp"
#include "models/component.hpp"

namespace headroom {

/// One network of a checkpoint folder, ready to build graphs from.
struct Component {
  std::string name;
  const ComponentClass* kind = nullptr;
  nlohmann::json config;
  Checkpoint checkpoint;
  /// What its baseline computes in: f32 or bf16. Whoever opens it for a device chooses.
  DType baseline = DType::kF32;

  /// One pass over inputs of these extents, computing in f32.
  [[nodiscard]] Graph build(const ComponentPass& pass, const InputShapes& given) const;
};

/// Opens a folder whose config.json names a class of the registry, or, with a seed for random weights, a configuration that ships.
/// Nothing where it is neither: FLUX's transformer, say. Throws Error where its tensors are not those of its class.
[[nodiscard]] std::optional<Component> open_component(const std::string& name_or_folder,
                                                      std::optional<std::uint64_t> random_seed = std::nullopt);

}  // namespace headroom
