#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "report/chart.hpp"
#include "report/dataset.hpp"

namespace headroom {

/// One work of a sweep.
struct SweepPoint {
  double x = 0;
  const Scenario* scenario = nullptr;
  std::string name = {};  ///< "512x512", if the axis has names
};

/// Works on one machine that differ only in the swept parameter.
struct Sweep {
  std::string work;                ///< the common part of the works, in words
  std::string hardware;            ///< in words
  std::vector<SweepPoint> points;  ///< ascending by x; at least two
};

/// The sweeps over the members `keys` of requests. `x_of` gives the position of a work, or nothing if it has none.
[[nodiscard]] std::vector<Sweep> sweeps_over(const Dataset& dataset, const std::set<std::string>& keys,
                                             const std::function<std::optional<double>(const Subject&)>& x_of);
/// The same over models with equal requests.
[[nodiscard]] std::vector<Sweep> sweeps_over_models(const Dataset& dataset,
                                                    const std::function<std::optional<double>(const Subject&)>& x_of);

/// The members of a request that give the image size.
[[nodiscard]] const std::set<std::string>& resolution_keys();
/// The sweeps over image sizes, each point with the name of its size: by area, and of equal areas the narrower first.
[[nodiscard]] std::vector<Sweep> sweeps_over_sizes(const Dataset& dataset);
/// The name of the axis of such a sweep.
[[nodiscard]] std::string_view size_axis_name(const Sweep& sweep);

/// A line of a sweep: one configuration by its requested switches, whatever declined at some points. It is measured at
/// two points or more; a point without the configuration holds null.
struct SweepLine {
  std::string label;
  std::string_view role = {};
  std::vector<const Measurement*> at = {};  ///< one for each point of the sweep
  std::string_view dash = "solid";          ///< differs between lines of one role
};
/// Every line, without a role: baselines, our other configurations with the fastest at the largest point first, peers.
[[nodiscard]] std::vector<SweepLine> all_lines_of(const Sweep& sweep);
/// Those that are drawn, with roles: the baseline, every peer, and our other configurations if there are few of them,
/// else the fastest at the largest point.
[[nodiscard]] std::vector<SweepLine> lines_of(const Sweep& sweep);
/// Keeps only the first `most` of our configurations with switches.
void keep_first_of_ours(std::vector<SweepLine>& lines, std::size_t most);
/// Gives each line a colour, and a dash if another has its colour.
void tell_lines_apart(std::vector<SweepLine>& lines);
/// All measurements of the lines.
[[nodiscard]] std::vector<const Measurement*> measurements_of(const std::vector<SweepLine>& lines);
/// Facts about the lines that the reader needs: whiskers, configurations that are not drawn, declined switches and
/// unsettled times with their places, revisions. `place` names a point: "{} at once".
[[nodiscard]] std::vector<std::string> notes_on(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                                std::string_view place);
/// The same without what is said of whiskers, for a chart of other intervals than those of times.
[[nodiscard]] std::vector<std::string> notes_on_places(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                                       std::string_view place);
/// The unit of the lines' times: "image", "forward pass".
[[nodiscard]] std::string unit_of(const std::vector<SweepLine>& lines);

/// The quantity drawn over a sweep, and its format.
struct SweepQuantity {
  using Of = std::function<Estimate(const SweepPoint& point, const Measurement& measurement)>;

  std::string name;  ///< "time per image"
  Of of;
  std::string_view axis_fn = "axis_ms";
  std::function<std::string(double)> label = {};  ///< default: label_ms()
  std::string_view unit = "ms";                   ///< printed after exact values
  bool is_logarithmic = false;                    ///< both axes
  bool needs_interval = false;                    ///< a point without one is hollow
};
/// The time of a measurement, or what `of_time` makes of it at a position.
[[nodiscard]] SweepQuantity::Of from_time(const std::function<double(double x, double ms)>& of_time = {});
/// Draws lines over a sweep.
[[nodiscard]] nlohmann::json sweep_option(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                          std::string_view x_name, const SweepQuantity& y);
/// Makes a chart of lines below a legend high enough for a narrow screen.
void fit_sweep(Chart& chart);

}  // namespace headroom
