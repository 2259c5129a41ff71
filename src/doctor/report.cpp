#include "doctor/report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text/format.hpp"

namespace headroom::doctor {
namespace {

std::string describe_finding(const Finding& finding) {
  std::string text = fmt::format("\n{} {}: {}\n", name_of(finding.severity), finding.id, finding.sentence);
  for (const Evidence& evidence : finding.evidence)
    text += fmt::format("  seen     {}: {}; expected: {}\n", evidence.source, evidence.value, evidence.expected);
  text += fmt::format("  mend     {}\n", finding.mend);
  text += fmt::format("  if left  {}\n", finding.cost.words);
  return text;
}

std::string count_findings(const std::vector<Finding>& findings) {
  if (findings.empty()) return "\nnothing found\n";
  const auto count = [&](Severity severity) { return std::ranges::count(findings, severity, &Finding::severity); };
  return fmt::format("\n{}: {} wrong, {} could be better, {} unknown\n", format_count(std::ssize(findings), "finding"),
                     count(Severity::kWrong), count(Severity::kCould), count(Severity::kUnknown));
}

nlohmann::ordered_json predictions_as_json(const std::vector<SwitchPrediction>& predictions) {
  using nlohmann::ordered_json;
  ordered_json all = ordered_json::array();
  for (const SwitchPrediction& one : predictions) {
    ordered_json json = {{"switch", one.name}, {"on", one.is_on}, {"exact", one.is_exact}};
    if (!one.declined.empty()) {
      json["declined"] = one.declined;
      all.push_back(std::move(json));
      continue;
    }
    const auto step = [&](const PredictedStep& predicted) {
      return ordered_json{{"ms", predicted.ms}, {"gain", one.gain(predicted.factor)}, {"error", predicted.error}};
    };
    json["more_bytes"] = one.more_bytes;
    json["by_rates"] = step(one.by_rates);
    json["by_launches"] = step(one.by_each);
    if (one.measured) json["measured"] = {{"ms", *one.measured_ms}, {"gain", one.gain(one.measured->value)}};
    if (!one.not_run.empty()) json["not_run"] = one.not_run;
    all.push_back(std::move(json));
  }
  return all;
}

nlohmann::ordered_json cards_as_json(const std::vector<CardPrediction>& cards) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const CardPrediction& one : cards) {
    nlohmann::ordered_json json = {{"card", one.card->key}, {"source", one.card->source}};
    if (one.lacks.empty()) {
      json["ms"] = one.ms;
      json["least_ms"] = one.floor_ms;
      json["fits"] = one.fits;
    } else {
      json["lacks"] = one.lacks;
    }
    all.push_back(std::move(json));
  }
  return all;
}

nlohmann::ordered_json work_as_json(const ModelFacts& model) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const WorkFacts& work : model.work) {
    nlohmann::ordered_json one = {
        {"kind", name_of(work.kind)}, {"kernel", work.kernel}, {"implementation", work.implementation},
        {"computes", work.computes},  {"stores", work.stores}, {"launches", work.launches},
        {"flops", work.flops}};
    if (work.time_ms) one["time_ms"] = *work.time_ms;
    if (work.floor_ms) one["floor_ms"] = *work.floor_ms;
    for (const auto& [kernel, reason] : work.passed_over)
      one["rejections"].push_back({{"kernel", kernel}, {"reason", reason}});
    all.push_back(std::move(one));
  }
  nlohmann::ordered_json json = {{"switches", model.switches},
                                 {"attention_in_tiles", model.attention_in_tiles},
                                 {"attention_in_memory", model.attention_in_memory},
                                 {"launches", std::move(all)}};
  if (model.step_ms) json[model.step_name == "pass" ? "pass_ms" : "step_ms"] = *model.step_ms;
  if (model.idle_share) json["idle_share"] = *model.idle_share;
  for (const StepPart& part : model.parts)
    json["parts"].push_back({{"bound", part.bound}, {"time_ms", part.time_ms}, {"floor_ms", part.floor_ms}});
  if (!model.predictions.empty()) json["predictions"] = predictions_as_json(model.predictions);
  if (!model.cards.empty()) json["on"] = cards_as_json(model.cards);
  return json;
}

}  // namespace

Printout to_printout(const Report& report) {
  Table table;
  table.add_column("of", Align::kLeft);
  table.add_column("fact", Align::kLeft);
  table.add_column("value", Align::kLeft);
  for (const Fact& fact : report.facts) table.add_row({std::string(fact.family), fact.name, fact.value});
  Printout printout;
  if (!table.is_empty()) printout.add(std::move(table));
  if (report.model) {
    printout.add("\n");
    describe_work(*report.model, printout);
  }
  for (const Finding& finding : report.findings) printout.add(describe_finding(finding));
  printout.add(count_findings(report.findings));
  return printout;
}

nlohmann::ordered_json to_json(const Report& report) {
  using nlohmann::ordered_json;
  ordered_json facts = ordered_json::array(), findings = ordered_json::array();
  for (const Fact& fact : report.facts)
    facts.push_back({{"family", fact.family}, {"name", fact.name}, {"value", fact.value}});
  for (const Finding& finding : report.findings) {
    ordered_json evidence = ordered_json::array();
    for (const Evidence& one : finding.evidence)
      evidence.push_back({{"source", one.source}, {"value", one.value}, {"expected", one.expected}});
    ordered_json cost = {{"words", finding.cost.words}};
    if (finding.cost.factor) cost["factor"] = *finding.cost.factor;
    findings.push_back({{"id", finding.id},
                        {"severity", name_of(finding.severity)},
                        {"sentence", finding.sentence},
                        {"evidence", std::move(evidence)},
                        {"mend", finding.mend},
                        {"cost", std::move(cost)}});
  }
  ordered_json json = {{"schema", "headroom.doctor/1"}, {"facts", std::move(facts)}};
  if (report.model) json["work"] = work_as_json(*report.model);
  json["findings"] = std::move(findings);
  return json;
}

}  // namespace headroom::doctor
