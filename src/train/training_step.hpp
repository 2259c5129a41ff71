#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/target.hpp"
#include "ir/graph.hpp"
#include "train/adamw.hpp"
#include "train/loss_scaling.hpp"

namespace headroom {

/// The dtype of a loss's products, and of what lies between them. Weights, their gradients' sums, moments and the loss
/// are f32 in any case.
enum class Precision : std::uint8_t { kF32, kBF16, kF16 };
/// Prepares the graph of a loss in f32 for its derivatives: attention becomes one op, which gives the logarithms of its
/// sums too where the target has a kernel of its gradient, and `precision` is applied by the pass of that name. Throws
/// Error if the target cannot compute in it.
void prepare_loss(Graph& loss, Precision precision, const Target& target);

/// How a step is made of a loss.
struct StepRecipe {
  std::int64_t micro_batches = 1;
  AdamW adamw = {};
  std::optional<LossScaling> loss_scaling = std::nullopt;
  /// Whether a weight is trained; if unset, all are. The others stay params.
  std::function<bool(const std::string& name)> is_trained = {};
  /// Whether a weight decays; if unset, all do.
  std::function<bool(const std::string& name, const Shape& shape)> decays = {};
};

/// One step of training as a graph: forward and backward passes of each micro-batch, and the update. Weights are states
/// in f32 with the names of the checkpoint's tensors; where the loss casts one to 16 bits, the step reads its copy, a
/// state that must hold the weight rounded at the first step. Inputs are those of the loss, each with a leading axis of
/// micro-batches. Outputs are scalars in f32: `loss`, the sum over all micro-batches; `norm` of the gradient before
/// clipping; `rate`; and with loss scaling `loss_scale`, the one that the step used.
struct TrainingStep {
  Graph graph{"training_step"};
  std::vector<TrainedWeight> weights;
};
/// `loss` is a straight line over params, with a scalar `loss` in f32 as its output.
[[nodiscard]] TrainingStep build_training_step(const Graph& loss, const StepRecipe& recipe);

/// The loss alone of one micro-batch, with the same states, and inputs with a leading axis of 1.
[[nodiscard]] Graph build_validation(const Graph& loss, const StepRecipe& recipe);

}  // namespace headroom
