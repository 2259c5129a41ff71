// Time of one image against the batch size, and with a price the cost of a thousand: baseline, fastest
// configuration, peers.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

/// The unit of a batch: an image if images were timed. A forward pass covers the whole batch, and its samples are
/// not images yet.
std::string_view one_of(const Sweep& sweep) {
  return sweep.points.front().scenario->subject.request.contains("batch") ? "sample" : "image";
}

double one_ms(const Sweep& sweep, double batch, double ms) { return one_of(sweep) == "sample" ? ms / batch : ms; }

/// A chart for every sweep over batch sizes. `quantity_of` chooses the drawn quantity.
std::vector<Chart> over_batches(const Dataset& dataset, std::string_view file, std::string_view title,
                                const std::function<SweepQuantity(const Sweep&)>& quantity_of) {
  std::vector<Chart> charts;
  for (const Sweep& sweep : sweeps_over(dataset, {"images", "batch"}, batch_of)) {
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    charts.push_back(
        {.file = numbered(file, charts.size()),
         .title = fmt::format(fmt::runtime(title), one_of(sweep)),
         .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
         .of = dataset.scenarios_of(measurements_of(lines)),
         .option = sweep_option(sweep, lines, fmt::format("{}s at once", one_of(sweep)), quantity_of(sweep)),
         .notes = notes_on(sweep, lines, "{} at once")});
    fit_sweep(charts.back());
  }
  return charts;
}

}  // namespace

Drawn batch_scaling(const Dataset& dataset) {
  return {.charts = over_batches(dataset, "batch_scaling", "What one {} takes when more are made at once",
                                 [](const Sweep& sweep) {
                                   return SweepQuantity{.name = fmt::format("time per {}", one_of(sweep)),
                                                        .of = from_time([&](double batch, double ms) {
                                                          return one_ms(sweep, batch, ms);
                                                        })};
                                 }),
          .left_out = "no configuration was measured with two batch sizes, all else equal"};
}

Drawn cost_scaling(const Dataset& dataset) {
  if (!dataset.price()) return {.charts = {}, .left_out = "the machine's price is not known (--price 2.50/h)"};
  const Price& price = *dataset.price();
  return {
      .charts = over_batches(
          dataset, "cost_scaling", "What 1,000 {}s cost when more are made at once",
          [&](const Sweep& sweep) {
            return SweepQuantity{
                .name = fmt::format("cost of 1,000 {}s{}", one_of(sweep),
                                    price.currency.empty() ? "" : fmt::format(", in {}", price.currency)),
                .of = from_time([&](double batch, double ms) { return price.of_thousand(one_ms(sweep, batch, ms)); }),
                .axis_fn = "axis_plain",
                .label = [&](double cost) { return price.label(cost); },
                .unit = price.currency};
          }),
      .left_out = "no configuration was measured with two batch sizes, all else equal"};
}

}  // namespace headroom::charts
