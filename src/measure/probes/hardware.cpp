#include "measure/probes/hardware.hpp"

#include <fmt/format.h>

#include "base/text/format.hpp"

namespace headroom {
namespace {

std::string describe_cpu(const Machine& machine) {
  std::string text = machine.cpu;
  if (machine.cpu_isa) text += fmt::format(" ({})", *machine.cpu_isa);
  if (machine.logical_cores > 0)  // may be missing in files of other programs
    text += machine.allowed_cores == machine.logical_cores
                ? ", " + format_count(machine.logical_cores, "core")
                : fmt::format(", {} of {} cores", machine.allowed_cores, machine.logical_cores);
  if (machine.memory_bytes > 0) text += ", " + format_bytes(static_cast<std::uint64_t>(machine.memory_bytes));
  return text;
}

/// The GPU in use and its driver, which all GPUs of a machine share. If a file does not state which GPU was used, the
/// first one. Empty if there is none.
std::string describe_used_gpu(const Machine& machine, const Configuration& configuration) {
  if (configuration.device != "cuda" || (machine.gpus.empty() && !configuration.gpu)) return {};
  const std::string& name = configuration.gpu ? configuration.gpu->name : machine.gpus.front().name;
  const bool has_driver = !machine.gpus.empty() && machine.gpus.front().driver;
  return has_driver ? fmt::format("{}, driver {}", name, *machine.gpus.front().driver) : name;
}

}  // namespace

std::string describe_hardware(const Machine& machine, const Configuration& configuration) {
  if (const std::string gpu = describe_used_gpu(machine, configuration); !gpu.empty()) return gpu;
  std::string where = configuration.device == "cpu"    ? describe_cpu(machine)
                      : configuration.device == "cuda" ? "unknown GPU"
                                                       : configuration.device;
  if (!configuration.threads) return where;
  return fmt::format("{}, {}", where, format_count(*configuration.threads, "thread"));
}

}  // namespace headroom
