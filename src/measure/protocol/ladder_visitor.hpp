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

/// Visits the rungs of a ladder in this process, one after the other: what all ladders have in common, whatever they
/// are climbed on. Weights that a rung shares with the one before are not loaded again.
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
  /// Measures rung `i` and adds what it took; at the first visit also describes it, unless becomes_another(). Returns
  /// what its stages ran. Throws OutOfMemory where it does not fit.
  virtual std::vector<StageWork> measure(Ladder& ladder, std::size_t i, std::int64_t round) = 0;
  /// The result of a configuration that is only compiled, without id.
  [[nodiscard]] virtual Result describe_unmeasured(const SwitchSet& switches) const = 0;
  /// What is said of the quality of a rung that is the baseline.
  [[nodiscard]] virtual std::vector<QualityRecord> quality_of_baseline() const = 0;

  /// The result of a rung that is compiled, with nothing measured yet; its id and name are the rung's.
  void describe(Rung& rung, Subject subject, const Compiled& compiled, const Checkpoint& checkpoint) const;
  /// Where all that a rung adds declines, it is the rung that has the same switches applied: visited already, as the
  /// first round goes up.
  [[nodiscard]] bool becomes_another(Rung& rung, const Ladder& ladder) const;
  /// Adds the trials of a visit to a series, where there are any.
  void add_trials(Rung& rung, const std::string& what, Trials trials, std::int64_t round) const;
  /// Whether a rung is still to be visited for the first time.
  [[nodiscard]] static bool has_unvisited(const Ladder& ladder);
  [[nodiscard]] static bool is_first_visit(const Rung& rung) { return rung.result.id.empty(); }

  /// Of steps or passes that a visit makes in all.
  void expect_steps(std::int64_t steps) { progress_.steps_total = steps; }
  /// One of them is done.
  void tick();

  Backend& backend_;
  LadderOptions options_;
  LadderObserver observer_;
  WeightStore weights_;  // of the rung being visited; what it shares with the one before stays

 private:
  void visit_baseline(Ladder& ladder, std::int64_t round);
  void visit(Ladder& ladder, std::size_t i, std::int64_t round);

  std::int64_t process_;
  LadderProgress progress_;
  std::int64_t baseline_round_ = -1;  // of its last visit
};

}  // namespace headroom
