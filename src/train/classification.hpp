#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "models/classifier.hpp"
#include "train/epoch_order.hpp"
#include "train/labelled_images.hpp"
#include "train/objective.hpp"

namespace headroom {

struct TrainingConfig;

/// Classifiers of images (models/classifier.hpp): the cross-entropy of an image's class. The loss has the inputs
/// `images`, u8 [batch, channels, height, width], which are mapped to [-1, 1], and `classes`, i32 [batch, 1].
class Classification final : public Objective {
 public:
  explicit Classification(const TrainingConfig& config);

  [[nodiscard]] Graph loss(const ParamSource& params, std::int64_t micro_batches) const override;
  [[nodiscard]] BatchData data(std::int64_t step) const override;
  [[nodiscard]] bool has_validation() const override { return validation_.has_value(); }
  [[nodiscard]] BatchData validation(std::int64_t index) const override;
  [[nodiscard]] std::int64_t samples_per_epoch() const override { return order_.count(); }
  [[nodiscard]] std::string_view unit() const override { return "image"; }
  [[nodiscard]] std::int64_t units_of_sample() const override { return 1; }
  [[nodiscard]] nlohmann::json data_identity() const override;
  [[nodiscard]] nlohmann::json checkpoint_config() const override { return config_; }
  [[nodiscard]] std::vector<WeightsFile> files() const override { return {{"model.safetensors", ""}}; }

 private:
  void require_fit(const LabelledImages& images, const ImageFiles& files) const;
  [[nodiscard]] BatchData batch_of(const LabelledImages& images, std::int64_t micro_batches,
                                   const std::vector<std::int64_t>& samples) const;

  nlohmann::json config_;
  ClassifierConfig model_;
  StepSize size_;
  LabelledImages images_;
  std::optional<LabelledImages> validation_;
  EpochOrder order_;
};

}  // namespace headroom
