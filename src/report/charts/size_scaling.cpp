// Time against the parameter count of the model for equal requests, on logarithmic axes.

#include <fmt/ranges.h>

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

/// "Models from left to right: taesd (1767309 parameters), flux-vae (83819683 parameters)."
std::string models_of(const Sweep& sweep) {
  std::vector<std::string> models;
  for (const SweepPoint& point : sweep.points)
    models.push_back(fmt::format("{} ({} parameters)", point.scenario->subject.name, point.x));
  return fmt::format("Models from left to right: {}.", fmt::join(models, ", "));
}

}  // namespace

Drawn size_scaling(const Dataset& dataset) {
  Drawn drawn;
  for (const Sweep& sweep : sweeps_over_models(dataset, parameters_of)) {
    const std::vector<SweepLine> lines = lines_of(sweep);
    if (lines.empty()) continue;
    const std::string y_name = fmt::format("time per {}", unit_of(lines));
    json option = sweep_option(sweep, lines, "parameters", {.name = y_name, .of = from_time(), .is_logarithmic = true});
    option["xAxis"]["axisLabel"]["formatter"] = fn("axis_si");
    drawn.charts.push_back({.file = numbered("size_scaling", drawn.charts.size()),
                            .title = "How time grows with the model",
                            .subtitle = fmt::format("{}; {}", sweep.work, sweep.hardware),
                            .of = dataset.scenarios_of(measurements_of(lines)),
                            .option = std::move(option),
                            .notes = {"Both axes are logarithmic.", models_of(sweep)}});
    fit_sweep(drawn.charts.back());
    for (std::string& note : notes_on(sweep, lines, "{} parameters"))
      drawn.charts.back().notes.push_back(std::move(note));
  }
  drawn.left_out = "no configuration was measured on two models whose parameters the results count, all else equal";
  return drawn;
}

}  // namespace headroom::charts
