#include "report/plots/trial_plot.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "measure/results/timing.hpp"
#include "report/plots/option.hpp"

namespace headroom {

using nlohmann::json;

namespace {

constexpr const char* kPrevious = "previous run";
constexpr const char* kThis = "this run";

json points_of(const std::vector<double>& trials_ms) {
  json points = json::array();
  for (std::size_t i = 0; i < trials_ms.size(); ++i) points.push_back(json::array({i + 1, trials_ms[i]}));
  return points;
}

}  // namespace

json trial_plot(std::string_view what, const std::vector<double>& trials_ms, const std::vector<double>& base_ms) {
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 24}, {"bottom", 44}, {"containLabel", true}};
  add_legend(option, {kPrevious, kThis}, 32);
  option["xAxis"] = value_axis("trial, in the order they ran", "axis_plain");
  option["xAxis"].update({{"min", 0}, {"minInterval", 1}});
  option["yAxis"] = value_axis(fmt::format("time of one {}", unit_of_series(what)), "axis_ms");
  option["yAxis"].update(
      {{"scale", true}, {"nameLocation", "end"}, {"nameGap", 10}, {"nameTextStyle", {{"align", "left"}}}});
  const auto series = [](std::string_view name, json points, std::string_view role, int size) {
    return json{{"type", "scatter"},         {"name", name},
                {"symbolSize", size},        {"large", true},
                {"data", std::move(points)}, {"itemStyle", {{"color", color(role)}, {"opacity", 0.75}}}};
  };
  option["series"] =
      json::array({series(kPrevious, points_of(base_ms), "base", 6), series(kThis, points_of(trials_ms), "blue", 5)});
  return option;
}

const Measurement* measured_before(const Scenario& scenario, const Measurement& m) {
  const Measurement* before = nullptr;
  for (const Measurement* other : scenario.all) {
    if (other == &m) return before;
    if (other->label == m.label && other->is_peer == m.is_peer && other->timing &&
        other->result->configuration.baseline_dtype == m.result->configuration.baseline_dtype)
      before = other;
  }
  return before;
}

}  // namespace headroom
