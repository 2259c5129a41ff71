#include "doctor/model_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "base/text/format.hpp"
#include "ir/expand.hpp"
#include "ir/op_definition.hpp"
#include "measure/probes/floor.hpp"

namespace headroom::doctor {
namespace {

WorkKind kind_of(Op op) {
  if (operands_of(op).find(Role::kQ)) return WorkKind::kAttention;
  if (is_convolution(op)) return WorkKind::kConvolution;
  return is_contraction(op) ? WorkKind::kMatmul : WorkKind::kOther;
}

/// A softmax over scores [batch, heads, queries, keys] that are in memory, by itself or in a fused op.
bool is_softmax_of_scores(const Step& step) {
  const bool has_softmax =
      step.op == Op::kSoftmax || (step.spec.attributes.fused_body() != nullptr &&
                                  std::ranges::any_of(body_of(step.spec.attributes).nodes(),
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

/// The step by what bounds it: launches of contractions, attention and other work, the GPU's idle time, and the rest.
std::vector<StepPart> parts_of(const ModelFacts& facts) {
  StepPart products{.bound = "products"}, attention{.bound = "attention"}, bytes{.bound = "bytes"};
  for (const WorkFacts& work : facts.work) {
    StepPart& part = work.kind == WorkKind::kAttention ? attention : work.kind == WorkKind::kOther ? bytes : products;
    part.time_ms += work.time_ms.value_or(0);
    part.floor_ms += work.floor_ms.value_or(0);
  }
  std::vector<StepPart> parts = {products, attention, bytes};
  double rest = *facts.step_ms - products.time_ms - attention.time_ms - bytes.time_ms;
  if (facts.has_launches && facts.idle_share) {
    parts.push_back({.bound = "launches", .time_ms = *facts.idle_share * *facts.step_ms});
    rest -= parts.back().time_ms;
  }
  parts.push_back({.bound = "host", .time_ms = std::max(0.0, rest)});
  return parts;
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
  facts.parts = parts_of(facts);
}

namespace {

void describe_parts(const ModelFacts& facts, Printout& printout) {
  Table table;
  table.add_column("bound by", Align::kLeft);
  for (const char* const header : {"time", "share", "floor", "over it"}) table.add_column(header);
  for (const StepPart& part : facts.parts) {
    const double share = part.time_ms / *facts.step_ms;
    table.add_row({std::string(part.bound), ms_cell(part.time_ms),
                   number_cell(share, fmt::format("{:.1f}%", 100 * share)), ms_cell(part.floor_ms),
                   part.floor_ms > 0 ? factor_cell(part.time_ms / part.floor_ms) : no_value()});
  }
  printout.add(fmt::format("\na {} takes {}\n\n", facts.step_name, format_ms(*facts.step_ms)));
  printout.add(std::move(table));
  printout.add("\n");
}

void describe_predictions(const ModelFacts& facts, Printout& printout) {
  if (facts.predictions.empty()) return;
  printout.add(
      fmt::format("\nwhat each switch gains: the time of a {} without it / with it; predicted by rates of bytes and "
                  "FLOPs,\nby the launches timed alone, and measured\n\n",
                  facts.step_name));
  printout.add(to_table(facts.predictions));
  for (const SwitchPrediction& one : facts.predictions) {
    if (!one.declined.empty()) printout.add(fmt::format("{} would not apply: {}\n", one.name, one.declined));
    if (!one.not_run.empty()) printout.add(fmt::format("{} was not run: {}\n", one.name, one.not_run));
  }
}

void describe_cards(const ModelFacts& facts, Printout& printout) {
  if (facts.cards.empty()) return;
  Table table;
  for (const char* const header : {"on", "a step, predicted only", "at least", "memory", "rates by"})
    table.add_column(header, Align::kLeft);
  for (const CardPrediction& one : facts.cards) {
    const bool has_times = one.lacks.empty();
    table.add_row({std::string(one.card->key),
                   has_times ? ms_cell(one.ms) : no_value(fmt::format("no units for {}", one.lacks)),
                   has_times ? ms_cell(one.floor_ms) : no_value(), one.fits ? "fits" : "does not fit",
                   std::string(one.card->source)});
  }
  printout.add("\nthis plan on other cards, by their data sheets and the share of them that an H200 reaches\n\n");
  printout.add(std::move(table));
}

}  // namespace

void describe_work(const ModelFacts& facts, Printout& printout) {
  const bool is_timed = facts.step_ms.has_value();
  Table table;
  for (const char* const header : {"work", "kernel", "computes in", "stores"}) table.add_column(header, Align::kLeft);
  table.add_column("launches");
  if (is_timed)
    for (const char* const header : {"time", "share", "floor", "over it"}) table.add_column(header);
  std::int64_t below = 0;
  for (const WorkFacts& work : facts.work) {
    std::vector<Cell> cells = {
        std::string(name_of(work.kind)),
        work.implementation.empty() ? work.kernel : fmt::format("{} ({})", work.kernel, work.implementation),
        work.computes, work.stores, count_cell(work.launches)};
    if (is_timed) {
      const double time = work.time_ms.value_or(0), floor = work.floor_ms.value_or(0);
      cells.push_back(ms_cell(work.time_ms));
      cells.push_back(work.time_ms
                          ? number_cell(time / *facts.step_ms, fmt::format("{:.1f}%", 100 * time / *facts.step_ms))
                          : no_value());
      cells.push_back(ms_cell(work.floor_ms));
      cells.push_back(floor > 0 ? over_floor_cell(time / floor) : no_value());
      if (floor > 0 && is_below_floor(time / floor)) ++below;
    }
    table.add_row(std::move(cells));
  }
  printout.add(std::move(table));
  printout.add(remark_on_rows_below_floor(below, !facts.disturbances.empty()));
  if (is_timed) describe_parts(facts, printout);
  const int layers = facts.attention_in_tiles + static_cast<int>(facts.attention_in_memory.size());
  if (layers > 0)
    printout.add(fmt::format("attention: {} of {} tile by tile, with the switches {}\n", facts.attention_in_tiles,
                             format_count(layers, "layer"), facts.switches));
  std::set<std::string> passed_over;
  for (const WorkFacts& work : facts.work)
    for (const auto& [kernel, reason] : work.passed_over)
      passed_over.insert(fmt::format("{}: not {}: {}\n", name_of(work.kind), kernel, reason));
  for (const std::string& line : passed_over) printout.add(line);
  describe_predictions(facts, printout);
  describe_cards(facts, printout);
}

}  // namespace headroom::doctor
