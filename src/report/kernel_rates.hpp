#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/dataset.hpp"

namespace headroom {

/// An op measured by itself, with the work (FLOPs, bytes) that its plan states.
struct KernelRate {
  const Measurement* measurement = nullptr;
  const PlanRecord* plan = nullptr;
  const PlannedNode* node = nullptr;     ///< its first launch
  bool is_one_launch = true;             ///< false: it runs as several plain ops
  std::vector<double> flops_per_second;  ///< for each trial
  double median_flops = 0;               ///< per second
  double median_bytes = 0;               ///< per second
};

/// The kernels of a plan: "cudnn.attention", or for several launches "a.matmul + b.softmax + a.matmul".
[[nodiscard]] std::string kernels_in(const PlanRecord& plan);

/// The kernels of one machine, and the reference rates measured in the same run.
struct KernelSet {
  std::string hardware;  ///< in words
  std::vector<KernelRate> kernels;
  std::optional<double> copy_bytes_per_second;  ///< rate of a copy, bytes read and written; absent if not measured
};
/// One set for each machine, in the order of the results.
[[nodiscard]] std::vector<KernelSet> kernel_sets_of(const Dataset& dataset);

[[nodiscard]] std::vector<const Measurement*> measurements_of(const KernelSet& set);

/// A colour for a compute type, the same in all charts.
[[nodiscard]] std::string_view role_of_compute_type(const std::string& compute_type);

}  // namespace headroom
