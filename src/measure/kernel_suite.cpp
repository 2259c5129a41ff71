#include "measure/kernel_suite.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/error.hpp"
#include "base/name_filter.hpp"
#include "measure/describe.hpp"
#include "measure/floor.hpp"
#include "measure/submissions.hpp"
#include "plan/choose.hpp"

namespace headroom {
namespace {

nlohmann::json operand_json(const std::vector<TensorType>& types) {
  nlohmann::json operands = nlohmann::json::array();
  for (const TensorType& type : types)
    operands.push_back(
        fmt::format("{}{}{}", type.dtype, type.shape, type.layout == Layout::kChannelsLast ? " channels_last" : ""));
  return operands;
}

std::string attribute_text(const Attribute& attribute) {
  return std::visit(
      [](const auto& value) {
        if constexpr (
            requires { value.size(); } && !requires { std::string_view(value); })
          return fmt::format("[{}]", fmt::join(value, ", "));
        else
          return fmt::format("{}", value);
      },
      attribute);
}

nlohmann::json request_of(const KernelCase& one) {
  const OpSpec& spec = one.spec;
  nlohmann::json attributes = nlohmann::json::object();
  for (const auto& [name, value] : spec.attributes.all()) attributes[std::string(name)] = attribute_text(value);
  nlohmann::json request = {
      {"inputs", operand_json(spec.inputs)}, {"outputs", operand_json(spec.outputs)}, {"attributes", attributes}};
  if (one.form == OpForm::kApart) request["form"] = "apart";
  return request;
}

/// Turns of a case and what its floor is reckoned from, the one first and then the other first.
struct CaseTurns {
  std::vector<Trials> launches;
  std::vector<Trials> floors;  ///< of a launch of the case
};
CaseTurns take_turns(Backend& backend, OpRun& run, const Floor& floor, int turns, Protocol protocol) {
  constexpr int kLaunches = 6;
  protocol.trials = kLaunches;
  protocol.max_seconds /= 2 * turns;
  CaseTurns all;
  const auto time = [&](std::vector<Trials>& of, Stream& stream, const std::function<void()>& submit) {
    const int turn = static_cast<int>(of.size());
    if (turn > 0) protocol.warmup_min = protocol.warmup_max = 2;
    of.push_back(time_submissions(backend, stream, submit, protocol));
    of.back().process = turn;
  };
  for (int turn = 0; turn < turns; ++turn) {
    if (turn % 2 == 0) time(all.floors, *floor.yardstick->stream, floor.yardstick->submit);
    time(all.launches, run.stream(), [&] { run.submit(); });
    if (turn % 2 == 1) time(all.floors, *floor.yardstick->stream, floor.yardstick->submit);
  }
  for (Trials& trials : all.floors)
    for (double& ms : trials.wall_ms) ms *= floor.launches;
  return all;
}

}  // namespace

ResultFile bench_kernels(Backend& backend, const KernelBenchOptions& options,
                         const std::function<void(const KernelBenchProgress&)>& on_progress,
                         const std::function<void(std::string_view, std::string_view)>& on_skip) {
  const NameFilter filter(options.filter);
  std::vector<KernelCase> cases = list_kernel_cases();
  std::vector<std::string> names;
  for (const KernelCase& one : cases) names.push_back(one.name);
  filter.check_takes_any(names, "kernel benchmark");
  std::erase_if(cases, [&](const KernelCase& one) { return !filter.takes(one.name); });

  ResultFile file = begin_result_file();
  const Protocol protocol = short_protocol(backend, options.max_seconds);
  std::optional<CacheEvictor> evictor;
  if (options.cold) evictor.emplace(backend);
  const std::size_t total = cases.size() + 1;
  if (on_progress) on_progress({"copy", 0, total});
  MachineRates rates(backend, protocol);
  file.results.push_back(describe_kernel(backend, "copy", "copy", {{"bytes", MachineRates::kLargestCopy}},
                                         make_series("launch", rates.copy(2.0 * MachineRates::kLargestCopy).trials)));
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const KernelCase& one = cases[i];
    if (on_progress) on_progress({one.name, i + 1, total});
    try {
      OpRun run(backend, one.spec, one.form);
      const auto submit = [&] { run.submit(); };
      const Floor floor = floor_of(run, rates);
      CaseTurns turns;
      if (options.turns > 1)
        turns = take_turns(backend, run, floor, options.turns, protocol);
      else
        turns.launches.push_back(time_submissions(backend, run.stream(), submit, protocol));
      Result result = describe_kernel(backend, one.name, std::string(name_of(one.spec.op)), request_of(one),
                                      make_series("launch", turns.launches));
      result.floor = {.ms = floor.ms(), .of = std::string(floor.yardstick->of)};
      if (options.turns > 1) {
        result.trials.push_back(make_series("floor", turns.floors));
        result.floor->ms = result.trials.back().statistics.median;
      }
      if (evictor)
        result.trials.push_back(
            make_series("cold", time_cold_submissions(backend, run.stream(), submit, *evictor, protocol)));
      PlanRecord plan = describe_plan(run.program());
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

}  // namespace headroom
