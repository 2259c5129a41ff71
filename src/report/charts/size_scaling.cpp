// Time against the parameter count of the model for equal requests, on logarithmic axes.

#include <fmt/format.h>

#include "report/charts/charts.hpp"
#include "report/plots/option.hpp"
#include "report/sweep.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

std::optional<double> parameters_of(const Subject& subject) {
  if (!subject.parameters || *subject.parameters <= 0) return {};
  return static_cast<double>(*subject.parameters);
}

void make_logarithmic(json& axis) {
  axis["type"] = "log";
  axis.erase("min");
  axis.erase("boundaryGap");
  axis.erase("minInterval");
  axis["minorSplitLine"] = {{"show", true}, {"lineStyle", {{"color", color("line")}, {"opacity", 0.6}}}};
}

}  // namespace

Drawn size_scaling(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : sweeps_over_models(dataset, parameters_of)) {
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    const std::string y_name = fmt::format("time per {}", unit_of(lines));
    json option =
        sweep_option(sweep, lines, "parameters", {.name = y_name, .of_time = [](double, double ms) { return ms; }});
    make_logarithmic(option["xAxis"]);
    make_logarithmic(option["yAxis"]);
    option["xAxis"]["axisLabel"]["formatter"] = fn("axis_si");
    drawn.charts.push_back({.file = numbered("size_scaling", drawn.charts.size()),
                            .title = "How time grows with the model",
                            .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                            .of = dataset.scenarios_of(measurements_of(lines)),
                            .option = std::move(option),
                            .notes = {"Both axes are logarithmic. Whiskers are the 95% interval of the median."}});
    fit_sweep(drawn.charts.back());
    for (std::string& note : notes_on(sweep, lines, "{} parameters"))
      drawn.charts.back().notes.push_back(std::move(note));
  }
  drawn.left_out = "no configuration was measured on two models whose parameters the results count, all else equal";
  return drawn;
}

}  // namespace headroom::charts
