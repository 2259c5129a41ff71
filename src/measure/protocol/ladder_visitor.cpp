#include "measure/protocol/ladder_visitor.hpp"

#include <algorithm>
#include <utility>

#include "base/out_of_memory.hpp"
#include "measure/results/describe.hpp"

namespace headroom {

RungVisitor::RungVisitor(Backend& backend, std::span<const Component> components, const LadderOptions& options,
                         std::int64_t process, LadderObserver observer)
    : backend_(backend),
      options_(options),
      observer_(std::move(observer)),
      weights_(backend, components),
      process_(process) {}

void RungVisitor::run_round(Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs) {
  visit_baseline(ladder, round, round);
  for (const std::size_t i : rungs) visit(ladder, i, round, round);
  visit_baseline(ladder, round + 1, round);
}

/// Runs once per round and process.
void RungVisitor::visit_baseline(Ladder& ladder, std::int64_t round, std::int64_t of_round) {
  if (std::exchange(baseline_round_, round) != round) visit(ladder, 0, round, of_round);
}

void RungVisitor::visit(Ladder& ladder, std::size_t i, std::int64_t round, std::int64_t of_round) {
  Rung& rung = ladder.rungs[i];
  progress_ = {.rung = rung.name,
               .round = of_round,
               .rung_number = static_cast<std::int64_t>(i) + 1,
               .rungs = std::ssize(ladder.rungs)};
  const bool is_first = is_first_visit(rung);
  std::vector<StageWork> work;
  try {
    work = measure(ladder, i, round);
  } catch (const OutOfMemory& error) {
    if (i == 0 || !is_first) throw;  // without the baseline nothing can be compared; other rungs did fit before
    rung.result = describe_unmeasured(rung.switches);
    rung.result.id = rung.result.name = rung.name;
    rung.result.tags.emplace_back(kOutOfMemoryTag);
    rung.result.unsettled = error.what();
  }
  if (is_first && options_.floors) add_floors(rung.result.stages, work, backend_);
  if (observer_.on_visited) observer_.on_visited();
}

void RungVisitor::describe(Rung& rung, Subject subject, const Compiled& compiled, const Checkpoint& checkpoint) const {
  rung.result = begin_result(rung.switches, std::move(subject), compiled, checkpoint, backend_);
  rung.result.id = rung.result.name = rung.name;
}

bool RungVisitor::becomes_another(Rung& rung, const Ladder& ladder) const {
  if (rung.switches.empty()) return false;
  for (const Rung& other : ladder.rungs) {
    if (&other == &rung || is_first_visit(other) || other.result.same_as ||
        other.result.configuration.applied != rung.result.configuration.applied)
      continue;
    rung.result.same_as = other.name;
    if (other.switches.empty()) rung.result.quality = quality_of_baseline();
    return true;
  }
  return false;
}

void RungVisitor::add_trials(Rung& rung, const std::string& what, Trials trials, std::int64_t round) const {
  if (trials.wall_ms.empty()) return;
  trials.process = process_;
  trials.round = round;
  add_visit(rung.result, what, trials);
}

bool RungVisitor::has_unvisited(const Ladder& ladder) { return std::ranges::any_of(ladder.rungs, is_first_visit); }

void RungVisitor::tick() {
  ++progress_.steps_done;
  if (observer_.on_progress) observer_.on_progress(progress_);
}

}  // namespace headroom
