#pragma once

#include <memory>
#include <string>
#include <vector>

#include "pipelines/flux_pipeline.hpp"
#include "pipelines/pixel_format.hpp"

namespace headroom {

/// FLUX on pixels, with the prompts that it was trained on. Beside the transformer's config.json lie
/// - prompts.safetensors: `encoder_hidden_states` [labels + 1, text_tokens, joint_attention_dim] and
///   `pooled_projections` [labels + 1, pooled_projection_dim], the empty prompt last;
/// - labels.json: the labels' names, in that order;
/// - generation_config.json: `pixel_format`, how pixels are cut into tokens;
/// - classifier/, where its images can be judged: see ClassifierJudge.
class FashionFlux final : public FluxPipeline {
 public:
  /// Whether prompts lie beside the transformer.
  [[nodiscard]] static bool ships_with(const Component& transformer);
  /// Throws Error where a file is missing, or does not fit the transformer.
  explicit FashionFlux(Component transformer);

  [[nodiscard]] std::int64_t token_pixels() const override { return pixels_.patch; }
  [[nodiscard]] std::span<const std::string> labels() const override { return labels_; }
  [[nodiscard]] std::string obstacle_to_images() const override { return {}; }
  [[nodiscard]] Request resolve(const RequestOptions& options) const override;
  [[nodiscard]] HostTensor decode(const HostTensor& latents, const Request& request) const override;
  [[nodiscard]] std::unique_ptr<ClassifierJudge> open_judge(Backend& cpu) const override;

 protected:
  [[nodiscard]] Request default_request() const override;
  [[nodiscard]] bool has_empty_prompt() const override { return true; }
  void fill_prompt(std::span<float> row, bool is_pooled, std::int64_t label, bool is_empty) const override;
  void require_label(std::int64_t label) const override;

 private:
  void read_prompts();

  PixelFormat pixels_;
  std::vector<std::string> labels_;
  HostTensor text_;    // f32, encoder_hidden_states of all prompts
  HostTensor pooled_;  // f32, pooled_projections of all prompts
};

}  // namespace headroom
