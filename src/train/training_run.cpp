#include "train/training_run.hpp"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/file_lock.hpp"
#include "base/files/leftovers.hpp"
#include "train/training_log.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;

constexpr const char* kLog = "log.jsonl";

/// JSON has no number that is not finite.
nlohmann::json number_or_null(double value) { return std::isfinite(value) ? nlohmann::json(value) : nullptr; }

class TrainingRun {
 public:
  TrainingRun(Trainer& trainer, const RunOptions& options)
      : trainer_(trainer), options_(options), memory_bytes_(trainer.need().total()) {}

  RunOutcome run() {
    begin();
    TrainingLog log(options_.out / kLog, trainer_.done());
    const std::int64_t steps = trainer_.config().steps;
    const std::int64_t last = std::min(steps, options_.last_step.value_or(steps));
    outcome_.first_step = trainer_.done();
    while (trainer_.done() < last && !outcome_.was_stopped) {
      step(log);
      outcome_.was_stopped = outcome_.was_stopped || (options_.should_stop && options_.should_stop());
      const std::int64_t done = trainer_.done(), every = trainer_.config().checkpoint_every;
      if (done == last || outcome_.was_stopped || (every > 0 && done % every == 0)) save(log);
    }
    outcome_.last_step = trainer_.done();
    return std::move(outcome_);
  }

 private:
  void begin() {
    make_folder(options_.out);
    lock_.emplace(options_.out / kLog);  // two runs in one folder would replace each other's log and checkpoints
    const std::map<std::int64_t, fs::path> found = list_checkpoints(options_.out);
    if (!found.empty() && !options_.resume)
      fail("{} has checkpoints of a run, the last after step {}: give --resume to continue it, or another --out",
           options_.out.native(), found.rbegin()->first);
    // A run that was killed may have left some, and this one may have nothing to save.
    remove_unfinished_checkpoints(options_.out);
    remove_leftovers(options_.out / kLog);
    remove_oldest();
    if (found.empty()) {
      trainer_.initialize();
      return;
    }
    trainer_.load(found.rbegin()->second);
    outcome_.checkpoint = found.rbegin()->second;
  }

  void step(TrainingLog& log) {
    if (options_.before_step) options_.before_step();
    const StepRecord record = trainer_.step();
    const Objective& objective = trainer_.objective();
    const double units = static_cast<double>(trainer_.config().size.samples() * objective.units_of_sample());
    const double seconds = record.ms / 1e3;
    nlohmann::json line = {{"step", record.step},
                           {"loss", number_or_null(record.loss)},
                           {"norm", number_or_null(record.norm)},
                           {"rate", record.rate},
                           {"ms", record.ms},
                           {fmt::format("{}s_per_s", objective.unit()), units / seconds},
                           {"memory_bytes", memory_bytes_}};
    if (options_.peak_flops > 0) line["mfu"] = trainer_.flops() / seconds / options_.peak_flops;
    if (record.loss_scale) line["loss_scale"] = *record.loss_scale;
    if (record.is_skipped()) line["skipped"] = true;
    log.append(line);
    if (options_.on_step) options_.on_step(record);
    if (is_validation_due()) {
      const std::optional<double> loss = trainer_.validate(options_.should_stop);
      outcome_.was_stopped = !loss;
      if (!loss) return;
      outcome_.validation = loss;
      log.append({{"step", record.step}, {"validation_loss", number_or_null(*outcome_.validation)}});
      if (options_.on_validation) options_.on_validation(record.step, *outcome_.validation);
    }
  }

  [[nodiscard]] bool is_validation_due() const {
    const TrainingConfig& config = trainer_.config();
    return trainer_.objective().has_validation() &&
           (trainer_.done() % config.validation_every == 0 || trainer_.done() == config.steps);
  }

  void save(TrainingLog& log) {
    log.flush();  // a checkpoint's lines are on the disk before it is
    outcome_.checkpoint = options_.out / checkpoint_name(trainer_.done());
    fs::remove_all(outcome_.checkpoint);  // one whose removal was cut short
    trainer_.save(outcome_.checkpoint);
    remove_oldest();
  }

  void remove_oldest() const {
    std::map<std::int64_t, fs::path> found = list_checkpoints(options_.out);
    while (std::ssize(found) > trainer_.config().checkpoint_keep) {
      remove(found.begin()->second);
      found.erase(found.begin());
    }
  }

  /// A folder without training.json is no checkpoint, so one whose removal is cut short is not read.
  static void remove(const fs::path& checkpoint) {
    fs::remove(checkpoint / "training.json");
    fs::remove_all(checkpoint);
  }

  Trainer& trainer_;
  const RunOptions& options_;
  std::size_t memory_bytes_;
  std::optional<FileLock> lock_;
  RunOutcome outcome_;
};

}  // namespace

RunOutcome run_training(Trainer& trainer, const RunOptions& options) { return TrainingRun(trainer, options).run(); }

}  // namespace headroom
