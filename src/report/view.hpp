#pragma once

#include <string>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// One decision to make: a model and request on one machine, in every batch size that was measured. All kernels
/// that were measured by themselves on one machine form one view.
struct View {
  std::string title;     ///< in words
  std::string hardware;  ///< in words
  std::vector<const Scenario*> scenarios;
  /// Works of the same model and size with other numbers of steps that only have profiles. The profiles explain
  /// where the view's time goes; no decision is made about them.
  std::vector<const Scenario*> profiled = {};
  bool is_of_kernels = false;
  std::string program = {};  ///< the program that produced imported results; then is_of_kernels is true as well
  /// The scenarios and the profiled ones.
  [[nodiscard]] std::vector<const Scenario*> all() const;
};
/// Whether a work equals the view's except for the number of steps or images.
[[nodiscard]] bool is_akin(const Scenario& scenario, const View& view);

/// The views of all results, each scenario in exactly one, machine by machine. Views with a baseline and another
/// configuration come first, kernels last.
[[nodiscard]] std::vector<View> views_of(const Dataset& dataset);

}  // namespace headroom
