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

/// A line of a sweep: one configuration by its requested switches, whatever declined at some points. Drawn are the
/// baseline, every peer, and our other configurations if there are few of them, else the fastest at the largest
/// point. Each must be measured at two points or more; a point without the configuration holds null.
struct SweepLine {
  std::string label;
  std::string_view role;
  std::vector<const Measurement*> at;  ///< one for each point of the sweep
  std::string_view dash = "solid";     ///< differs between lines of one role
};
[[nodiscard]] std::vector<SweepLine> lines_of(const Sweep& sweep);
/// All measurements of the lines.
[[nodiscard]] std::vector<const Measurement*> measurements_of(const std::vector<SweepLine>& lines);
/// Facts about the lines that the reader needs: revisions, and places of declined switches. `place` names a point:
/// "{} at once".
[[nodiscard]] std::vector<std::string> notes_on(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                                std::string_view place);
/// The unit of the lines' times: "image", "forward pass".
[[nodiscard]] std::string unit_of(const std::vector<SweepLine>& lines);

/// The quantity drawn over a sweep, and its format.
struct SweepQuantity {
  std::string name;                                    ///< "time per image"
  std::function<double(double x, double ms)> of_time;  ///< computes it from a time at a position
  std::string_view axis_fn = "axis_ms";
  std::function<std::string(double)> label = {};  ///< default: label_ms()
  std::string_view unit = "ms";                   ///< printed after exact values
};
/// Draws lines over a sweep.
[[nodiscard]] nlohmann::json sweep_option(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                          std::string_view x_name, const SweepQuantity& y);
/// Makes a chart of lines below a legend high enough for a narrow screen.
void fit_sweep(Chart& chart);

}  // namespace headroom
