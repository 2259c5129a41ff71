#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "base/switches.hpp"
#include "io/token_file.hpp"
#include "run/compile.hpp"
#include "run/memory_need.hpp"
#include "run/session/session.hpp"
#include "run/weights/weight_store.hpp"
#include "train/token_sequences.hpp"
#include "train/training_config.hpp"

namespace headroom {

/// What a step of training tells.
struct StepRecord {
  std::int64_t step = 0;  ///< counted from 1
  double loss = 0;
  double norm = 0;  ///< of the gradient, before clipping
  double rate = 0;
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
  [[nodiscard]] std::int64_t sequences_per_epoch() const noexcept { return sequences_->per_epoch(); }
  [[nodiscard]] const Compiled& compiled() const noexcept { return compiled_; }
  /// The memory of a session, before one exists.
  [[nodiscard]] MemoryNeed need() const;

  /// Draws the weights.
  void initialize();
  /// Continues from a checkpoint's folder. Throws Error if its run is another one (TrainingConfig::determining()), or
  /// its data.
  void load(const std::filesystem::path& folder);

  /// Steps done so far.
  [[nodiscard]] std::int64_t done() const noexcept { return done_; }
  /// Runs the next step.
  StepRecord step();
  /// The loss of the current weights over the first sequences of the validation data.
  [[nodiscard]] double validate();

  /// Writes a checkpoint, a folder that must not exist and appears whole: `config.json` and `model.safetensors` as
  /// transformers reads them, `optimizer.safetensors` and `training.json`.
  void save(const std::filesystem::path& folder) const;

 private:
  void start();
  [[nodiscard]] nlohmann::json data_identity() const;
  void require_ids(const TokenFile& file) const;

  TrainingConfig config_;
  Backend& backend_;
  SwitchSet switches_;
  LanguageModel model_;
  TokenFile data_;
  std::optional<TokenFile> validation_data_;
  std::optional<TokenSequences> sequences_, validation_;
  std::vector<TrainedWeight> weights_;
  std::int64_t blocks_ = 0;
  WeightStore store_;
  Compiled compiled_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Session> validating_;
  std::int64_t done_ = 0;
};

/// The name of the checkpoint after a step: "step-00001000".
[[nodiscard]] std::string checkpoint_name(std::int64_t step);
/// The checkpoints in a folder, by step; empty if there is no such folder.
[[nodiscard]] std::map<std::int64_t, std::filesystem::path> list_checkpoints(const std::filesystem::path& folder);

}  // namespace headroom
