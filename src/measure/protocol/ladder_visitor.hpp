#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "measure/protocol/ladder.hpp"
#include "measure/protocol/stages.hpp"
#include "run/weights/weight_store.hpp"

namespace headroom {

/// Visits the rungs of a ladder in this process, one after another: the common part of all ladders, for requests and
/// passes. Weights shared with the previous rung are not loaded again.
class RungVisitor {
 public:
  RungVisitor(Backend& backend, std::span<const Component> components, const LadderOptions& options,
              std::int64_t process, LadderObserver observer);
  virtual ~RungVisitor() = default;
  RungVisitor(const RungVisitor&) = delete;
  RungVisitor& operator=(const RungVisitor&) = delete;

  /// See RoundRun.
  void run_round(Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs);

 protected:
  /// Measures rung `i` and adds the results; at the first visit it also describes the rung, unless becomes_another().
  /// Returns the work of its stages. Throws OutOfMemory if it does not fit.
  virtual std::vector<StageWork> measure(Ladder& ladder, std::size_t i, std::int64_t round) = 0;
  /// The result of a configuration that is only compiled, without id.
  [[nodiscard]] virtual Result describe_unmeasured(const SwitchSet& switches) const = 0;
  /// The quality records of a rung that is the baseline.
  [[nodiscard]] virtual std::vector<QualityRecord> quality_of_baseline() const = 0;

  /// Creates the result of a compiled rung, with nothing measured yet; its id and name are the rung's.
  void describe(Rung& rung, Subject subject, const Compiled& compiled, const Checkpoint& checkpoint) const;
  /// If all switches that a rung adds decline, it equals the rung with the same applied switches, which has been
  /// visited already because the first round goes up.
  [[nodiscard]] bool becomes_another(Rung& rung, const Ladder& ladder) const;
  /// Adds the trials of a visit to a series, if there are any.
  void add_trials(Rung& rung, const std::string& what, Trials trials, std::int64_t round) const;
  /// Whether any rung still awaits its first visit.
  [[nodiscard]] static bool has_unvisited(const Ladder& ladder);
  [[nodiscard]] static bool is_first_visit(const Rung& rung) { return rung.result.id.empty(); }

  /// Sets the total number of steps or passes of a visit.
  void expect_steps(std::int64_t steps) { progress_.steps_total = steps; }
  /// Counts one of them as done.
  void tick();

  Backend& backend_;
  LadderOptions options_;
  LadderObserver observer_;
  WeightStore weights_;  // of the current rung; those shared with the previous rung stay

 private:
  /// `of_round` is the round that is being measured, which the visit after it belongs to as well.
  void visit_baseline(Ladder& ladder, std::int64_t round, std::int64_t of_round);
  void visit(Ladder& ladder, std::size_t i, std::int64_t round, std::int64_t of_round);

  std::int64_t process_;
  LadderProgress progress_;
  std::int64_t baseline_round_ = -1;  // of its last visit
};

}  // namespace headroom
