#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "base/text/name_filter.hpp"
#include "io/checkpoint.hpp"
#include "run/compile.hpp"
#include "run/memory_need.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"
#include "train/objective.hpp"
#include "train/training_config.hpp"

namespace headroom {

/// What a step of training tells.
struct StepRecord {
  std::int64_t step = 0;  ///< counted from 1
  double loss = 0;
  double norm = 0;  ///< of the gradient, before clipping
  double rate = 0;
  std::optional<double> loss_scale = {};  ///< with loss scaling
  double ms = 0;

  /// Whether the update was skipped because the norm is not finite.
  [[nodiscard]] bool is_skipped() const;
};

/// A training run in memory, compiled and without weights until they are initialized or loaded.
class Trainer {
 public:
  /// Opens the data and compiles the step. The backend must outlive the trainer. Throws Error for data that do not fit
  /// the model.
  Trainer(TrainingConfig config, const SwitchSet& switches, Backend& backend);
  ~Trainer();
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  [[nodiscard]] const TrainingConfig& config() const noexcept { return config_; }
  [[nodiscard]] std::int64_t parameters() const noexcept;
  /// Weights that are not trained.
  [[nodiscard]] std::int64_t frozen_parameters() const noexcept;
  [[nodiscard]] const Objective& objective() const noexcept { return *objective_; }
  /// FLOPs of a step's products: three times those of the forward passes.
  [[nodiscard]] double flops() const noexcept { return flops_; }
  [[nodiscard]] const Compiled& compiled() const noexcept { return compiled_; }
  /// The session and the store of its weights, once there are weights.
  [[nodiscard]] const Session& session() const noexcept { return *session_; }
  [[nodiscard]] const WeightStore& store() const noexcept { return store_; }
  /// The memory of a session, before one exists.
  [[nodiscard]] MemoryNeed need() const;
  /// Throws Error if the run cannot begin: OutOfMemory if it does not fit, or for a weight without a first value.
  void require_start() const;

  /// Sets the first weights: those of the model's folder, and drawn ones for the others.
  void initialize();
  /// Continues from a checkpoint's folder. Throws Error if its run is another one (TrainingConfig::determining()), or
  /// its data.
  void load(const std::filesystem::path& folder);

  /// Steps done so far.
  [[nodiscard]] std::int64_t done() const noexcept { return done_; }
  /// Runs the next step.
  StepRecord step();
  /// The loss of the current weights, or of their running means, over the first batches of the validation data, each
  /// of a step's samples. Nothing if `should_stop`, which is asked before each micro-batch, returns true.
  [[nodiscard]] std::optional<double> validate(const std::function<bool()>& should_stop = {});

  /// Writes a checkpoint, a folder that must not exist and appears whole: `config.json` and the weights, or their
  /// running means, as the library of the model's class reads them, `optimizer.safetensors` and `training.json`.
  void save(const std::filesystem::path& folder) const;

 private:
  void require_memory() const;
  void start();
  void set_weight(const TrainedWeight& weight, const HostTensor& value);
  [[nodiscard]] bool is_trained(const std::string& weight) const;
  [[nodiscard]] const Shape& shape_of(const TrainedWeight& weight) const;
  [[nodiscard]] HostTensor first_weight(const TrainedWeight& weight) const;
  [[nodiscard]] std::string state_of_checkpoint(const std::string& weight) const;
  [[nodiscard]] std::vector<std::string> optimizer_states() const;
  void load_weights(const std::filesystem::path& folder);

  TrainingConfig config_;
  Backend& backend_;
  SwitchSet switches_;
  std::unique_ptr<Objective> objective_;
  std::optional<Checkpoint> start_;
  std::unique_ptr<NameFilter> frozen_;
  StepRecipe recipe_;
  Graph loss_;
  std::vector<TrainedWeight> weights_;
  std::vector<std::string> frozen_weights_;
  double flops_ = 0;
  WeightStore store_;
  Compiled compiled_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Session> validating_;
  std::int64_t done_ = 0;
  std::optional<std::pair<std::int64_t, BatchData>> prepared_;  // data of a step
};

/// The name of the checkpoint after a step: "step-00001000".
[[nodiscard]] std::string checkpoint_name(std::int64_t step);
/// The checkpoints in a folder, by step; empty if there is no such folder.
[[nodiscard]] std::map<std::int64_t, std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);
/// Removes what saves and removals of checkpoints that were cut short left in the folder, which no other run may use.
void remove_unfinished_checkpoints(const std::filesystem::path& folder);

}  // namespace headroom
