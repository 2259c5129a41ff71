#include "measure/probes/resident_memory.hpp"

#include <fstream>
#include <limits>
#include <string>

namespace headroom {

std::optional<ResidentMemory> resident_memory() {
  std::ifstream status("/proc/self/status");
  std::optional<std::uint64_t> now;
  std::optional<std::uint64_t> peak;
  std::string key;
  while (status >> key) {
    std::uint64_t kilobytes = 0;
    if ((key == "VmRSS:" || key == "VmHWM:") && status >> kilobytes) {
      (key == "VmRSS:" ? now : peak) = kilobytes * 1024;  // "kB" there means 1024 bytes
    }
    status.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  if (!now || !peak) return std::nullopt;
  return ResidentMemory{*now, *peak};
}

bool reset_peak_resident() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5\n" << std::flush;
  return clear.good();
}

}  // namespace headroom
