#include "measure/hardware.hpp"

#include <fmt/format.h>

#include "base/format.hpp"

namespace headroom {
namespace {

std::string describe_cpu(const Machine& machine) {
  std::string text = machine.cpu;
  if (machine.cpu_isa) text += fmt::format(" ({})", *machine.cpu_isa);
  text += machine.allowed_cores == machine.logical_cores
              ? ", " + format_count(machine.logical_cores, "core")
              : fmt::format(", {} of {} cores", machine.allowed_cores, machine.logical_cores);
  return text + ", " + format_bytes(static_cast<std::uint64_t>(machine.memory_bytes));
}

}  // namespace

std::string describe_hardware(const Machine& machine, const Configuration& configuration) {
  if (configuration.device == "cuda" && !machine.gpus.empty()) {
    const GpuInfo& gpu = machine.gpus.front();
    return gpu.driver ? fmt::format("{}, driver {}", gpu.name, *gpu.driver) : gpu.name;
  }
  std::string where = configuration.device == "cpu" ? describe_cpu(machine) : configuration.device;
  if (!configuration.threads) return where;
  return fmt::format("{}, {}", where, format_count(*configuration.threads, "thread"));
}

}  // namespace headroom
