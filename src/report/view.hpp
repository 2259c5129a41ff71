#pragma once

#include <string>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// What somebody has to decide about: one model and request on one machine, in every batch size that was measured. All
/// kernels that were measured by themselves on one machine are one view.
struct View {
  std::string title;     ///< in words
  std::string hardware;  ///< in words
  std::vector<const Scenario*> scenarios;
  /// Of the same model and size in other numbers of steps, of which there are only profiles: they tell of this one's time, and
  /// nothing is decided about them.
  std::vector<const Scenario*> profiled = {};
  bool is_of_kernels = false;
  std::string program = {};  ///< that made the results, where they were imported; then is_of_kernels holds as well
  /// Both.
  [[nodiscard]] std::vector<const Scenario*> all() const;
};
/// Whether a work differs from the view's in the number of steps or images, if in anything.
[[nodiscard]] bool is_akin(const Scenario& scenario, const View& view);

/// Those of all results, each scenario in one, machine by machine: first where there is a baseline and something beside it,
/// kernels last.
[[nodiscard]] std::vector<View> views_of(const Dataset& dataset);

}  // namespace headroom
