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
  std::string name = {};  ///< "512x512", where the axis is one of names
};

/// Works on one machine that differ only in what is swept over.
struct Sweep {
  std::string work;                ///< what they share, in words
  std::string hardware;            ///< in words
  std::vector<SweepPoint> points;  ///< by x, ascending; two at least
};

/// The sweeps over the members `keys` of requests: `x_of` gives a work's place, or nothing where it has none.
[[nodiscard]] std::vector<Sweep> sweeps_over(const Dataset& dataset, const std::set<std::string>& keys,
                                             const std::function<std::optional<double>(const Subject&)>& x_of);
/// The same over models under one request.
[[nodiscard]] std::vector<Sweep> sweeps_over_models(const Dataset& dataset,
                                                    const std::function<std::optional<double>(const Subject&)>& x_of);

/// The members of a request that say how large images are.
[[nodiscard]] const std::set<std::string>& resolution_keys();

/// What is drawn of a sweep, each as it was asked for, whatever declined at some of the points: the baseline; our other
/// configurations where they are few, else the fastest at the largest point; and every peer. Each only where it was
/// measured at two points or more; a point without the configuration holds null.
struct SweepLine {
  std::string label;
  std::string_view role;
  std::vector<const Measurement*> at;  ///< one for each point of the sweep
};
[[nodiscard]] std::vector<SweepLine> lines_of(const Sweep& sweep);
/// All that is drawn of them.
[[nodiscard]] std::vector<const Measurement*> measurements_of(const std::vector<SweepLine>& lines);
/// What a reader must know of the lines: revisions, and where switches declined. `place` is what a point is called:
/// "{} at once".
[[nodiscard]] std::vector<std::string> notes_on(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                                std::string_view place);
/// What their times are of: "image", "forward pass".
[[nodiscard]] std::string unit_of(const std::vector<SweepLine>& lines);

/// What is drawn over a sweep, and how it is written.
struct SweepQuantity {
  std::string name;                                    ///< "time per image"
  std::function<double(double x, double ms)> of_time;  ///< of a time at a place
  std::string_view axis_fn = "axis_ms";
  std::function<std::string(double)> label = {};  ///< label_ms() where there is none
  std::string_view unit = "ms";                   ///< behind exact values
};
/// Lines over a sweep.
[[nodiscard]] nlohmann::json sweep_option(const Sweep& sweep, const std::vector<SweepLine>& lines,
                                          std::string_view x_name, const SweepQuantity& y);
/// Makes a chart of lines below a legend high enough for a narrow screen.
void fit_sweep(Chart& chart);

}  // namespace headroom
