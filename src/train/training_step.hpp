#pragma once

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "models/component.hpp"
#include "train/adamw.hpp"

namespace headroom {

/// The sequences of a step.
struct StepSize {
  std::int64_t micro_batches = 1;  ///< whose gradients are added up before the update
  std::int64_t batch = 1;          ///< sequences of a micro-batch
  std::int64_t tokens = 1;         ///< of a sequence that are predicted

  [[nodiscard]] std::int64_t total_tokens() const { return micro_batches * batch * tokens; }
};

/// The input of a step: i32 [micro_batches, batch, tokens + 1].
inline constexpr std::string_view kTokensInput = "tokens";

/// A language model to be trained: a component whose first pass makes `logits` of `input_ids`.
struct LanguageModel {
  const ComponentClass* kind = nullptr;
  const nlohmann::json* config = nullptr;

  /// The graph of its pass in f32, for sequences of this size.
  [[nodiscard]] Graph forward(std::int64_t batch, std::int64_t tokens) const;
};

/// One step of training as a graph: forward and backward passes of each micro-batch, and the update. Weights are states
/// in f32 with the names of the checkpoint's tensors. Outputs are scalars in f32: `loss`, the mean over all tokens of
/// the step; `norm` of the gradient before clipping; and `rate`.
struct TrainingStep {
  Graph graph{"training_step"};
  std::vector<TrainedWeight> weights;
};
/// `decays` says which weights decay.
[[nodiscard]] TrainingStep build_training_step(const LanguageModel& model, const StepSize& size, const AdamW& adamw,
                                               const std::function<bool(const std::string&, const Shape&)>& decays);

/// The loss alone over one micro-batch, with the same states: the output `loss`.
[[nodiscard]] Graph build_loss(const LanguageModel& model, const StepSize& size);

}  // namespace headroom
