// Score of each configuration relative to the baseline: Fréchet distance in percent of the baseline's, accuracy in
// percentage points.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/text/format.hpp"
#include "measure/tables/table.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/plots/dot_plot.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

/// The baseline that was judged in the file of a measurement; its images have the same seeds.
const Measurement* judged_baseline_of(const Scenario& scenario, const Measurement& m) {
  const auto found = std::ranges::find_if(scenario.all, [&](const Measurement* other) {
    return other->file == m.file && other->is_baseline() &&
           other->result->configuration.baseline_dtype == m.result->configuration.baseline_dtype;
  });
  return found == scenario.all.end() ? nullptr : *found;
}

/// Records of one metric for a configuration and its baseline.
struct JudgedPair {
  const Measurement* measurement;
  const QualityRecord* own;
  const QualityRecord* base;
};

std::vector<JudgedPair> judged_pairs_of(const Scenario& scenario, std::string_view metric) {
  std::vector<JudgedPair> pairs;
  for (const Measurement* m : scenario.current) {
    if (m->is_peer || m->is_baseline()) continue;
    const Measurement* const baseline = judged_baseline_of(scenario, *m);
    if (baseline == nullptr) continue;
    const QualityRecord *const own = find_quality(*m->result, metric), *const base =
                                                                           find_quality(*baseline->result, metric);
    if (own == nullptr || base == nullptr || !own->value || !base->value || own->against != base->against) continue;
    pairs.push_back({.measurement = m, .own = own, .base = base});
  }
  return pairs;
}

/// In percent of the baseline's. Has the interval of the difference if it was judged on the same seeds.
std::optional<Dot> frechet_change(const JudgedPair& pair) {
  const double base = *pair.base->value;
  if (!(base > 0)) return {};
  const QualityRecord* const difference = find_quality(*pair.measurement->result, "frechet_difference");
  const bool is_paired = difference != nullptr && difference->value.has_value();
  Dot dot{.name = pair.measurement->shown_name(),
          .value = (is_paired ? *difference->value : *pair.own->value - base) / base,
          .interval = {},
          .text = {},
          .is_unsettled = false,
          .tip = {}};
  if (is_paired && difference->interval)
    dot.interval = Interval{difference->interval->low / base, difference->interval->high / base};
  dot.text = fmt::format("{}  {} from {}", percent_with_interval(dot.value, dot.interval),
                         format_significant(*pair.own->value), format_significant(base));
  return dot;
}

/// "-3 points [-4.41, -1.59]" for a difference of shares.
std::string points_text(const Dot& dot) {
  std::string text = format_signed(100 * dot.value) + " points";
  if (dot.interval)
    text += fmt::format(" [{}, {}]", format_signed(100 * dot.interval->low), format_signed(100 * dot.interval->high));
  return text;
}

/// In percentage points. Has the interval of the difference if it was judged on the same seeds. Otherwise it is
/// Newcombe's for two proportions from their score intervals ("Interval estimation for the difference between
/// independent proportions", 1998, method 10), which is conservative if the seeds are the same.
std::optional<Dot> accuracy_change(const JudgedPair& pair) {
  const double own = *pair.own->value, base = *pair.base->value;
  const QualityRecord* const difference = find_quality(*pair.measurement->result, "accuracy_difference");
  Dot dot{.name = pair.measurement->shown_name(),
          .value = own - base,
          .interval = {},
          .text = {},
          .is_unsettled = false,
          .tip = {}};
  if (difference != nullptr && difference->value && difference->interval) {
    dot.value = *difference->value;
    dot.interval = difference->interval;
  } else if (pair.own->interval && pair.base->interval) {
    const Interval &of_own = *pair.own->interval, &of_base = *pair.base->interval;
    dot.interval = Interval{dot.value - std::hypot(own - of_own.low, of_base.high - base),
                            dot.value + std::hypot(of_own.high - own, base - of_base.low)};
  }
  dot.text = fmt::format("{}  {:.1f}% from {:.1f}%", points_text(dot), 100 * own, 100 * base);
  return dot;
}

/// A metric that is compared with the baseline's.
struct ComparedMetric {
  std::string_view name;
  std::string_view title;
  std::string_view axis;
  std::string_view axis_fn;
  Finding good;
  std::optional<Dot> (*change)(const JudgedPair& pair);
  std::string_view note;
};

constexpr ComparedMetric kCompared[] = {
    {"frechet_distance", "Fréchet distance against the baseline's, in percent", "change of the Fréchet distance",
     "axis_percent", Finding::kBelow, frechet_change,
     "A point without a whisker was judged without `frechet_difference`, the difference on the same seeds. The "
     "interval is that of "
     "the difference; the baseline's own distance is taken as it was measured."},
    {"accuracy", "Accuracy against the baseline's, in percentage points", "change of accuracy, in percentage points",
     "axis_points", Finding::kAbove, accuracy_change,
     "The interval is that of `accuracy_difference`, the difference on the same seeds; without it Newcombe's of two "
     "independent proportions, which is wider than need be."},
};

std::vector<std::string> references_among(const std::vector<JudgedPair>& pairs) {
  std::vector<std::string> references;
  for (const JudgedPair& pair : pairs)
    if (std::ranges::find(references, pair.own->against) == references.end()) references.push_back(pair.own->against);
  return references;
}

std::optional<Chart> draw_changes(const Scenario& scenario, const ComparedMetric& metric,
                                  const std::vector<JudgedPair>& pairs, const std::string& reference,
                                  std::size_t index) {
  std::vector<Dot> dots;
  std::vector<const Measurement*> shown;
  for (const JudgedPair& pair : pairs) {
    if (pair.own->against != reference) continue;
    std::optional<Dot> dot = metric.change(pair);
    if (!dot) continue;
    Tip tip(dot->name);
    tip.row(metric.name, exact(*pair.own->value, "")).row("of the baseline", exact(*pair.base->value, ""));
    tip.row("change", exact(dot->value, ""));
    tip.row("95% interval", dot->interval ? exact(*dot->interval, "") : "none in the result");
    tip.row("against", reference);
    dot->tip = tip.json();
    dots.push_back(std::move(*dot));
    shown.push_back(pair.measurement);
  }
  if (dots.empty()) return {};
  Chart chart{.file = numbered("relative_loss", index),
              .title = std::string(metric.title),
              .subtitle = subtitle_of(scenario),
              .of = {&scenario},
              .option = dot_plot(dots, metric.axis, metric.axis_fn, 0, metric.good),
              .notes = dot_plot_notes(dots, 0, "better", "worse"),
              .height = height_of_dots(dots),
              .variant = std::string(metric.name)};
  chart.notes.emplace_back(metric.note);
  chart.notes.push_back(fmt::format("Held against: {}.", reference));
  note_few_images(chart.notes, shown, metric.name);
  note_revisions(chart.notes, shown);
  return chart;
}

}  // namespace

Drawn relative_loss(const Dataset& dataset) {
  Drawn drawn;
  for (const Scenario& scenario : dataset.scenarios())
    for (const ComparedMetric& metric : kCompared) {
      const std::vector<JudgedPair> pairs = judged_pairs_of(scenario, metric.name);
      for (const std::string& reference : references_among(pairs))
        if (std::optional<Chart> chart = draw_changes(scenario, metric, pairs, reference, drawn.charts.size()))
          drawn.charts.push_back(std::move(*chart));
    }
  drawn.left_out =
      "no configuration was judged in one run with its baseline for Fréchet distance or accuracy (headroom ladder "
      "--quality 500)";
  return drawn;
}

}  // namespace headroom::charts
