// Matmul rates on matrix units, by compute type: median, minimum and maximum over the trials.

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "measure/statistics/statistics.hpp"
#include "report/charts/charts.hpp"
#include "report/kernel_rates.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

/// The rate of the median launch, as tables and the roofline give it.
Bar make_bar(const KernelRate& kernel) {
  const std::vector<double>& rates = kernel.flops_per_second;
  const auto [least, most] = std::ranges::minmax(rates);
  const double rate = kernel.median_flops;
  Tip tip(kernel.measurement->label);
  tip.row("median", exact(rate, "FLOP/s")).row("least", exact(least, "FLOP/s")).row("most", exact(most, "FLOP/s"));
  tip.row("trials", fmt::format("{}", rates.size()))
      .row("kernel", fmt::format("{} ({})", kernel.node->kernel, kernel.node->implementation))
      .row("computes in", kernel.node->compute_type);
  return {.name = kernel.measurement->label,
          .value = rate,
          .interval = Interval{least, most},
          .text = label_si(rate, "FLOP/s"),
          .role = role_of_compute_type(kernel.node->compute_type),
          .tip = tip.json(),
          .is_hollow = kernel.measurement->unsettled.has_value()};
}

/// "Computed in: blue bf16, f16; grey f32."
std::string colours_of(const std::map<std::string_view, std::set<std::string>>& types) {
  std::vector<std::string> parts;
  for (const auto& [role, names] : types)
    parts.push_back(fmt::format("{} {}", role == "base" ? "grey" : role, fmt::join(names, ", ")));
  return fmt::format("Computed in: {}.", fmt::join(parts, "; "));
}

}  // namespace

Drawn tensor_core_analysis(const Dataset& dataset) {
  Drawn drawn;
  for (const KernelSet& set : kernel_sets_of(dataset)) {
    std::vector<Bar> bars;
    std::vector<const Measurement*> shown;
    std::map<std::string_view, std::set<std::string>> types;  // by colour
    for (const KernelRate& kernel : set.kernels) {
      if (!kernel.is_one_launch || kernel.node->cost_unit != "matrix" || kernel.flops_per_second.empty()) continue;
      bars.push_back(make_bar(kernel));
      shown.push_back(kernel.measurement);
      types[role_of_compute_type(kernel.node->compute_type)].insert(kernel.node->compute_type);
    }
    if (bars.empty()) continue;
    std::ranges::stable_sort(bars, std::ranges::greater{}, &Bar::value);
    nlohmann::json option = horizontal_bars(bars, "median rate", "axis_flops");
    // A label is as wide as "100 TFLOP/s". Without room for all of them, some would be hidden at uneven distances.
    option["xAxis"]["splitNumber"] = 4;
    narrow_option(option)["xAxis"]["splitNumber"] = 2;
    drawn.charts.push_back(
        {.file = numbered("tensor_core_analysis", drawn.charts.size()),
         .title = "What matrix products reach, by compute type",
         .subtitle = set.hardware,
         .of = dataset.scenarios_of(measurements_of(set)),
         .option = std::move(option),
         .notes = {"Bars are medians over the trials, whiskers the least and the most.", colours_of(types)},
         .height = height_of_bars(names_of(bars))});
    note_unsettled(drawn.charts.back().notes, shown);
    note_revisions(drawn.charts.back().notes, measurements_of(set));
  }
  drawn.left_out = "no product was measured by itself (headroom bench kernels)";
  return drawn;
}

}  // namespace headroom::charts
