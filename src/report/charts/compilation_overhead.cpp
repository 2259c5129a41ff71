// Start-up cost of a process before its first result: planning, loading, and the excess of the first run over a
// later one. With a reference to compare with, also the number of runs after which the cost is repaid.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/text/format.hpp"
#include "measure/statistics/statistics.hpp"
#include "measure/tables/table.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

/// The start of a process, as medians over the measured processes.
struct Start {
  const Measurement* measurement = nullptr;
  double plan_ms = 0;   ///< building, optimizing and planning; peers do not report it
  double load_ms = 0;   ///< weights; peers do not report it
  double first_ms = 0;  ///< of the first run
  double later_ms = 0;  ///< of a later one
  std::optional<Interval> later_interval;
  std::size_t processes = 0;

  [[nodiscard]] double beyond_ms() const { return std::max(0.0, first_ms - later_ms); }
  /// Time spent once per process.
  [[nodiscard]] double once_ms() const { return plan_ms + load_ms + beyond_ms(); }
  [[nodiscard]] double total_ms() const { return plan_ms + load_ms + std::max(first_ms, later_ms); }
};

/// The series of the first run; peers name it after their pass.
const TrialSeries* first_run_of(const Measurement& m) {
  const TrialSeries* const first = find_series(*m.result, "first_run");
  return first != nullptr ? first : find_series(*m.result, "first_forward");
}

bool has_start(const Measurement& m) {
  if (!m.timing || m.time().series == "step") return false;  // a run of steps consists of several trials
  const TrialSeries* const first = first_run_of(m);
  return first != nullptr && first->what != m.time().series;
}

double median_over(const std::vector<const Measurement*>& processes, const auto& series_of_process) {
  std::vector<double> all;
  for (const Measurement* m : processes)
    if (const TrialSeries* const series = series_of_process(*m))
      all.insert(all.end(), series->time_ms.begin(), series->time_ms.end());
  return all.empty() ? 0 : median(all);
}

/// The start of the configuration of `m`, over all files that measured it at the same revision.
Start start_of(const Scenario& scenario, const Measurement& m) {
  std::vector<const Measurement*> processes;
  for (const Measurement* other : scenario.all)
    if (has_start(*other) && other->shown_name() == m.shown_name() && other->is_peer == m.is_peer &&
        other->revision() == m.revision() && other->switches() == m.switches())
      processes.push_back(other);
  // The gain compares two results, as a factor does.
  const bool has_interval = why_no_factor_interval(*m.result).empty();
  Start start{.measurement = &m,
              .later_ms = m.time().median_ms,
              .later_interval = has_interval ? m.time().interval_ms : std::nullopt,
              .processes = 0};
  start.first_ms = median_over(processes, first_run_of);
  start.plan_ms = median_over(processes, [](const Measurement& one) { return find_series(*one.result, "plan"); });
  start.load_ms = median_over(processes, [](const Measurement& one) { return find_series(*one.result, "load"); });
  for (const Measurement* one : processes) start.processes += first_run_of(*one)->time_ms.size();
  return start;
}

/// The start with the least one-time cost among those of the same program: the reference for the others.
const Start* reference_of(const Start& start, const std::vector<Start>& all) {
  const Start* reference = nullptr;
  for (const Start& other : all)
    if (other.measurement->result->source.name == start.measurement->result->source.name &&
        (reference == nullptr || other.once_ms() < reference->once_ms()))
      reference = &other;
  return reference;
}

/// A whole number with three significant digits: "2660000" for 2659449.
std::string three_digits(double value) {
  const double step = value < 1000 ? 1 : std::pow(10, std::floor(std::log10(value)) - 2);
  return fmt::format("{:.0f}", std::round(value / step) * step);
}

/// The number of runs after which faster runs repay the one-time cost against a reference: "pays after 12 [10, 15]
/// runs".
std::string break_even(const Start& start, const Start& reference) {
  if (&start == &reference || start.measurement->unsettled || reference.measurement->unsettled) return {};
  const double once = start.once_ms() - reference.once_ms(), gain = reference.later_ms - start.later_ms;
  const auto runs = [&](double each) { return three_digits(std::ceil(once / each)); };
  const std::string_view word = std::ceil(once / gain) == 1 ? "run" : "runs";
  if (!start.later_interval || !reference.later_interval)
    return gain > 0 ? fmt::format("pays after {} {} (no interval)", runs(gain), word) : "not shown to pay";
  const Interval gains{reference.later_interval->low - start.later_interval->high,
                       reference.later_interval->high - start.later_interval->low};
  if (gains.high <= 0) return "never pays";
  if (gains.low <= 0) return "not shown to pay";
  return fmt::format("pays after {} [{}, {}] {}", runs(gain), runs(gains.high), runs(gains.low), word);
}

/// The same with the reference's name, if a bar's text has room for it.
std::string break_even_against(const std::string& paid, const Start& reference) {
  constexpr std::size_t kLongestReference = 20;
  const std::string& name = reference.measurement->label;
  return name.size() <= kLongestReference ? fmt::format("{} against {}", paid, name) : paid;
}

/// One segment of the bars.
struct StartPart {
  std::string_view name;
  std::string_view role;
  double (*ms)(const Start& start);
};
constexpr std::array<StartPart, 4> kStartParts = {{
    {"planning", "purple", [](const Start& start) { return start.plan_ms; }},
    {"loading weights", "sky", [](const Start& start) { return start.load_ms; }},
    {"first run beyond a later one", "gold", [](const Start& start) { return start.beyond_ms(); }},
    {"a later run", "blue", [](const Start& start) { return std::min(start.first_ms, start.later_ms); }},
}};

