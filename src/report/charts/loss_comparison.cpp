// Each quality metric, by configuration.

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "base/text/format.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

/// The references of a metric in a scenario; values against different references are not comparable.
std::vector<std::string> references_of(const Scenario& scenario, const QualityMetric& metric) {
  std::vector<std::string> references;
  for (const Measurement* m : scenario.current)
    if (const QualityRecord* record = find_quality(*m->result, metric.name))
      if (std::ranges::find(references, record->against) == references.end()) references.push_back(record->against);
  return references;
}

/// The value printed after its bar: very small ones as "5.9e-6".
std::string text_of(const QualityRecord& record, const QualityMetric& metric) {
  if (!record.value || metric.name == "accuracy") return quality_value(record);
  return fmt::format("{}{}{}", format_significant(*record.value), metric.unit.empty() ? "" : " ", metric.unit);
}

/// Identical output has no finite value; it is drawn as an outline as long as the longest bar.
void draw_identical(std::vector<Bar>& bars, const std::vector<bool>& is_identical) {
  double most = 0;
  for (const Bar& bar : bars) most = std::max(most, bar.value);
  for (std::size_t i = 0; i < bars.size(); ++i)
    if (is_identical[i]) bars[i].value = most > 0 ? 1.1 * most : 1;
}

/// Beyond this many decibels an error is below the rounding of 16 bits. Longer bars would leave no room for the others.
constexpr double kMostDecibels = 100;

/// The share whose loss is marked by a line.
constexpr double kMarkedLoss = 0.01;

/// The value of the metric at which kMarkedLoss is lost.
std::optional<double> marked_value(const Dataset& dataset, const Scenario& scenario, const QualityMetric& metric,
                                   const std::string& reference) {
  for (const Measurement* m : scenario.current)
    for (const MeasuredLoss& loss : measures_of(dataset, scenario, *m))
      if (loss.metric == &metric && !loss.is_pass && loss.own.against == reference)
        return value_at_loss(loss, kMarkedLoss);
  return {};
}

/// Draws a dashed line across the bars. Texts that it would cross begin after it.
void mark(nlohmann::json& option, double value, double longest) {
  constexpr double kTextShare = 0.15;  // of the plot's width
  for (nlohmann::json& end : option["series"][1]["data"])
    if (const double at = end["value"]; at < value && value - at < kTextShare * std::max(longest, value))
      end["value"] = value;
  nlohmann::json& line = option["series"][0]["markLine"] = dashed_line("xAxis", value);
  line["lineStyle"]["width"] = 1.5;
  if (value <= longest) return;
  option["xAxis"]["max"] = 1.05 * value;
  option["xAxis"]["axisLabel"]["showMaxLabel"] = false;  // no round number
}

Chart draw(const Dataset& dataset, const Scenario& scenario, const QualityMetric& metric,
           const std::string& reference) {
  std::vector<Bar> bars;
  std::vector<bool> is_identical;
  std::vector<const Measurement*> shown;
  for (const Measurement* m : scenario.current) {
    const QualityRecord* record = find_quality(*m->result, metric.name);
    if (record == nullptr || record->against != reference) continue;
    Tip tip(m->label);
    tip.row(metric.name, record->value ? exact(*record->value, metric.unit) : record->note.value_or(""));
    if (record->interval) tip.row("95% interval", exact(*record->interval, metric.unit));
    tip.row("against", record->against);
    bars.push_back({.name = m->shown_name(),
                    .value = record->value.value_or(0),
                    .interval = record->interval,
                    .text = text_of(*record, metric),
                    .role = m->is_peer         ? "purple"
                            : m->is_baseline() ? "base"
                                               : "blue",
                    .tip = tip.json(),
                    .is_hollow = !record->value});
    is_identical.push_back(!record->value && record->note == "identical");
    shown.push_back(m);
  }
  Chart chart{.file = {},
              .title = fmt::format("Quality by configuration: {}", metric.title),
              .subtitle = subtitle_of(scenario),
              .of = {&scenario},
              .option = {},
              .notes = {std::string(metric.note), fmt::format("Held against: {}.", reference)},
              .height = height_of_bars(names_of(bars))};
  if (bars.size() < 2) return chart;
  if (metric.scale == LossScale::kPsnr) {
    bool is_cut = false;
    for (Bar& bar : bars) {
      is_cut |= std::exchange(bar.value, std::min(bar.value, kMostDecibels)) > kMostDecibels;
      if (bar.interval)
        bar.interval =
            Interval{std::min(bar.interval->low, kMostDecibels), std::min(bar.interval->high, kMostDecibels)};
    }
    if (is_cut) chart.notes.push_back(fmt::format("Bars end at {} dB.", kMostDecibels));
  }
  draw_identical(bars, is_identical);
  double longest = 0;
  for (const Bar& bar : bars) longest = std::max({longest, bar.value, bar.interval ? bar.interval->high : 0});
  chart.option = horizontal_bars(
      bars, fmt::format("{}{}{}", metric.title, metric.unit.empty() ? "" : " in ", metric.unit), metric.axis_fn);
  if (const std::optional<double> value = marked_value(dataset, scenario, metric, reference); value && *value > 0) {
    mark(chart.option, *value, longest);
    chart.notes.push_back(fmt::format("The dashed line is a limit: {}.", loss_limit_text(metric, kMarkedLoss)));
  }
  if (std::ranges::any_of(shown, &Measurement::is_peer)) chart.notes.emplace_back("Purple: other programs.");
  note_few_images(chart.notes, shown, metric.name);
  note_revisions(chart.notes, shown);
  return chart;
}

}  // namespace

Drawn loss_comparison(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios())
    for (const QualityMetric& metric : quality_metrics())
      for (const std::string& reference : references_of(scenario, metric)) {
        Chart chart = draw(dataset, scenario, metric, reference);
        if (chart.option.is_null()) continue;
        chart.file = numbered("loss_comparison", drawn.charts.size());
        chart.variant = metric.name;
        drawn.charts.push_back(std::move(chart));
      }
  drawn.left_out = "no two configurations of one work have a quality in common";
  return drawn;
}

}  // namespace headroom::charts
