#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "io/token_file.hpp"
#include "train/objective.hpp"
#include "train/token_sequences.hpp"

namespace headroom {

struct TrainingConfig;

/// Language models: the cross-entropy of each next token. The loss has the input `tokens`, i32 [batch, tokens + 1].
class CausalLm final : public Objective {
 public:
  /// Throws Error if the model's first pass does not make logits of ids, and for ids that it does not know.
  explicit CausalLm(const TrainingConfig& config);

  [[nodiscard]] Graph loss(const ParamSource& params, std::int64_t micro_batches) const override;
  [[nodiscard]] BatchData data(std::int64_t step) const override;
  [[nodiscard]] bool has_validation() const override { return validation_.has_value(); }
  [[nodiscard]] BatchData validation(std::int64_t index) const override;
  [[nodiscard]] std::int64_t samples_per_epoch() const override { return sequences_->per_epoch(); }
  [[nodiscard]] std::string_view unit() const override { return "token"; }
  [[nodiscard]] std::int64_t units_of_sample() const override { return size_.tokens; }
  [[nodiscard]] nlohmann::json data_identity() const override;
  /// Names the token that begins every document, for transformers, if the model's configuration does not.
  [[nodiscard]] nlohmann::json checkpoint_config() const override;
  [[nodiscard]] std::vector<WeightsFile> files() const override { return {{"model.safetensors", ""}}; }

 private:
  void require_ids(const TokenFile& file) const;

  nlohmann::json model_;
  StepSize size_;
  TokenFile data_;
  std::optional<TokenFile> validation_data_;
  std::optional<TokenSequences> sequences_, validation_;
};

/// The loss alone: its graph as loss() makes it.
[[nodiscard]] Graph causal_lm_loss(const nlohmann::json& model, const StepSize& size, const ParamSource& params);

}  // namespace headroom