json start_tip(const Start& start, const std::string& paid) {
  Tip tip(start.measurement->label);
  for (const StartPart& part : kStartParts) tip.row(part.name, exact(part.ms(start), "ms"));
  tip.row("first run", exact(start.first_ms, "ms"));
  tip.row("in all, to the first result", exact(start.total_ms(), "ms"));
  if (!paid.empty()) tip.row("break-even", paid);
  tip.row("processes", fmt::format("{}", start.processes)).timing(*start.measurement);
  return tip.json();
}

std::vector<std::string> names_of_starts(const std::vector<Start>& starts) {
  std::vector<std::string> names;
  for (const Start& start : starts) names.push_back(start.measurement->shown_name());
  return names;
}

json draw_starts(const std::vector<Start>& starts) {
  std::vector<std::string> names;
  std::vector<json> tips;
  std::vector<std::string> texts, narrow_texts, parts;
  for (const Start& start : starts) {
    const Start& reference = *reference_of(start, starts);
    const std::string paid = break_even(start, reference);
    names.push_back(start.measurement->shown_name());
    tips.push_back(
        start_tip(start, paid.empty() ? "" : fmt::format("{} against {}", paid, reference.measurement->label)));
    std::string text = fmt::format("{} to the first result", label_ms(start.total_ms()));
    std::string narrow = label_ms(start.total_ms());
    if (start.total_ms() > 0) {
      const double share = 100 * start.once_ms() / start.total_ms();
      text += fmt::format(", {}% spent once", format_brief(share));
      narrow += fmt::format(", {}% once", format_brief(share));
    }
    if (start.measurement->unsettled) {
      text += ", unsettled";
      narrow += ", unsettled";
    }
    if (!paid.empty()) text += "\n" + break_even_against(paid, reference);
    if (!paid.empty()) narrow += "\n" + paid.substr(0, paid.find(" ["));
    if (const std::size_t end = paid.find("] "); end != std::string::npos) narrow += paid.substr(end + 1);
    texts.push_back(text);
    narrow_texts.push_back(narrow);
  }
  json option = base_option();
  option["grid"] = {{"left", 8}, {"bottom", 44}, {"containLabel", true}};
  option["yAxis"] = name_axis(std::move(names));
  option["xAxis"] = value_axis("time to the first result", "axis_ms");
  option["series"] = json::array();
  for (const StartPart& part : kStartParts) {
    const auto has_part = [&](const Start& start) { return part.ms(start) > 0; };
    const bool is_last = &part == &kStartParts.back();
    if (!is_last && std::ranges::none_of(starts, has_part)) continue;
    json data = json::array();
    for (std::size_t i = 0; i < starts.size(); ++i) {
      data.push_back({{"value", part.ms(starts[i])}, {"tip", tips[i]}});
      if (starts[i].measurement->unsettled) data.back()["itemStyle"] = {{"opacity", 0.35}};
      if (is_last) data.back().update({{"text", texts[i]}, {"narrow", narrow_texts[i]}});
    }
    parts.emplace_back(part.name);
    option["series"].push_back({{"type", "bar"},
                                {"stack", "start"},
                                {"name", part.name},
                                {"barMaxWidth", 26},
                                {"data", std::move(data)},
                                {"itemStyle", {{"color", color(part.role)}}}});
  }
  option["series"].back()["label"] = value_label({{"lineHeight", 14}});
  fit_bars(option, texts, narrow_texts);
  add_legend(option, parts, 12);
  return option;
}

}  // namespace

Drawn compilation_overhead(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios()) {
    std::vector<Start> starts;
    std::vector<const Measurement*> shown;
    for (const Measurement* m : scenario.current) {
      if (!has_start(*m)) continue;
      starts.push_back(start_of(scenario, *m));
      shown.push_back(m);
    }
    if (starts.empty()) continue;
    Chart chart{.file = numbered("compilation_overhead", drawn.charts.size()),
                .title = "Time to the first result, and what of it is spent once",
                .subtitle = subtitle_of(scenario),
                .of = {&scenario},
                .option = draw_starts(starts),
                .notes = {},
                .height = height_of_bars(names_of_starts(starts)) + 76};
    const auto [fewest, most] = std::ranges::minmax(starts, {}, &Start::processes);
    chart.notes.push_back(fmt::format("n = {}{} of each start, medians.",
                                      fewest.processes == most.processes ? "" : fmt::format("{} to ", fewest.processes),
                                      format_count(static_cast<std::int64_t>(most.processes), "process")));
    chart.notes.emplace_back("What the first run takes beyond a later one is compiling, folding and capturing.");
    if (starts.size() > 1)
      chart.notes.emplace_back(
          "Break-even is against the configuration of the same program that spends least once: what is spent "
          "more, over what each later run gains. Its interval is from those of the later runs alone; runs of one "
          "process have none.");
    if (std::ranges::any_of(shown, &Measurement::is_peer))
      chart.notes.emplace_back("Other programs tell the first run alone, without loading.");
    note_unsettled(chart.notes, shown);
    note_revisions(chart.notes, shown);
    drawn.charts.push_back(std::move(chart));
  }
  drawn.left_out = "no result has both first and later runs (headroom bench MODEL --first-step --out FILE)";
  return drawn;
}

}  // namespace headroom::charts
