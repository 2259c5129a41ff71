// Bytes of weights: a waterfall over the ladder, and each switch alone, with its accuracy if it was judged.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/tables/table.hpp"
#include "report/advice/quality_loss.hpp"
#include "report/charts/charts.hpp"
#include "report/ladder_view.hpp"
#include "report/plots/waterfall.hpp"

namespace headroom::charts {
namespace {

std::optional<double> weight_bytes_of(const RungView& rung) {
  const std::optional<MemoryReport>& memory = rung.measurement->result->memory;
  if (!memory || !memory->weights_bytes) return {};
  return static_cast<double>(*memory->weights_bytes);
}

/// "accuracy 97.8% [96.1, 98.8]" if it was judged, in this measurement or the latest one of the same
/// configuration.
std::string describe_accuracy(const Scenario& scenario, const Measurement& m) {
  const QualityRecord* const accuracy = find_quality(scenario, m, "accuracy");
  if (accuracy == nullptr || !accuracy->value) return {};
  std::string text = fmt::format("accuracy {:.1f}%", 100 * *accuracy->value);
  if (accuracy->interval)
    text += fmt::format(" [{:.1f}, {:.1f}]", 100 * accuracy->interval->low, 100 * accuracy->interval->high);
  return text;
}

constexpr double kLeastFactor = 0.005;  // a smaller change would be shown as 1.00x

/// "2.00x smaller", "1.05x larger", "0.1% smaller" where a factor would be shown as 1, "unchanged".
std::string size_change(double from, double to) {
  if (to == from) return "unchanged";
  if (const double share = std::abs(to / from - 1); share < kLeastFactor)
    return fmt::format("{}% {}", format_brief(100 * share), to > from ? "larger" : "smaller");
  return to > from ? label_factor(to / from) + " larger" : label_factor(from / to) + " smaller";
}

/// The baseline and each switch alone; empty if none changes the size.
std::optional<Chart> draw_sizes_alone(const LadderView& ladder) {
  const std::optional<double> baseline = weight_bytes_of(ladder.baseline);
  if (!baseline || !(*baseline > 0)) return {};
  std::vector<Bar> bars;
  std::vector<const Measurement*> shown;
  bool changes = false, is_judged = false;
  const auto add = [&](const RungView& rung) {
    const std::optional<double> bytes = weight_bytes_of(rung);
    if (!bytes || !(*bytes > 0)) return;
    const std::string accuracy = describe_accuracy(*ladder.scenario, *rung.measurement);
    std::string text = label_bytes(*bytes);
    if (*bytes != *baseline) text += (accuracy.empty() ? "  " : ", ") + size_change(*baseline, *bytes);
    if (std::abs(*bytes / *baseline - 1) >= kLeastFactor)
      text += fmt::format(" ({}%)", format_signed(100 * (*bytes / *baseline - 1)));
    if (!accuracy.empty()) text += "  " + accuracy;
    Tip tip(rung.measurement->label);
    tip.row("weights", exact(*bytes, "bytes")).row("of the baseline", exact(*baseline, "bytes"));
    if (!accuracy.empty()) tip.row("quality", accuracy);
    changes |= *bytes != *baseline;
    is_judged |= !accuracy.empty();
    bars.push_back({.name = rung.label_without_time(),
                    .value = *bytes,
                    .interval = {},
                    .text = text,
                    .role = &rung == &ladder.baseline ? "base"
                            : *bytes < *baseline      ? "green"
                            : *bytes > *baseline      ? "purple"
                                                      : "blue",
                    .tip = tip.json()});
    shown.push_back(rung.measurement);
  };
  add(ladder.baseline);
  for (const RungView& rung : ladder.singles) add(rung);
  if (!changes) return {};
  Chart chart{.file = {},
              .title = "Size of the weights with each switch alone",
              .subtitle = subtitle_of(*ladder.scenario),
              .of = {ladder.scenario},
              .option = horizontal_bars(bars, "weights, as the kernels hold them", "axis_bytes"),
              .notes = {},
              .height = height_of_bars(names_of(bars)),
              .variant = "alone"};
  const double most = std::ranges::max(bars, {}, &Bar::value).value;
  set_byte_axis(chart.option, "weights, as the kernels hold them", most);
  if (is_judged) chart.notes.emplace_back("Accuracy is with its 95% score interval.");
  note_revisions(chart.notes, shown);
  return chart;
}

/// The cumulative rungs; empty if none changes the size.
std::optional<Chart> draw_size_waterfall(const LadderView& ladder) {
  std::vector<WaterfallStep> steps;
  const auto add = [&](const RungView& rung) {
    const std::optional<double> bytes = weight_bytes_of(rung);
    if (!bytes) return;
    Tip tip(rung.measurement->label);
    tip.row("weights", exact(*bytes, "bytes"));
    std::string text = label_bytes(*bytes);
    if (!steps.empty() && *bytes > 0 && steps.back().value != *bytes) {
      text += "  " + size_change(steps.back().value, *bytes);
      tip.row("before it", exact(steps.back().value, "bytes"));
    }
    const double before = steps.empty() ? *bytes : steps.back().value;
    steps.push_back({.name = rung.label_without_time(),
                     .value = *bytes,
                     .interval = {},
                     .text = text,
                     .tip = tip.json(),
                     .change = *bytes < before   ? Finding::kAbove
                               : *bytes > before ? Finding::kBelow
                                                 : Finding::kInconclusive});
  };
  add(ladder.baseline);
  for (const RungView& rung : ladder.cumulative) add(rung);
  const auto differs = [&](const WaterfallStep& step) { return step.value != steps.front().value; };
  if (steps.size() < 2 || std::ranges::none_of(steps, differs)) return {};
  std::string total = label_bytes(steps.back().value);
  if (steps.back().value > 0) total += fmt::format("  {} in all", size_change(steps.front().value, steps.back().value));
  std::vector<std::string> names = {"all together"};
  for (const WaterfallStep& step : steps) names.push_back(step.name);
  return Chart{.file = {},
               .title = ladder.cumulative.size() > 1 ? "Size of the weights as switches are added one after the other"
                                                     : "Size of the weights with all switches",
               .subtitle = subtitle_of(*ladder.scenario),
               .of = {ladder.scenario},
               .option = waterfall(steps, total, "weights, as the kernels hold them", "axis_bytes"),
               .notes = {},
               .height = height_of_bars(names)};
}

}  // namespace

Drawn size_reduction(const Dataset& dataset) {
  Drawn drawn{.charts = {},
              .left_out =
                  "no ladder says how large its weights are, or no switch of one changes that (headroom ladder "
                  "--opt bf16)"};
  for (const LadderView& ladder : ladders_of(dataset))
    for (std::optional<Chart> chart : {draw_size_waterfall(ladder), draw_sizes_alone(ladder)}) {
      if (!chart) continue;
      chart->file = numbered("size_reduction", drawn.charts.size());
      drawn.charts.push_back(std::move(*chart));
    }
  return drawn;
}

}  // namespace headroom::charts
