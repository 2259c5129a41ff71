#include "report/kernel_rates.hpp"

#include <fmt/ranges.h>

#include <algorithm>

namespace headroom {

std::vector<KernelSet> kernel_sets_of(const Dataset& dataset) {
  std::vector<KernelSet> sets;
  for (const Measurement& m : dataset.measurements()) {
    if (m.result->subject.kind != SubjectKind::kKernel || !m.timing || !(m.time().median_ms > 0)) continue;
    const Scenario& scenario = dataset.scenario_of(m);
    if (std::ranges::find(scenario.current, &m) == scenario.current.end()) continue;
    auto set = std::ranges::find(sets, scenario.hardware, &KernelSet::hardware);
    if (set == sets.end())
      set = sets.insert(sets.end(), {.hardware = scenario.hardware, .kernels = {}, .copy_bytes_per_second = {}});
    const double seconds = m.time().median_ms * 1e-3;
    const std::optional<double> copied = request_number(m.result->subject, "bytes");
    if (m.result->subject.name == "copy" && copied && !m.result->plan)
      set->copy_bytes_per_second = 2 * *copied / seconds;
    if (!m.result->plan) continue;
    const PlanRecord& plan = m.file->plans.at(*m.result->plan);
    if (plan.nodes.empty()) continue;
    KernelRate rate{.measurement = &m,
                    .plan = &plan,
                    .node = &plan.nodes.front(),
                    .is_one_launch = plan.nodes.size() == 1,
                    .flops_per_second = {}};
    double flops = 0, bytes = 0;
    for (const PlannedNode& node : plan.nodes) {
      flops += node.cost_flops;
      bytes += node.cost_bytes;
    }
    for (const double ms : m.time().trials_ms)
      if (ms > 0) rate.flops_per_second.push_back(flops / (ms * 1e-3));
    rate.median_flops = flops / seconds;
    rate.median_bytes = bytes / seconds;
    set->kernels.push_back(std::move(rate));
  }
  return sets;
}

std::string kernels_in(const PlanRecord& plan) {
  std::vector<std::string_view> names;
  for (const PlannedNode& each : plan.nodes) names.push_back(each.kernel);
  return fmt::format("{}", fmt::join(names, " + "));
}

std::vector<const Measurement*> measurements_of(const KernelSet& set) {
  std::vector<const Measurement*> measurements;
  for (const KernelRate& kernel : set.kernels) measurements.push_back(kernel.measurement);
  return measurements;
}

std::string_view role_of_compute_type(const std::string& compute_type) {
  if (compute_type == "f32" || compute_type == "tf32") return "base";
  if (compute_type == "bf16" || compute_type == "f16") return "blue";
  if (compute_type == "i8" || compute_type == "s8") return "green";
  if (compute_type.starts_with("f8")) return "orange";
  return "purple";
}

}  // namespace headroom
