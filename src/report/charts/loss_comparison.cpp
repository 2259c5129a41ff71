// Each measure of quality, configuration by configuration.

#include <fmt/format.h>

#include <algorithm>

#include "measure/table.hpp"
#include "report/charts/charts.hpp"
#include "report/option.hpp"
#include "report/quality_loss.hpp"

namespace headroom::charts {
namespace {

struct Metric {
  std::string_view name;
  std::string_view title;
  std::string_view unit;
  std::string_view axis_fn;
  std::string_view note;
};
constexpr Metric kMetrics[] = {
    {"accuracy", "Accuracy of the images, by configuration", "", "axis_percent",
     "How often a classifier sees what was asked for; whiskers are its 95% score interval. Higher is better."},
    {"frechet_distance", "Fréchet distance from real images, by configuration", "", "axis_plain",
     "Lower is better. Biased upwards for few images: compare only values of equally many."},
    {"psnr_db", "PSNR against the baseline, by configuration", "dB", "axis_plain",
     "How far images moved from the baseline's of the same seeds, in dB: higher is nearer. Identical images have "
     "none."},
    {"relative_l2", "Relative L2 error against the baseline, by configuration", "", "axis_plain", "Lower is better."},
};

std::string text_of(const QualityRecord& record, const Metric& metric) {
  if (!record.value) return record.note.value_or("");
  if (metric.name == "accuracy") return fmt::format("{:.1f}%", 100 * *record.value);
  return fmt::format("{}{}{}", format_significant(*record.value), metric.unit.empty() ? "" : " ", metric.unit);
}

}  // namespace

Drawn loss_comparison(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios())
    for (const Metric& metric : kMetrics) {
      std::vector<Bar> bars;
      for (const Measurement* m : scenario.current) {
        const QualityRecord* record = find_quality(*m->result, metric.name);
        if (record == nullptr) continue;
        Tip tip(m->label);
        tip.row(metric.name, record->value ? exact(*record->value, metric.unit) : record->note.value_or(""));
        if (record->interval) tip.row("95% interval", exact(*record->interval, metric.unit));
        tip.row("against", record->against);
        bars.push_back({.name = m->shown_name(),
                        .value = record->value.value_or(0),
                        .interval = record->interval,
                        .text = text_of(*record, metric),
                        .role = m->is_peer              ? "purple"
                                : m->switches().empty() ? "base"
                                                        : "blue",
                        .tip = tip.json()});
      }
      if (bars.size() < 2) continue;
      drawn.charts.push_back({.file = numbered("loss_comparison", drawn.charts.size()),
                              .title = std::string(metric.title),
                              .subtitle = subtitle_of(scenario),
                              .option = horizontal_bars(bars,
                                                        metric.name == "psnr_db"    ? "PSNR in dB"
                                                        : metric.name == "accuracy" ? "accuracy"
                                                                                    : "",
                                                        metric.axis_fn),
                              .notes = {std::string(metric.note)},
                              .height = height_of_bars(bars.size())});
      note_revisions(drawn.charts.back().notes, scenario.current);
    }
  drawn.left_out = "no two configurations of one work have a quality in common";
  return drawn;
}

}  // namespace headroom::charts
