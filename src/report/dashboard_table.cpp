#include "report/dashboard_table.hpp"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "measure/table.hpp"
#include "report/html.hpp"
#include "report/ladder_view.hpp"
#include "report/option.hpp"

namespace headroom {
namespace {

using nlohmann::json;

struct Column {
  std::string_view title;
  bool is_number;
};
constexpr Column kColumns[] = {{"configuration", false}, {"median", true},      {"95% interval", true},
                               {"of a", false},          {"on baseline", true}, {"peak memory", true},
                               {"quality", false},       {"trials", true},      {"work", false},
                               {"machine", false},       {"source", false},     {"measured", false}};

/// A cell that sorts by `key`; without one by its text.
std::string cell(std::string_view text, const std::optional<double>& key = {}) {
  if (key) return fmt::format("<td class=\"n\" data-key=\"{}\">{}</td>", *key, escape_html(text));
  return fmt::format("<td>{}</td>", name_html(text));
}

std::string quality_text(const Result& result) {
  std::vector<std::string> parts;
  for (const QualityRecord& record : result.quality)
    parts.push_back(fmt::format("{} {}", record.metric,
                                record.value ? format_significant(*record.value) : record.note.value_or("")));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The program, its version, and the revision where that says more.
std::string source_of(const Measurement& m) {
  const std::string program = fmt::format("{} {}", m.result->source.name, m.result->source.version);
  return m.is_peer ? program : fmt::format("{} at {}", program, m.revision());
}

/// The factor of each measurement that is on a ladder.
std::map<const Measurement*, std::optional<Estimate>> factors_of(const Dataset& dataset) {
  std::map<const Measurement*, std::optional<Estimate>> factors;
  for (const LadderView& ladder : ladders_of(dataset))
    for (const RungView* rung : ladder.all()) factors.emplace(rung->measurement, rung->on_baseline);
  return factors;
}

std::string row_of(const Measurement& m, const Scenario& scenario, const std::optional<Estimate>& factor,
                   std::size_t index) {
  const Result& result = *m.result;
  std::string row = "<tr>" + cell(m.shown_name());
  if (m.timing) {
    const std::optional<Interval>& interval = m.time().interval_ms;
    row += cell(label_ms(m.time().median_ms), m.time().median_ms);
    row += interval ? cell(fmt::format("{} to {}", label_ms(interval->low), label_ms(interval->high)),
                           interval->high - interval->low)
                    : cell("none");
    row += cell(m.time().unit);
  } else {
    row += cell("not timed") + cell("none") + cell("");
  }
  row += result.unsettled ? cell("unsettled") : factor ? cell(label_factor(factor->value), factor->value) : cell("");
  const std::optional<MemoryReport>& memory = result.memory;
  row += memory && memory->peak_bytes
             ? cell(label_bytes(static_cast<double>(*memory->peak_bytes)), static_cast<double>(*memory->peak_bytes))
             : cell("");
  row += cell(quality_text(result));
  std::size_t trials = 0;
  for (const TrialSeries& series : result.trials) trials += series.time_ms.size();
  row += fmt::format(
      "<td class=\"n\" data-key=\"{0}\"><button type=\"button\" class=\"trials\" data-index=\"{1}\" "
      "aria-expanded=\"false\">{0}<span "
      "class=\"unseen\"> raw trials of {2}</span></button></td>",
      trials, index, escape_html(m.label));
  return row + cell(scenario.work) + cell(scenario.hardware) + cell(source_of(m)) + cell(m.file->created) + "</tr>\n";
}

json trials_of(const Measurement& m) {
  json list = json::array();
  for (const TrialSeries& series : m.result->trials) {
    json one = {{"what", series.what}, {"time", series.time_ms}, {"warmup", series.warmup}};
    if (series.process.front() != series.process.back()) one["process"] = series.process;
    if (!series.warmup_stable) one["unsettled"] = true;
    list.push_back(std::move(one));
  }
  return list;
}

}  // namespace

std::string measurement_table(const Dataset& dataset) {
  std::map<const Measurement*, const Scenario*> scenario_of;
  for (const Scenario& scenario : dataset.scenarios())
    for (const Measurement* m : scenario.all) scenario_of.emplace(m, &scenario);
  const std::map<const Measurement*, std::optional<Estimate>> factors = factors_of(dataset);

  std::string head, rows;
  for (const Column& column : kColumns)
    head += fmt::format("<th scope=\"col\"{}><button type=\"button\" class=\"sort\">{}</button></th>",
                        column.is_number ? " class=\"n\"" : "", column.title);
  json trials = json::array();
  for (const Measurement& m : dataset.measurements()) {
    const auto factor = factors.find(&m);
    rows += row_of(m, *scenario_of.at(&m), factor == factors.end() ? std::nullopt : factor->second, trials.size());
    trials.push_back(trials_of(m));
  }
  return fmt::format(
      "<section id=\"measurements\">\n<h2>Measurements</h2>\n"
      "<p class=\"controls\"><label for=\"filter\">Show rows with</label> <input id=\"filter\" type=\"search\" "
      "autocomplete=\"off\" "
      "spellcheck=\"false\"> <span id=\"shown\" role=\"status\">{0} of {0}</span></p>\n"
      "<p class=\"subtitle\">A heading sorts; the number of trials opens them.</p>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Measurements\"><table "
      "id=\"table\">\n<thead><tr>{1}</tr></thead>\n"
      "<tbody>\n{2}</tbody></table></div>\n<script type=\"application/json\" id=\"trials\">{3}</script>\n</section>\n",
      trials.size(), head, rows, script_json(trials));
}

}  // namespace headroom
