#include "measure/results/fingerprint.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <optional>
#include <set>
#include <string_view>

#include "measure/tables/table.hpp"

namespace headroom {
namespace {

std::string text_of(const std::string& value) { return value; }
std::string text_of(std::int64_t value) { return fmt::format("{}", value); }
std::string text_of(double value) { return format_significant(value); }
std::string text_of(bool value) { return value ? "yes" : "no"; }
template <typename T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "unknown";
}

std::string gpu_names(const Machine& machine) {
  std::vector<std::string> names;
  for (const GpuInfo& gpu : machine.gpus)
    names.push_back(gpu.driver ? fmt::format("{} (driver {})", gpu.name, *gpu.driver) : gpu.name);
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

class Differences {
 public:
  template <typename T>
  void compare(std::string_view what, const T& base, const T& changed) {
    if (base != changed) found_.push_back(fmt::format("{}: {} against {}", what, text_of(changed), text_of(base)));
  }
  std::vector<std::string> take() { return std::move(found_); }

 private:
  std::vector<std::string> found_;
};

void compare_builds(Differences& differences, const Machine& base, const Machine& changed) {
  differences.compare("build type", base.build->type, changed.build->type);
  differences.compare("compiler", base.build->compiler, changed.build->compiler);
  differences.compare("compiled with optimization", base.build->optimized, changed.build->optimized);
  differences.compare("compiled with a sanitizer", base.build->sanitized, changed.build->sanitized);
  std::set<std::string> names;
  for (const auto& [name, version] : base.libraries) names.insert(name);
  for (const auto& [name, version] : changed.libraries) names.insert(name);
  const auto version_of = [](const Machine& machine, const std::string& name) {
    const auto found = machine.libraries.find(name);
    return found == machine.libraries.end() ? std::string("none") : found->second;
  };
  for (const std::string& name : names) differences.compare(name, version_of(base, name), version_of(changed, name));
}

}  // namespace

std::vector<std::string> machine_differences(const Machine& base, const Machine& changed) {
  Differences differences;
  differences.compare("CPU", base.cpu, changed.cpu);
  differences.compare("vector units", base.cpu_isa, changed.cpu_isa);
  differences.compare("logical cores", base.logical_cores, changed.logical_cores);
  differences.compare("allowed cores", base.allowed_cores, changed.allowed_cores);
  differences.compare("CPU's highest MHz", base.cpu_max_mhz, changed.cpu_max_mhz);
  differences.compare("CPU governor", base.cpu_governor, changed.cpu_governor);
  const auto base_bytes = static_cast<double>(base.memory_bytes);
  const auto new_bytes = static_cast<double>(changed.memory_bytes);
  if (std::abs(base_bytes - new_bytes) > 0.01 * base_bytes)
    differences.compare("memory", format_bytes(static_cast<std::uint64_t>(base.memory_bytes)),
                        format_bytes(static_cast<std::uint64_t>(changed.memory_bytes)));
  differences.compare("GPU", gpu_names(base), gpu_names(changed));
  differences.compare("system", base.os, changed.os);
  differences.compare("kernel", base.kernel, changed.kernel);
  if (base.build && changed.build) compare_builds(differences, base, changed);
  return differences.take();
}

std::vector<std::string> origin_differences(const Machine& begun, const Machine& now) {
  const auto revision_of = [](const Machine& machine) {
    return machine.build ? machine.build->git_revision : std::string("unknown");
  };
  std::vector<std::string> differences = machine_differences(begun, now);
  if (revision_of(begun) != revision_of(now))
    differences.push_back(fmt::format("revision: {} against {}", revision_of(now), revision_of(begun)));
  return differences;
}

std::vector<std::string> configuration_differences(const Configuration& base, const Configuration& changed) {
  Differences differences;
  differences.compare("device", base.device, changed.device);
  // GPUs of one model are interchangeable: their indices and UUIDs are stored, not compared.
  if (base.gpu && changed.gpu) differences.compare("GPU in use", base.gpu->name, changed.gpu->name);
  differences.compare("threads", base.threads, changed.threads);
  differences.compare("baseline's dtype", base.baseline_dtype, changed.baseline_dtype);
  return differences.take();
}

}  // namespace headroom
