#include <fmt/format.h>

#include <algorithm>

#include "base/text/format.hpp"
#include "doctor/checks/families.hpp"

namespace headroom::doctor {
namespace {

/// "a, b and 3 more"
std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t kShown = 2;
  std::string text;
  for (std::size_t i = 0; i < std::min(kShown, names.size()); ++i) text += (i == 0 ? "" : ", ") + names[i];
  return names.size() > kShown ? fmt::format("{} and {} more", text, names.size() - kShown) : text;
}

std::string with_switch(const ModelFacts& facts, std::string_view name) {
  return facts.switches.empty() || facts.switches == "baseline" ? fmt::format("--opt {}", name)
                                                                : fmt::format("--opt {},{}", facts.switches, name);
}

double time_of(const ModelFacts& facts, auto&& belongs) {
  double sum = 0;
  for (const WorkFacts& work : facts.work)
    if (belongs(work)) sum += work.time_ms.value_or(0);
  return sum;
}

/// What it costs to leave out a switch, as it was measured or else predicted; `unknown` if it was neither.
CostIfLeft cost_without(const ModelFacts& facts, std::string_view name, std::string unknown) {
  const auto found = std::ranges::find(facts.predictions, name, &SwitchPrediction::name);
  if (found == facts.predictions.end() || found->is_on || !found->declined.empty())
    return {.words = std::move(unknown), .factor = {}};
  const double factor = found->measured ? found->measured->value : found->by_each.factor;
  const std::string how = found->measured ? "measured" : fmt::format("predicted, ±{:.0f}%", 100 * found->by_each.error);
  if (factor <= 1)
    return {.words = fmt::format("nothing: a {} takes no less time with {} ({})", facts.step_name, name, how),
            .factor = {}};
  return {.words = fmt::format("a {} takes {} times as long as with {} ({})", facts.step_name,
                               format_significant(factor), name, how),
          .factor = found->measured ? std::optional(factor) : std::nullopt};
}

}  // namespace

void find_scores_in_memory(const ModelFacts& facts, std::string_view id, Findings& findings) {
  const std::size_t layers = facts.attention_in_memory.size();
  if (layers == 0) return;
  const auto whole = static_cast<std::size_t>(facts.attention_in_tiles) + layers;
  std::vector<Evidence> evidence = {
      {"the plan: softmax over [batch, heads, queries, keys]", some_of(facts.attention_in_memory),
       whole == 1 ? "attention in the one layer" : fmt::format("attention in all {} layers", whole)}};
  if (!facts.asked_for_flash)
    evidence.push_back({"switches", facts.switches, "with flash"});
  else
    evidence.push_back({"the pass flash-attention",
                        facts.why_not_flash.empty() ? "matched only some layers" : facts.why_not_flash,
                        "all layers match"});
  CostIfLeft cost =
      cost_without(facts, "flash", "memory that grows with the square of the tokens, and the time to move it");
  findings.push_back(
      {.id = std::string(id),
       .severity = severity_of(cost.factor.value_or(1)),
       .sentence =
           fmt::format("The scores of {} of {} attention layers are written to memory and read again.", layers, whole),
       .evidence = std::move(evidence),
       .mend = facts.asked_for_flash
                   ? "write attention as matmul, softmax, matmul over [batch, heads, tokens, head_dim]; "
                     "headroom plan --rejections shows what is there"
                   : with_switch(facts, "flash"),
       .cost = std::move(cost)});
}

void find_f32_with_bf16_units(const ModelFacts& facts, std::string_view id, Findings& findings) {
  if (!facts.has_bf16_units) return;
  const auto is_f32 = [](const WorkFacts& work) { return work.kind != WorkKind::kOther && work.computes == "f32"; };
  std::int64_t launches = 0, all = 0;
  for (const WorkFacts& work : facts.work) {
    if (work.kind == WorkKind::kOther) continue;
    all += work.launches;
    if (is_f32(work)) launches += work.launches;
  }
  if (2 * launches <= all || launches == 0) return;  // single layers are kept in f32 for accuracy
  std::vector<Evidence> evidence = {{"the plan: matmuls, convolutions and attention that compute in f32",
                                     fmt::format("{} of {}", launches, all), "few"},
                                    {"the device", "units for bf16", "used"}};
  if (facts.step_ms)
    evidence.push_back({"the profile",
                        fmt::format("{:.0f}% of a {}", 100 * time_of(facts, is_f32) / *facts.step_ms, facts.step_name),
                        "less in bf16"});
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kCould,  // another precision is the user's choice
       .sentence = "Most contractions compute in f32, and the device has units for bf16.",
       .evidence = std::move(evidence),
       .mend = with_switch(facts, facts.computes_tf32 ? "bf16, or tf32 for less loss" : "bf16"),
       .cost = cost_without(facts, "bf16",
                            "several times the time of these launches; `headroom ladder` measures time and error")});
}

void find_declined_switches(const ModelFacts& facts, std::string_view id, Findings& findings) {
  for (const Declined& declined : facts.declined)
    findings.push_back({.id = std::string(id),
                        .severity = Severity::kCould,
                        .sentence = fmt::format("The switch {} did not apply.", declined.switch_name),
                        .evidence = {{"the passes of " + declined.switch_name, declined.reason, "applied"}},
                        .mend = fmt::format("leave {} out of --opt, or mend the reason", declined.switch_name),
                        .cost = {.words = "what the switch would gain", .factor = {}}});
}

void find_time_between_launches(const ModelFacts& facts, std::string_view id, Findings& findings) {
  if (!facts.step_ms || !facts.has_launches || facts.records) return;
  const double idle = facts.idle_share.value_or(0);
  const double factor = 1 / std::max(0.01, 1 - idle);
  if (factor <= kWrongFrom) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence =
           fmt::format("The GPU is idle for {:.0f}% of a {}, waiting for launches.", 100 * idle, facts.step_name),
       .evidence = {{"CUPTI's records of a " + facts.step_name, fmt::format("idle for {:.1f}%", 100 * idle),
                     "below 5%"}},
       .mend = with_switch(facts, "graph"),
       .cost = {.words = fmt::format("a {} takes up to {} times as long", facts.step_name, format_significant(factor)),
                .factor = factor}});
}

void find_disturbed_profile(const ModelFacts& facts, std::string_view id, Findings& findings) {
  if (facts.disturbances.empty()) return;
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kUnknown,
                      .sentence = "Other work disturbed the profile, so its times and shares may be wrong.",
                      .evidence = {{"the profile", facts.disturbances.front(), "no disturbance"}},
                      .mend = "end other work on the machine and run it again",
                      .cost = {.words = "none: the plan holds nonetheless", .factor = {}}});
}

}  // namespace headroom::doctor
