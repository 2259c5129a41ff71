#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "train/epoch_order.hpp"
#include "train/labelled_images.hpp"
#include "train/objective.hpp"

namespace headroom {

/// How images become tokens, and at which levels of noise they are learned.
struct FlowOptions {
  std::int64_t patch = 2;         ///< side of a token in pixels
  std::int64_t text_tokens = 16;  ///< of a prompt
  double no_prompt = 0.1;         ///< share of images whose prompt is that of no class
  double uniform = 0.2;           ///< share of levels that are uniform; the others are logit-normal
  double shift = 0.5;             ///< mu of FLUX's exponential shift of the levels; 0: none

  friend bool operator==(const FlowOptions&, const FlowOptions&) = default;
};

/// The level of noise of sample `number` of a run, in (0, 1): a uniform number or the sigmoid of a normal one (Esser
/// and others, "Scaling rectified flow transformers", 2024, section 3.1), then shifted as FLUX's sampler does.
[[nodiscard]] double noise_level(const FlowOptions& options, std::uint64_t seed, std::int64_t number);

struct FlowShape {
  std::int64_t batch = 1;
  std::int64_t rows = 1, columns = 1;
  std::int64_t text_tokens = 1;
  std::int64_t classes = 1;
};
/// The loss of flow matching (Lipman and others, 2023): the mean squared error of the velocity noise - x0 at
/// x = (1 - sigma) x0 + sigma noise, divided by `micro_batches`. The tokens are `rows` x `columns`. Inputs:
/// - `images`, u8 [batch, tokens, channels], of which x0 = images / 127.5 - 1
/// - `prompts`, i32 [batch], rows of the tables
/// - `sigmas`, f32 [batch], and `noise`, f32 [batch, tokens, channels]
/// The tables are the weights `prompts.encoder_hidden_states` [classes + 1, text_tokens, width] and
/// `prompts.pooled_projections` [classes + 1, width]; their last row is that of no class.
[[nodiscard]] Graph flow_matching_loss(const nlohmann::json& model, const FlowShape& shape, const ParamSource& params,
                                       std::int64_t micro_batches);

struct TrainingConfig;

/// Transformers of the class FluxTransformer2DModel, on images of classes.
class FlowMatching final : public Objective {
 public:
  explicit FlowMatching(const TrainingConfig& config);

  [[nodiscard]] Graph loss(const ParamSource& params, std::int64_t micro_batches) const override;
  [[nodiscard]] BatchData data(std::int64_t step) const override;
  [[nodiscard]] bool has_validation() const override { return validation_.has_value(); }
  /// Levels are spread evenly, and no prompt is left out.
  [[nodiscard]] BatchData validation(std::int64_t index) const override;
  [[nodiscard]] std::int64_t samples_per_epoch() const override { return order_.count(); }
  [[nodiscard]] std::string_view unit() const override { return "image"; }
  [[nodiscard]] std::int64_t units_of_sample() const override { return 1; }
  [[nodiscard]] nlohmann::json data_identity() const override;
  [[nodiscard]] nlohmann::json checkpoint_config() const override { return config_; }
  [[nodiscard]] std::vector<WeightsFile> files() const override {
    return {{"prompts.safetensors", "prompts."}, {"diffusion_pytorch_model.safetensors", ""}};
  }

 private:
  struct Sample {
    std::int64_t image = 0;
    std::int64_t prompt = 0;
    double sigma = 0;
  };
  [[nodiscard]] BatchData batch_of(const LabelledImages& images, std::int64_t micro_batches,
                                   const std::vector<Sample>& samples, std::string_view stream) const;

  nlohmann::json config_;
  StepSize size_;
  FlowOptions options_;
  std::uint64_t seed_;
  LabelledImages images_;
  std::optional<LabelledImages> validation_;
  EpochOrder order_;
};

}  // namespace headroom
