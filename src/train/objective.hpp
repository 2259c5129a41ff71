#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "base/tensors/random.hpp"
#include "ir/interpreter.hpp"
#include "models/params.hpp"

namespace headroom {

/// The samples of a step: sequences of tokens, or images.
struct StepSize {
  std::int64_t micro_batches = 1;  ///< whose gradients are added up before the update
  std::int64_t batch = 1;          ///< samples of a micro-batch
  std::int64_t tokens = 1;         ///< of a sequence that are predicted

  [[nodiscard]] std::int64_t samples() const { return micro_batches * batch; }
};

/// Values of a loss's inputs for one or more micro-batches: tensors [micro-batches, ...] by the inputs' names.
struct BatchData {
  NamedTensors tensors = {};
  /// Inputs of normal numbers, which the device draws.
  std::map<std::string, NormalStream> normals = {};
};

/// A file of weights in a checkpoint's folder: those whose names begin with `prefix`, without it.
struct WeightsFile {
  std::string_view name;
  std::string_view prefix;

  friend bool operator==(const WeightsFile&, const WeightsFile&) = default;
};

/// What a run learns: the loss of a micro-batch as a graph, and the data.
class Objective {
 public:
  virtual ~Objective() = default;

  /// The loss of one micro-batch in f32. Params are the weights, under the names of the checkpoint. The output `loss`
  /// is a sum over the samples divided by their number in `micro_batches` micro-batches.
  [[nodiscard]] virtual Graph loss(const ParamSource& params, std::int64_t micro_batches) const = 0;

  /// The data of step `step`, from 0: a function of the seed and the step alone.
  [[nodiscard]] virtual BatchData data(std::int64_t step) const = 0;
  [[nodiscard]] virtual bool has_validation() const = 0;
  /// Micro-batch `index` of the validation data, in the order of the file, with a leading axis of 1.
  [[nodiscard]] virtual BatchData validation(std::int64_t index) const = 0;

  [[nodiscard]] virtual std::int64_t samples_per_epoch() const = 0;
  /// The unit of speed, "token", and how many of them a sample has.
  [[nodiscard]] virtual std::string_view unit() const = 0;
  [[nodiscard]] virtual std::int64_t units_of_sample() const = 0;
  /// The data as a checkpoint knows them.
  [[nodiscard]] virtual nlohmann::json data_identity() const = 0;
  /// The config.json of a checkpoint.
  [[nodiscard]] virtual nlohmann::json checkpoint_config() const = 0;
  /// The files of a checkpoint. A weight is in the first one whose prefix it has.
  [[nodiscard]] virtual std::vector<WeightsFile> files() const = 0;
};

struct TrainingConfig;
/// Opens the data. Throws Error for data that do not fit the model, and for a model that has no such objective.
[[nodiscard]] std::unique_ptr<Objective> make_objective(const TrainingConfig& config);

/// Appends a network's pass with `inputs` by their names; its params are declared under the same names, and its blocks
/// too. Returns its outputs in order.
[[nodiscard]] std::vector<ValueId> append_network(Builder& builder, const Graph& network,
                                                  const std::map<std::string_view, ValueId>& inputs);

}  // namespace headroom
