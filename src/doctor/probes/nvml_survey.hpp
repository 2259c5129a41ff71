#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

/// The GPUs of a machine through NVML, without a context on any of them.
namespace headroom::doctor {

/// A process that holds memory of a GPU.
struct GpuProcess {
  std::uint32_t pid = 0;               ///< on the host, which is another number in a container
  std::optional<std::uint64_t> bytes;  ///< not known in some containers
};

/// A setting or counter next to its maximum.
struct NowAndMost {
  std::optional<unsigned> now, most;
};

/// What NVML says of one GPU; values that it does not report are absent.
struct GpuFacts {
  int index = 0;  ///< NVML's, by PCI bus id
  std::string name, pci_bus_id, uuid;
  std::optional<int> compute_capability;  ///< 90 for 9.0
  std::optional<std::uint64_t> memory_bytes, free_bytes;
  std::vector<GpuProcess> processes;
  std::optional<unsigned> busy_percent;  ///< share of the last second or less in which a kernel ran
  std::optional<double> power_w, power_limit_w, default_power_limit_w;
  NowAndMost clock_mhz, memory_clock_mhz, pcie_generation, pcie_width;
  std::optional<unsigned> memory_bus_bits;
  std::optional<unsigned long long> throttle;  ///< bits of measure/probes/nvml_library.hpp, without kIdle
  std::optional<unsigned> temperature_c;
  std::optional<bool> ecc;
  std::optional<unsigned long long> uncorrected_errors;  ///< of its memory, since the driver was loaded
  std::optional<bool> mig;
  int nvlinks = 0;  ///< active ones
};

struct NvmlSurvey {
  std::string library;    ///< its name: "libnvidia-ml.so.1"
  bool is_found = false;  ///< there is a library of that name
  int status = -1;        ///< of nvmlInit_v2; 0 is success
  std::string path;       ///< of the library's file
  std::string version;    ///< of the library, which is that of the driver it came with
  std::string driver;     ///< of the kernel's driver, as NVML says
  int cuda_version = 0;   ///< newest that the driver knows: 13000 is 13.0
  std::vector<GpuFacts> gpus;
};

/// Looks at all GPUs through the library of this name.
[[nodiscard]] NvmlSurvey survey_nvml(const std::string& library);

/// The throttle reasons by their names in nvidia-smi, "software power cap (0x4)"; "none" for 0.
[[nodiscard]] std::string describe_throttle(unsigned long long reasons);

}  // namespace headroom::doctor
