#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>

#include "pipelines/pipeline.hpp"
#include "run/component.hpp"

namespace headroom {

/// A model that was opened to be measured: a pipeline, or a network that makes no images by itself.
struct OpenedModel {
  std::unique_ptr<Pipeline> pipeline;    ///< if the network is a denoiser
  std::unique_ptr<Component> component;  ///< if it is not

  [[nodiscard]] const Component& network() const { return pipeline ? pipeline->denoiser() : *component; }
  [[nodiscard]] std::span<const Component> components() const {
    return pipeline ? pipeline->components() : std::span<const Component>(component.get(), 1);
  }
};

/// Opens whatever open_component() or open_pipeline() opens. `baseline` chooses the dtype of each network's baseline.
/// With `must_be_pipeline`, throws a usage Error if the network is no denoiser.
[[nodiscard]] OpenedModel open_model(const std::string& name_or_path, const OpenOptions& options, bool must_be_pipeline,
                                     const std::function<DType(const Checkpoint&)>& baseline);

}  // namespace headroom
