#include "doctor/model_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <tuple>
#include <utility>

#include "ir/expand.hpp"
#include "ir/op_definition.hpp"

namespace headroom::doctor {
namespace {

WorkKind kind_of(Op op) {
  if (op == Op::kAttention || op == Op::kScaledAttention) return WorkKind::kAttention;
  if (!is_contraction(op)) return WorkKind::kOther;
  return is_matmul(op) || op == Op::kMatmul ? WorkKind::kMatmul : WorkKind::kConvolution;
}

/// A softmax over scores [batch, heads, queries, keys] that are in memory, by itself or in a fused op.
bool is_softmax_of_scores(const Step& step) {
  const bool has_softmax =
      step.op == Op::kSoftmax ||
      (step.op == Op::kFused && std::ranges::any_of(body_of(step.spec.attributes).nodes(),
                                                    [](const Node& node) { return node.op == Op::kSoftmax; }));
  return has_softmax && step.spec.outputs.front().shape.rank() == 4;
}

using WorkKey = std::tuple<WorkKind, std::string, std::string, std::string, std::string>;
WorkKey key_of(const Step& step) {
  const std::string stores = step.spec.outputs.empty() ? "" : std::string(name_of(step.spec.outputs.front().dtype));
  if (step.kernel == nullptr) return {WorkKind::kOther, "copy", "", "none", stores};
  const bool is_other = kind_of(step.op) == WorkKind::kOther;
  return {kind_of(step.op), std::string(step.kernel->name()), is_other ? "" : step.prepared->implementation(),
          std::string(step.kernel->compute_name(step.spec)), stores};
}

/// The entry of a launch; adds it if there is none.
WorkFacts& work_of(std::vector<WorkFacts>& work, const Step& step) {
  const auto [kind, kernel, implementation, computes, stores] = key_of(step);
  for (WorkFacts& one : work)
    if (std::tie(one.kind, one.kernel, one.implementation, one.computes, one.stores) == key_of(step)) return one;
  return work.emplace_back(WorkFacts{.kind = kind,
                                     .kernel = kernel,
                                     .implementation = implementation,
                                     .computes = computes,
                                     .stores = stores,
                                     .time_ms = {},
                                     .floor_ms = {},
                                     .passed_over = {}});
}

}  // namespace

std::string_view name_of(WorkKind kind) {
  constexpr std::array kNames = {"matmul", "convolution", "attention", "other"};
  return kNames.at(static_cast<std::size_t>(kind));
}

ModelFacts look_at_plan(const Compiled& compiled, const SwitchSet& asked,
                        const std::function<bool(std::string_view)>& is_named, const Target& target) {
  ModelFacts facts;
  facts.switches = asked.to_string();
  std::vector<Step> steps = compiled.program->steps;
  if (const auto& setup = compiled.program->setup) steps.insert(steps.end(), setup->steps.begin(), setup->steps.end());
  for (const Step& step : steps) {
    WorkFacts& work = work_of(facts.work, step);
    ++work.launches;
    work.flops += step.cost.flops;
    if (work.kind == WorkKind::kAttention) ++facts.attention_in_tiles;
    if (is_softmax_of_scores(step)) facts.attention_in_memory.push_back(step.label);
    if (work.kind != WorkKind::kOther)
      for (const RejectedKernel& rejected : step.rejections)
        work.passed_over.emplace(std::string(rejected.kernel), rejected.reason);
  }
  std::ranges::stable_sort(facts.work, {}, &WorkFacts::kind);
  facts.asked_for_flash = asked.has("flash");
  for (const Declined& declined : compiled.declined) {
    if (declined.switch_name == "flash") facts.why_not_flash = declined.reason;
    if (is_named(declined.switch_name)) facts.declined.push_back(declined);
  }
  facts.has_bf16_units = obstacle_to(Capability::kBf16Units, target).empty();
  facts.computes_tf32 = obstacle_to(Capability::kTf32, target).empty();
  facts.has_launches = target.device->has_launches;
  facts.records = std::ranges::find(compiled.applied, "graph") != compiled.applied.end();
  return facts;
}

void add_times(ModelFacts& facts, const Profile& profile, const Program& program) {
  facts.step_name = profile.step_name();
  facts.step_ms = profile.step_ms();
  facts.idle_share = profile.launches.idle_share;
  facts.disturbances = profile.disturbances;
  const std::int64_t trips = std::ranges::max(profile.launches.runs);
  for (std::size_t i = 0; i < program.steps.size(); ++i) {
    if (trips > 1 && profile.launches.runs[i] != trips) continue;  // outside the loop, so not part of a step
    WorkFacts& work = work_of(facts.work, program.steps[i]);
    work.time_ms = work.time_ms.value_or(0) + profile.launches.time_ms[i];
    work.floor_ms = work.floor_ms.value_or(0) + profile.launches.floor_ms[i];
  }
}

void describe_work(const ModelFacts& facts, Printout& printout) {
  const bool is_timed = facts.step_ms.has_value();
  Table table;
  for (const char* const header : {"work", "kernel", "computes in", "stores"}) table.add_column(header, Align::kLeft);
  table.add_column("launches");
  if (is_timed)
    for (const char* const header : {"time", "share", "floor", "over it"}) table.add_column(header);
  double launches_ms = 0, floors_ms = 0;
  for (const WorkFacts& work : facts.work) {
    std::vector<Cell> cells = {
        std::string(name_of(work.kind)),
        work.implementation.empty() ? work.kernel : fmt::format("{} ({})", work.kernel, work.implementation),
        work.computes, work.stores, count_cell(work.launches)};
    if (is_timed) {
      const double time = work.time_ms.value_or(0), floor = work.floor_ms.value_or(0);
      launches_ms += time;
      floors_ms += floor;
      cells.push_back(ms_cell(work.time_ms));
      cells.push_back(work.time_ms
                          ? number_cell(time / *facts.step_ms, fmt::format("{:.1f}%", 100 * time / *facts.step_ms))
                          : no_value());
      cells.push_back(ms_cell(work.floor_ms));
      cells.push_back(floor > 0 ? factor_cell(time / floor) : no_value());
    }
    table.add_row(std::move(cells));
  }
  printout.add(std::move(table));
  if (is_timed)
    printout.add(fmt::format("\na {} takes {}: {} in launches, {} between them; the floors are {}\n", facts.step_name,
                             format_ms(*facts.step_ms), format_ms(launches_ms),
                             format_ms(std::max(0.0, *facts.step_ms - launches_ms)), format_ms(floors_ms)));
  const int layers = facts.attention_in_tiles + static_cast<int>(facts.attention_in_memory.size());
  if (layers > 0)
    printout.add(fmt::format("attention: {} of {} layers tile by tile, with the switches {}\n",
                             facts.attention_in_tiles, layers, facts.switches));
  for (const WorkFacts& work : facts.work)
    for (const auto& [kernel, reason] : work.passed_over)
      printout.add(fmt::format("{}: not {}, because {}\n", name_of(work.kind), kernel, reason));
}

}  // namespace headroom::doctor
