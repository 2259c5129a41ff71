#pragma once

#include <memory>
#include <span>
#include <string>

#include "models/flux.hpp"
#include "pipelines/flow_match.hpp"
#include "pipelines/pipeline.hpp"

namespace headroom {

/// FLUX's transformer (Black Forest Labs, 2024) under Euler's method, on random prompts: it makes latents, and has no
/// decoder yet. scheduler_config.json and generation_config.json (num_inference_steps, guidance_scale) are read where
/// they lie beside its config.json.
class FluxPipeline : public Pipeline {
 public:
  explicit FluxPipeline(Component transformer);

  [[nodiscard]] std::int64_t token_pixels() const override { return kFluxTokenPixels; }
  [[nodiscard]] std::string obstacle_to_images() const override;
  [[nodiscard]] Request resolve(const RequestOptions& options) const override;
  [[nodiscard]] ForwardPass forward_pass(const Request& request) const override;
  [[nodiscard]] Graph build_denoise(const Request& request) const override;
  void set_request_inputs(Session& denoise, const Request& request) const override;
  void set_image_inputs(Session& denoise, const Request& request, std::span<const ImageRequest> images) const override;

 protected:
  [[nodiscard]] const FluxConfig& config() const noexcept { return config_; }
  /// What a request has where the options leave it open.
  [[nodiscard]] virtual Request default_request() const;
  /// Whether guidance takes an unguided pass as well.
  [[nodiscard]] virtual bool has_empty_prompt() const { return false; }
  /// Fills one sample of `encoder_hidden_states` or `pooled_projections` with the prompt of a label, or the empty one.
  virtual void fill_prompt(std::span<float> row, bool is_pooled, std::int64_t label, bool is_empty) const;
  /// Throws a usage Error where the label is none.
  virtual void require_label(std::int64_t /*label*/) const {}

 private:
  [[nodiscard]] HostTensor prompt_rows(bool is_pooled, const Request& request,
                                       std::span<const ImageRequest> images) const;
  [[nodiscard]] HostTensor noise(const Request& request, std::span<const ImageRequest> images) const;
  void fill_prompts(HostTensor& tensor, bool is_pooled) const;
  void fill_forward_inputs(Session& session, std::int64_t token_columns) const;

  FluxConfig config_;
  FlowMatchSchedule schedule_;
  std::int64_t default_steps_ = 28;
  double guidance_scale_ = 3.5;
};

/// A FluxPipeline, or FashionFlux (pipelines/fashion_flux.hpp) where prompts ship beside the transformer.
[[nodiscard]] std::unique_ptr<Pipeline> make_flux_pipeline(Component transformer);

}  // namespace headroom
