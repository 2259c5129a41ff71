#include "report/dashboard_table.hpp"

#include <fmt/ranges.h>

#include <map>
#include <nlohmann/json.hpp>

#include "report/advice/quality_loss.hpp"
#include "report/ladder_view.hpp"
#include "report/plots/option.hpp"
#include "report/plots/trial_plot.hpp"
#include "report/render/html.hpp"

namespace headroom {
namespace {

using nlohmann::json;

struct PageColumn {
  std::string_view title;
  bool is_number;
};
constexpr PageColumn kColumns[] = {{"configuration", false}, {"median", true},      {"95% interval", true},
                                   {"on baseline", true},    {"peak memory", true}, {"quality", false},
                                   {"trials", true},         {"source", false},     {"measured", false}};

/// A cell that sorts by `key`, or by its text without one.
std::string cell(std::string_view text, const std::optional<double>& key = {}) {
  if (key) return fmt::format("<td class=\"n\" data-key=\"{}\">{}</td>", *key, escape_html(text));
  return fmt::format("<td>{}</td>", name_html(text));
}

std::string qualities_of(const Result& result) {
  std::vector<std::string> parts;
  for (const QualityRecord& record : result.quality) parts.push_back(quality_text(record));
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// The program, its version, and the revision if that adds information.
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

std::string row_of(const Measurement& m, std::string_view name, const std::optional<Estimate>& factor,
                   std::size_t index, std::size_t view) {
  const Result& result = *m.result;
  std::string row = fmt::format("<tr data-view=\"{}\">", view + 1) + cell(name);
  if (m.timing) {
    const std::optional<Interval>& interval = m.time().interval_ms;
    row += cell(fmt::format("{} per {}", label_ms(m.time().median_ms), m.time().unit), m.time().median_ms);
    row += interval ? cell(fmt::format("{} to {}", label_ms(interval->low), label_ms(interval->high)),
                           interval->high - interval->low)
                    : cell("none");
  } else {
    row += cell("not timed") + cell("none");
  }
  if (m.unsettled || !factor)
    row += cell(m.unsettled ? "unsettled" : "");
  else
    row += cell(m.is_baseline() ? "baseline" : label_factor(factor->value), factor->value);
  const std::optional<MemoryReport>& memory = result.memory;
  row += memory && memory->peak_bytes
             ? cell(label_bytes(static_cast<double>(*memory->peak_bytes)), static_cast<double>(*memory->peak_bytes))
             : cell("");
  row += cell(qualities_of(result));
  const std::size_t trials = m.timing ? m.time().trials_ms.size() : 0;  // as in the tables of the report
  row += fmt::format(
      "<td class=\"n\" data-key=\"{0}\"><button type=\"button\" class=\"trials\" data-index=\"{1}\" "
      "aria-expanded=\"false\">{0}<span "
      "class=\"unseen\"> raw trials of {2}</span></button></td>",
      trials, index, escape_html(m.label));
  return row + cell(source_of(m)) + cell(m.file->created.empty() ? "no date" : m.file->created) + "</tr>\n";
}

json trials_of(const Measurement& m, const std::optional<std::size_t>& before) {
  json list = json::array();
  for (const TrialSeries& series : m.result->trials) {
    json one = {{"what", series.what}, {"time", series.time_ms}, {"warmup", series.warmup}};
    if (series.process.front() != series.process.back()) one["process"] = series.process;
    if (!series.warmup_stable) one["unsettled"] = true;
    list.push_back(std::move(one));
  }
  json trials = {{"series", std::move(list)}};
  if (before) trials["before"] = *before;
  return trials;
}

}  // namespace

std::string measurement_table(const Dataset& dataset, const std::vector<View>& views) {
  const std::map<const Measurement*, std::optional<Estimate>> factors = factors_of(dataset);
  std::map<const Measurement*, std::size_t> places;
  for (const Measurement& m : dataset.measurements()) places.emplace(&m, places.size());
  std::vector<std::string> rows(places.size());
  json trials(places.size(), json());
  for (std::size_t view = 0; view < views.size(); ++view)
    for (const Scenario* scenario : views[view].all())
      for (const Measurement* m : scenario->all) {
        const auto factor = factors.find(m);
        const std::size_t place = places.at(m);
        const bool says_work = views[view].all().size() > 1;
        rows[place] = row_of(*m,
                             says_work && m->shown_name() != scenario->work
                                 ? fmt::format("{}; {}", m->shown_name(), scenario->work)
                                 : m->shown_name(),
                             factor == factors.end() ? std::nullopt : factor->second, place, view);
        const Measurement* const before = measured_before(*scenario, *m);
        trials[place] = trials_of(*m, before == nullptr ? std::nullopt : std::optional(places.at(before)));
      }
  std::string head;
  for (const PageColumn& column : kColumns)
    head += fmt::format("<th scope=\"col\"{}><button type=\"button\" class=\"sort\">{}</button></th>",
                        column.is_number ? " class=\"n\"" : "", column.title);
  return fmt::format(
      "<details id=\"measurements\">\n<summary>Measurements: <span id=\"shown\" role=\"status\"></span></summary>\n"
      "<p class=\"controls\"><label for=\"filter\">Show rows with</label> <input id=\"filter\" type=\"search\" "
      "autocomplete=\"off\" spellcheck=\"false\"> A heading sorts; the number of trials opens them.</p>\n"
      "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Measurements\"><table "
      "id=\"table\">\n<thead><tr>{}</tr></thead>\n<tbody>\n{}</tbody></table></div>\n"
      "<script type=\"application/json\" id=\"trials\">{}</script>\n"
      "<script type=\"application/json\" id=\"trial-plot\">{}</script>\n</details>\n",
      head, fmt::join(rows, ""), script_json(trials), script_json(trial_plot("trial", {}, {})));
}

}  // namespace headroom
