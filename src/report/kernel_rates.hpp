#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// An op measured by itself, with the work that its plan says it does.
struct KernelRate {
  const Measurement* measurement = nullptr;
  const PlanRecord* plan = nullptr;
  const PlannedNode* node = nullptr;     ///< its first launch
  bool is_one_launch = true;             ///< else it is run as the plain ops that it stands for
  std::vector<double> flops_per_second;  ///< of each trial
  double median_flops = 0;               ///< per second
  double median_bytes = 0;               ///< per second
  /// "cudnn.attention", or of several launches "a.matmul + b.softmax + a.matmul".
  [[nodiscard]] std::string kernels() const;
};

/// The kernels of one machine, and the yardsticks measured beside them.
struct KernelSet {
  std::string hardware;  ///< in words
  std::vector<KernelRate> kernels;
  std::optional<double> copy_bytes_per_second;  ///< a copy, bytes read and written; absent where it was not measured
};
/// By machine, in the order of the results.
[[nodiscard]] std::vector<KernelSet> kernel_sets_of(const Dataset& dataset);

[[nodiscard]] std::vector<const Measurement*> measurements_of(const KernelSet& set);

/// A colour for a compute type, the same in all charts.
[[nodiscard]] std::string_view role_of_compute_type(const std::string& compute_type);

}  // namespace headroom
