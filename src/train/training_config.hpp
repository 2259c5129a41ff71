#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "train/adamw.hpp"
#include "train/flow_matching.hpp"
#include "train/labelled_images.hpp"
#include "train/loss_scaling.hpp"
#include "train/objective.hpp"
#include "train/training_step.hpp"

namespace headroom {

/// The first values of the weights whose names match.
struct InitialValues {
  std::string names = {};  ///< a regular expression (NameFilter), matched anywhere in the name; empty: all
  double deviation = 0;    ///< normal numbers with this standard deviation around `mean`
  double mean = 0;
  bool per_depth = false;  ///< the deviation is divided by sqrt(2 * the number of blocks)
  /// Instead: uniform between +-sqrt(6 / (inputs + outputs)) of a matrix or a convolution (Glorot and Bengio, 2010).
  bool xavier = false;
};

enum class ObjectiveKind : std::uint8_t { kCausalLm, kFlowMatching, kClassification };

/// The files of a set of data: tokens for language models (io/token_file.hpp), images for the others.
struct DataFiles {
  std::string tokens = {};
  ImageFiles images = {};
  std::int64_t pad = 0;  ///< pixels added on every side of an image, also of validation data
};

/// A training run as CONFIG.json describes it (docs/commands/train.md).
struct TrainingConfig {
  nlohmann::json model;         ///< its config.json
  std::filesystem::path start;  ///< the folder of the weights that it begins with; empty: `initialization`
  std::string frozen;           ///< names of weights of `start` that are not trained (NameFilter); empty: none
  ObjectiveKind objective = ObjectiveKind::kCausalLm;
  FlowOptions flow;
  DataFiles data;
  StepSize size;
  Precision precision = Precision::kF32;
  std::optional<LossScaling> loss_scaling;
  std::int64_t steps = 0;
  std::uint64_t seed = 0;
  AdamW optimizer;
  std::string no_weight_decay;  ///< names of weights that do not decay (NameFilter); empty: those of one axis
  std::vector<InitialValues> initialization;  ///< the first rule that matches a name counts

  DataFiles validation_data;  ///< without names: no validation
  std::int64_t validation_every = 100;
  std::int64_t validation_batches = 8;

  std::int64_t checkpoint_every = 0;  ///< 0: at the end alone
  std::int64_t checkpoint_keep = 2;

  /// What determines the weights after a number of steps, apart from the content of the data: values by their keys,
  /// "optimizer.clip". A run may be resumed only if all are the same.
  [[nodiscard]] nlohmann::json determining() const;
};

/// Throws Error that names the key and the value for unknown keys, missing ones and values out of range. `context`
/// names the file.
[[nodiscard]] TrainingConfig parse_training_config(const nlohmann::json& config, const std::string& context);

/// Sets the value at a path of keys, "optimizer.clip=0.5". The value is JSON, or else a text. Throws a usage Error for
/// another form, and for a path that leads through a value that is no object.
void set_config_value(nlohmann::json& config, std::string_view assignment);

}  // namespace headroom
