// FLOP rate of each kernel against its arithmetic intensity. The roofs were measured on the same machine: the
// bandwidth of a copy and, for each compute type, the fastest matmul.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "report/charts/charts.hpp"
#include "report/kernel_rates.hpp"
#include "report/plots/option.hpp"

namespace headroom::charts {
namespace {

using nlohmann::json;

/// `bandwidth` is that of a copy, in bytes per second.
json draw(const KernelSet& set, double bandwidth) {
  std::map<std::string, json> points;
  std::map<std::string, double> roofs;
  double least = 1e300, most = 0, slowest = 1e300;
  for (const KernelRate& kernel : set.kernels) {
    if (!kernel.is_one_launch || !(kernel.node->cost_flops > 0) || !(kernel.node->cost_bytes > 0)) continue;
    const double intensity = kernel.node->cost_flops / kernel.node->cost_bytes;
    least = std::min(least, intensity);
    most = std::max(most, intensity);
    slowest = std::min(slowest, kernel.median_flops);
    const std::string& type = kernel.node->compute_type;
    const bool is_unsettled = kernel.measurement->unsettled.has_value();
    if (kernel.node->cost_unit == "matrix" && !is_unsettled) roofs[type] = std::max(roofs[type], kernel.median_flops);
    Tip tip(kernel.measurement->label);
    tip.row("rate", exact(kernel.median_flops, "FLOP/s"))
        .row("intensity", exact(intensity, "FLOP/byte"))
        .row("bandwidth", exact(kernel.median_bytes, "bytes/s"))
        .row("kernel", kernel.node->kernel)
        .timing(*kernel.measurement);
    points[type].push_back(
        {{"value", json::array({intensity, kernel.median_flops})}, {"text", kernel.node->op}, {"tip", tip.json()}});
    if (is_unsettled) points[type].back()["itemStyle"] = item_style(role_of_compute_type(type), true);
  }
  if (points.empty()) return {};
  least = std::pow(10, std::floor(std::log10(least)));
  most = std::max(10 * least, std::pow(10, std::ceil(std::log10(most))));
  json option = base_option();
  option["grid"] = {{"left", 8}, {"right", 24}, {"bottom", 44}, {"containLabel", true}};
  option["xAxis"] = value_axis("intensity: operations per byte moved", "axis_plain");
  option["xAxis"].update({{"type", "log"}, {"min", least}, {"max", most}});
  option["yAxis"] = value_axis("operations per second", "axis_flops");
  option["yAxis"].update({{"type", "log"},
                          {"min", std::pow(10, std::floor(std::log10(std::min(slowest, least * bandwidth))))},
                          {"nameLocation", "end"},
                          {"nameGap", 10},
                          {"nameTextStyle", {{"align", "left"}}}});
  option["series"] = json::array();
  double top = 0;
  for (const auto& [type, roof] : roofs) top = std::max(top, roof);
  const auto line = [&](std::string name, json data, std::string_view role) {
    option["series"].push_back({{"type", "line"},
                                {"name", std::move(name)},
                                {"silent", true},
                                {"symbol", "circle"},
                                {"symbolSize", 1},
                                {"data", std::move(data)},
                                {"lineStyle", {{"width", 1.5}, {"type", "dashed"}, {"color", color(role)}}},
                                {"itemStyle", {{"color", color(role)}}}});
  };
  if (top == 0) top = bandwidth * most;
  line(fmt::format("copy, {}", label_si(bandwidth, "B/s")),
       json::array({json::array({least, least * bandwidth}),
                    json::array({std::min(most, top / bandwidth), std::min(most, top / bandwidth) * bandwidth})}),
       "gold");
  for (const auto& [type, roof] : roofs)
    line(fmt::format("fastest product in {}, {}", type, label_si(roof, "FLOP/s")),
         json::array({json::array({std::max(least, roof / bandwidth), roof}), json::array({most, roof})}),
         role_of_compute_type(type));
  for (auto& [type, items] : points)
    option["series"].push_back({{"type", "scatter"},
                                {"name", type},
                                {"symbolSize", 10},
                                {"data", items},
                                {"itemStyle", {{"color", color(role_of_compute_type(type))}, {"opacity", 0.85}}}});
  std::vector<std::string> names;
  for (const json& series : option["series"]) names.push_back(series["name"]);
  add_legend(option, names, 36);
  narrow_option(option)["grid"]["right"] = 16;
  return option;
}

}  // namespace

Drawn roofline(const Dataset& dataset) {
  Drawn drawn{.charts = {},
              .left_out = "no kernel was measured by itself together with a copy (headroom bench kernels)"};
  for (const KernelSet& set : kernel_sets_of(dataset)) {
    if (!set.copy_bytes_per_second) continue;
    json option = draw(set, *set.copy_bytes_per_second);
    if (option.is_null()) continue;
    drawn.charts.push_back({.file = numbered("roofline", drawn.charts.size()),
                            .title = "Kernels under the roofs of this machine",
                            .subtitle = set.hardware,
                            .of = dataset.scenarios_of(measurements_of(set)),
                            .option = std::move(option),
                            .notes = {"Roofs are measured, not from a datasheet: the sloped one is a copy past the "
                                      "cache, the flat ones the fastest settled "
                                      "product of each compute type. What fits the cache can be above the slope."},
                            .height = 560});
    note_unsettled(drawn.charts.back().notes, measurements_of(set));
    note_revisions(drawn.charts.back().notes, measurements_of(set));
  }
  return drawn;
}

}  // namespace headroom::charts
