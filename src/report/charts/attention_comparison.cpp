// The gain of `flash` in a model, and the rates of attention kernels alone, ours next to peers'.

#include <fmt/format.h>

#include <algorithm>

#include "report/advice/switch_pairs.hpp"
#include "report/charts/charts.hpp"
#include "report/kernel_rates.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

std::string_view role_of(const KernelRate& kernel) {
  if (kernel.measurement->is_peer) return "purple";
  return kernel.is_one_launch ? "blue" : "base";
}

}  // namespace

Drawn attention_comparison(const Dataset& dataset) {
  Drawn drawn{
      .charts = compare_switch(dataset, "flash", "attention_comparison", "What tiled attention does to time"),
      .left_out =
          "no configuration was measured both with and without the switch flash, and no attention kernel by itself"};
  for (const KernelSet& set : kernel_sets_of(dataset)) {
    std::vector<Bar> bars;
    std::vector<const Measurement*> shown;
    bool has_standard = false;
    for (const KernelRate& kernel : set.kernels) {
      if (kernel.measurement->result->subject.name != "attention") continue;
      shown.push_back(kernel.measurement);
      has_standard |= !kernel.measurement->is_peer && !kernel.is_one_launch;
      Tip tip(kernel.measurement->label);
      tip.timing(*kernel.measurement)
          .row("rate", exact(kernel.median_flops, "FLOP/s"))
          .row(kernel.is_one_launch ? "kernel" : "kernels", kernels_in(*kernel.plan))
          .row("computes in", kernel.node->compute_type);
      bars.push_back({.name = kernel.measurement->label,
                      .value = kernel.measurement->time().median_ms,
                      .interval = kernel.measurement->time().interval_ms,
                      .text = fmt::format("{}  {}{}", label_ms(kernel.measurement->time().median_ms),
                                          label_si(kernel.median_flops, "FLOP/s"),
                                          kernel.measurement->unsettled ? "  unsettled" : ""),
                      .role = role_of(kernel),
                      .tip = tip.json(),
                      .is_hollow = kernel.measurement->unsettled.has_value()});
    }
    if (bars.empty()) continue;
    drawn.charts.push_back({.file = numbered("attention_comparison", drawn.charts.size()),
                            .title = "Attention kernels by themselves",
                            .subtitle = set.hardware,
                            .of = dataset.scenarios_of(measurements_of(set)),
                            .option = horizontal_bars(bars, "time of one attention", "axis_ms"),
                            .notes = {},
                            .height = height_of_bars(names_of(bars))});
    std::vector<std::string>& notes = drawn.charts.back().notes;
    if (has_standard)
      notes.emplace_back(
          "Grey is standard attention, in several launches that write the scores to memory and read them. Its FLOP/s "
          "count the FLOPs of scaling and softmax too.");
    if (std::ranges::any_of(shown, &Measurement::is_peer)) notes.emplace_back("Purple: other programs.");
    note_whiskers(notes, shown);
    note_unsettled(notes, shown);
    note_revisions(drawn.charts.back().notes, shown);
  }
  return drawn;
}

}  // namespace headroom::charts
