// The visits of a ladder that measures one pass of a network, or a frame of a stream. Each visit compiles the pass
// for the rung and times it. The first visit also measures memory and the distance of its outputs from the
// baseline's.

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "backends/device.hpp"
#include "measure/probes/machine.hpp"
#include "measure/protocol/ladder_visitor.hpp"
#include "measure/quality/pass_error.hpp"
#include "measure/results/describe.hpp"

namespace headroom {
namespace {

QualityRecord error_record(double error) {
  QualityRecord record{
      .metric = "relative_l2", .against = "baseline, same inputs", .value = {}, .interval = {}, .note = {}};
  if (std::isfinite(error))
    record.value = error;
  else
    record.note = "its outputs are not finite";
  return record;
}

class PassVisitor : public RungVisitor {
 public:
  PassVisitor(LadderPass subject, Backend& backend, const LadderOptions& options, std::int64_t process,
              LadderObserver observer)
      : RungVisitor(backend, subject.components, options, process, std::move(observer)),
        subject_(std::move(subject)),
        baseline_(subject_.make({})) {}

 private:
  std::vector<StageWork> measure(Ladder& ladder, std::size_t i, std::int64_t round) override {
    Rung& rung = ladder.rungs[i];
    const ForwardPass pass = subject_.make(rung.switches);
    const Compiled compiled = compile(pass, rung.switches, backend_.properties().target);
    const bool is_first = is_first_visit(rung);
    if (is_first) {
      describe(rung, describe_pass(baseline_), compiled, pass.component->checkpoint);
      if (becomes_another(rung, ladder)) return {};
    }
    weights_.keep_only(*compiled.program);
    require_fit(compiled, pass, rung.switches, weights_, backend_);
    weights_.load(*compiled.program);
    std::optional<Session> session(std::in_place, compiled.program, weights_, backend_);
    backend_.release_unused();
    pass.set_inputs(*session);
    expect_steps(options_.warmup_steps + options_.min_trials);
    session->run();  // the first run, whose outputs are compared: a stream's next frame depends on the previous one
    const std::vector<HostTensor> outputs = pass_outputs(pass, *session);
    if (i == 0 && expected_.empty()) expected_ = outputs;
    Trials trials = time_passes(*session);
    if (is_first) {
      rung.result.quality.push_back(error_record(pass_error(outputs, expected_)));
      add_plan_and_memory(rung.result, ladder.plans, *session, weights_, backend_);
      session.reset();  // frees its memory for the judge
      if (subject_.judge)
        for (QualityRecord& record : subject_.judge(rung.switches, weights_))
          rung.result.quality.push_back(std::move(record));
    }
    add_trials(rung, "forward", std::move(trials), round);
    return {};
  }

  Result describe_unmeasured(const SwitchSet& switches) const override {
    const ForwardPass pass = subject_.make(switches);
    return begin_result(switches, describe_pass(baseline_), compile(pass, switches, backend_.properties().target),
                        pass.component->checkpoint, backend_);
  }

  std::vector<QualityRecord> quality_of_baseline() const override { return {error_record(0)}; }

  Trials time_passes(Session& session) {
    std::vector<double> warmup_ms;
    Trials trials;
    ConditionsProbe probe(pci_bus_id_of(backend_));
    const auto run = [&] {
      const double start_ms = steady_clock_ms();
      session.run();
      return steady_clock_ms() - start_ms;
    };
    const auto is_precise_enough = [&] {
      return options_.precision > 0 && is_precise(trials.wall_ms, options_.precision);
    };
    while (std::ssize(warmup_ms) < options_.warmup_steps) {
      warmup_ms.push_back(run());
      tick();
    }
    while (std::ssize(trials.wall_ms) < options_.min_trials && !is_precise_enough()) {
      probe.begin();
      trials.wall_ms.push_back(run());
      probe.add_trial();
      tick();
    }
    trials.warmup = std::ssize(warmup_ms);
    trials.warmup_stable = is_settled(warmup_ms);
    trials.conditions = probe.take();
    return trials;
  }

  LadderPass subject_;
  ForwardPass baseline_;              // describes the work of all rungs
  std::vector<HostTensor> expected_;  // the baseline's outputs
};

}  // namespace

RoundRun run_rounds_here(const LadderPass& pass, Backend& backend, const LadderOptions& options, std::int64_t process,
                         const LadderObserver& observer) {
  const auto visitor = std::make_shared<PassVisitor>(pass, backend, options, process, observer);
  return [visitor](Ladder& ladder, std::int64_t round, std::span<const std::size_t> rungs) {
    visitor->run_round(ladder, round, rungs);
  };
}

}  // namespace headroom
