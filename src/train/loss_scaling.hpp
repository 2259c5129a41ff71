#pragma once

#include <cstdint>
#include <string_view>

#include "ir/builder.hpp"

namespace headroom {

/// Scaling of the loss, so that gradients in f16 do not vanish (Micikevicius and others, "Mixed precision training",
/// 2018): the loss is multiplied by a scale, and gradients are divided by it where they are f32. The scale is doubled
/// after so many good steps in a row, and halved after a gradient that is not finite, whose update is skipped. All of
/// it is decided on the device.
struct LossScaling {
  double initial = 65536;
  std::int64_t interval = 2000;  ///< good steps in a row, after which the scale is doubled
  double least = 1;
  double most = 16777216;
  std::int64_t patience = 1;  ///< bad steps in a row, after which the scale is halved

  friend bool operator==(const LossScaling&, const LossScaling&) = default;
};

/// The states, scalars: the scale in f32, and in i32 the good and the bad steps in a row since it changed.
inline constexpr std::string_view kLossScaleState = "loss_scale";
inline constexpr std::string_view kGoodStepsState = "loss_scale.good_steps";
inline constexpr std::string_view kBadStepsState = "loss_scale.bad_steps";

/// Adds the state of the scale, to be read before the update.
ValueId add_loss_scale(Graph& graph);
/// Appends the next values of the states. `is_good`, a bool scalar, says whether the step's gradients were finite.
void append_loss_scaling(Builder& builder, const LossScaling& scaling, ValueId scale, ValueId is_good);

}  // namespace headroom
