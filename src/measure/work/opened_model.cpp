#include "measure/work/opened_model.hpp"

#include <utility>

namespace headroom {

OpenedModel open_model(const std::string& name_or_path, const OpenOptions& options, bool must_be_pipeline,
                       const std::function<DType(const Checkpoint&)>& baseline) {
  OpenedModel opened;
  if (must_be_pipeline || is_pipeline(name_or_path, options)) {
    opened.pipeline = open_pipeline(name_or_path, options);
  } else if (Component network = open_component(name_or_path, options); is_denoiser(network)) {
    opened.pipeline = make_pipeline(std::move(network));
  } else {
    network.baseline = baseline(network.checkpoint);
    opened.component = std::make_unique<Component>(std::move(network));
  }
  if (opened.pipeline) opened.pipeline->choose_baselines(baseline);
  return opened;
}

}  // namespace headroom
