// The gain of fusion: `fuse` on each configuration that was measured with and without it, and each fused kernel
// against the plain ops that it replaces.

#include <fmt/format.h>

#include <algorithm>

#include "base/text/format.hpp"
#include "report/advice/switch_pairs.hpp"
#include "report/charts/charts.hpp"
#include "report/kernel_rates.hpp"
#include "report/plots/dot_plot.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

/// A fused kernel and the plain ops for the same work, measured in one run.
struct FusedPair {
  const KernelRate* fused;
  const KernelRate* plain;
};

/// The work of a kernel, without whether it ran fused or in plain ops.
std::string fused_work_of(const KernelRate& kernel) {
  nlohmann::json request = kernel.measurement->result->subject.request;
  request.erase("form");
  return kernel.measurement->result->subject.name + "|" + request.dump();
}

bool is_run_apart(const KernelRate& kernel) {
  const nlohmann::json& request = kernel.measurement->result->subject.request;
  const auto form = request.find("form");
  return form != request.end() && *form == "apart";
}

/// Attention in several launches belongs to attention_comparison.
std::vector<FusedPair> fused_pairs_of(const KernelSet& set) {
  std::vector<FusedPair> pairs;
  for (const KernelRate& plain : set.kernels) {
    if (!is_run_apart(plain) || plain.measurement->result->subject.name == "attention") continue;
    const auto fused = std::ranges::find_if(set.kernels, [&](const KernelRate& other) {
      return !is_run_apart(other) && other.measurement->file == plain.measurement->file &&
             fused_work_of(other) == fused_work_of(plain);
    });
    if (fused != set.kernels.end()) pairs.push_back({.fused = &*fused, .plain = &plain});
  }
  return pairs;
}

Dot fused_dot(const FusedPair& pair, const Estimate& factor) {
  const Measurement &fused = *pair.fused->measurement, &plain = *pair.plain->measurement;
  Tip tip(fused.label);
  tip.factor("against unfused", factor)
      .row("fused", exact(fused.time().median_ms, "ms"))
      .row("kernel", kernels_in(*pair.fused->plan))
      .row("unfused", exact(plain.time().median_ms, "ms"))
      .row("kernels", kernels_in(*pair.plain->plan))
      .row("launches", fmt::format("{} and {}", pair.fused->plan->nodes.size(), pair.plain->plan->nodes.size()))
      .row("trials", fmt::format("{} and {}", fused.time().trials_ms.size(), plain.time().trials_ms.size()));
  return {.name = fused.label,
          .value = factor.value,
          .interval = factor.interval,
          .text = fmt::format("{}  {}, unfused {}", label_factor(factor), label_ms(fused.time().median_ms),
                              label_ms(plain.time().median_ms)),
          .is_unsettled = false,
          .tip = tip.json()};
}

std::optional<Chart> draw_fused_kernels(const Dataset& dataset, const KernelSet& set, std::size_t index) {
  std::vector<Dot> dots;
  std::vector<const Measurement*> shown, unsettled;
  for (const FusedPair& pair : fused_pairs_of(set)) {
    for (const KernelRate* kernel : {pair.fused, pair.plain})
      if (kernel->measurement->unsettled) unsettled.push_back(kernel->measurement);
    const std::optional<Estimate> factor = dataset.factor(*pair.plain->measurement, *pair.fused->measurement);
    if (!factor) continue;
    dots.push_back(fused_dot(pair, *factor));
    shown.insert(shown.end(), {pair.fused->measurement, pair.plain->measurement});
  }
  if (dots.empty()) return {};
  std::size_t least = shown.front()->time().trials_ms.size();
  for (const Measurement* m : shown) least = std::min(least, m->time().trials_ms.size());
  Chart chart{.file = numbered("fusion_speedup", index),
              .title = "Fused kernels against the plain ops that they replace",
              .subtitle = set.hardware,
              .of = dataset.scenarios_of(shown),
              .option = dot_plot(dots, "how many times as fast as unfused", "axis_factor", 1, Finding::kAbove),
              .notes = dot_plot_notes(dots, 1, "faster", "slower"),
              .height = height_of_dots(dots)};
  chart.notes.push_back(
      fmt::format("n = {} of each or more.", format_count(static_cast<std::int64_t>(least), "launch")));
  note_unsettled(chart.notes, unsettled);
  note_revisions(chart.notes, shown);
  return chart;
}

}  // namespace

Drawn fusion_speedup(const Dataset& dataset) {
  Drawn drawn{
      .charts = compare_switch(dataset, "fuse", "fusion_speedup", "What fusing kernels does to time"),
      .left_out =
          "no configuration was measured both with and without the switch fuse (headroom ladder --opt fuse), and "
          "no kernel both fused and unfused (headroom bench kernels --filter gelu_tanh)"};
  for (const KernelSet& set : kernel_sets_of(dataset))
    if (std::optional<Chart> chart = draw_fused_kernels(dataset, set, drawn.charts.size()))
      drawn.charts.push_back(std::move(*chart));
  return drawn;
}

}  // namespace headroom::charts
