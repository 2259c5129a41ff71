#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/tensors/host_tensor.hpp"
#include "ir/builder.hpp"

namespace headroom {

/// Learning rates over the updates of a run: linear warm-up from 0 to `peak` over `warmup` updates, then a decay to
/// `peak * final_share` at the last of `updates`.
struct RateSchedule {
  enum class Kind : std::uint8_t { kConstant, kLinear, kCosine };

  Kind kind = Kind::kCosine;
  double peak = 1e-3;
  double final_share = 0.1;
  std::int64_t warmup = 0;
  std::int64_t updates = 0;

  /// The rate of update `update`, counted from 0.
  [[nodiscard]] double rate(std::int64_t update) const;
};

/// Loshchilov and Hutter, "Decoupled weight decay regularization" (2019), algorithm 2.
struct AdamW {
  std::array<double, 2> betas{0.9, 0.999};
  double epsilon = 1e-8;
  double weight_decay = 0.01;
  double clip = 0;  ///< the largest global norm of a gradient; 0: not clipped
  /// Decay d of the running means of the weights; 0: none. Update n, counted from 1, adds the share
  /// 1 - min(d, (1 + n) / (10 + n)) of what the weight differs by, so that the mean follows closely at first.
  double average = 0;
  RateSchedule schedule = {};
};

/// A weight that is trained: a state in f32 of that name, with two moments as states. Where products read it in 16
/// bits, a copy in 16 bits is a state too, which the update writes.
struct TrainedWeight {
  std::string name = {};
  ValueId value = kNoValue;
  bool decays = true;
  ValueId copy = kNoValue;  ///< if there is one
};
/// The names of a weight's moments, as PyTorch's AdamW calls them, of its running mean, and of its copy in 16 bits.
[[nodiscard]] std::string first_moment_name(const std::string& weight);
[[nodiscard]] std::string second_moment_name(const std::string& weight);
[[nodiscard]] std::string average_name(const std::string& weight);
[[nodiscard]] std::string copy_name(const std::string& weight);
/// The state that counts updates, an i32 scalar.
inline constexpr std::string_view kUpdatesState = "updates";
/// The input of rate_table().
inline constexpr std::string_view kRatesInput = "rates";

/// f32 [updates, 4]: for each update the learning rate, the corrections of the biases of both moments,
/// 1 / (1 - beta1^n) and 1 / sqrt(1 - beta2^n), and the share of AdamW::average, computed in double precision.
[[nodiscard]] HostTensor rate_table(const AdamW& adamw);

struct Updated {
  ValueId norm = kNoValue;  ///< of all gradients before clipping, f32
  ValueId rate = kNoValue;  ///< the learning rate, f32
  ValueId runs = kNoValue;  ///< whether the norm is finite, bool
};
/// Appends the update of all weights by their gradients, in the order of `weights`: one fused op each. Gradients are
/// those of the loss times `loss_scale`, an f32 scalar, if there is one. They are divided by it, and multiplied by
/// min(1, clip / (norm + 1e-6)). If the norm is not finite, weights, moments, means and the count of updates keep their
/// values, so that neither the learning rate nor the corrections advance. Copies are those of the new weights.
Updated append_adamw(Builder& builder, const AdamW& adamw, const std::vector<TrainedWeight>& weights,
                     const std::vector<ValueId>& gradients, ValueId loss_scale = kNoValue);

}  // namespace headroom
