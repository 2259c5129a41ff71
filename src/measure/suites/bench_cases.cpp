#include "measure/suites/bench_cases.hpp"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/error.hpp"
#include "base/text/name_filter.hpp"
#include "measure/protocol/submissions.hpp"
#include "measure/results/describe.hpp"
#include "plan/choose.hpp"

namespace headroom {
namespace {

/// Times of a case and of the reference work of its floor, measured alternately in both orders.
struct CaseRounds {
  std::vector<Trials> launches;
  std::vector<Trials> floors;  ///< per launch of the case
};
CaseRounds time_rounds(Backend& backend, Session& session, const Floor& floor, int rounds, Protocol protocol) {
  constexpr int kLaunches = 6;
  protocol.trials = kLaunches;
  protocol.max_seconds /= 2 * rounds;
  CaseRounds all;
  const auto time = [&](std::vector<Trials>& of, Stream& stream, const std::function<void()>& submit) {
    const int round = static_cast<int>(of.size());
    if (round > 0) protocol.warmup_min = protocol.warmup_max = 2;
    of.push_back(time_submissions(backend, stream, submit, protocol));
    of.back().process = round;
  };
  for (int round = 0; round < rounds; ++round) {
    if (round % 2 == 0) time(all.floors, *floor.yardstick->stream, floor.yardstick->submit);
    time(all.launches, session.stream(), [&] { session.submit(); });
    if (round % 2 == 1) time(all.floors, *floor.yardstick->stream, floor.yardstick->submit);
  }
  for (Trials& trials : all.floors)
    for (double& ms : trials.wall_ms) ms *= floor.launches;
  return all;
}

/// Completes the case's result with floor and series.
Result time_case(Backend& backend, const ReadyCase& one, const KernelBenchOptions& options, const Protocol& protocol,
                 CacheEvictor* evictor) {
  const auto submit = [&] { one.session->submit(); };
  Result result = one.result;
  result.floor = {.ms = one.floor.ms(), .of = std::string(one.floor.yardstick->of)};
  if (options.rounds > 1) {
    const CaseRounds rounds = time_rounds(backend, *one.session, one.floor, options.rounds, protocol);
    result.trials = {make_series("launch", rounds.launches), make_series("floor", rounds.floors)};
    result.floor->ms = result.trials.back().statistics.median;
  } else {
    result.trials = {make_series("launch", time_submissions(backend, one.session->stream(), submit, protocol))};
  }
  if (evictor != nullptr)
    result.trials.push_back(
        make_series("cold", time_cold_submissions(backend, one.session->stream(), submit, *evictor, protocol)));
  return result;
}

}  // namespace

ResultFile bench_cases(Backend& backend, std::string_view what, std::vector<SuiteCase> cases,
                       const KernelBenchOptions& options, const KernelBenchObserver& on_progress,
                       const KernelBenchSkips& on_skip) {
  const NameFilter filter(options.filter);
  std::vector<std::string> names;
  for (const SuiteCase& one : cases) names.push_back(one.name);
  filter.check_takes_any(names, what);
  std::erase_if(cases, [&](const SuiteCase& one) { return !filter.takes(one.name); });

  ResultFile file = begin_result_file();
  const Protocol protocol = short_protocol(backend, options.max_seconds);
  std::optional<CacheEvictor> evictor;
  if (options.cold) evictor.emplace(backend);
  const std::size_t total = cases.size() + 1;
  if (on_progress) on_progress({"copy", 0, total});
  MachineRates rates(backend, protocol);
  file.results.push_back(describe_kernel(backend, "copy", "copy", {{"bytes", MachineRates::kLargestCopy}}));
  file.results.back().trials.push_back(make_series("launch", rates.copy(2.0 * MachineRates::kLargestCopy).trials));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const SuiteCase& one = cases[i];
    if (on_progress) on_progress({one.name, i + 1, total});
    try {
      const ReadyCase ready = one.prepare(rates);
      Result result = time_case(backend, ready, options, protocol, evictor ? &*evictor : nullptr);
      PlanRecord plan = describe_plan(ready.session->program());
      result.plan = plan_id(plan);
      file.plans.try_emplace(*result.plan, std::move(plan));
      file.results.push_back(std::move(result));
    } catch (const NoKernel& none) {
      if (on_skip) on_skip(one.name, fmt::format("no kernel runs it here ({})", none.reasons()));
    } catch (const Error& error) {
      if (on_skip) on_skip(one.name, error.what());
    }
  }
  if (on_progress) on_progress({"", total, total});
  return file;
}

nlohmann::json operand_json(const std::vector<TensorType>& types) {
  nlohmann::json operands = nlohmann::json::array();
  for (const TensorType& type : types)
    operands.push_back(
        fmt::format("{}{}{}", type.dtype, type.shape, type.layout == Layout::kChannelsLast ? " channels_last" : ""));
  return operands;
}

}  // namespace headroom
