#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/probes/nvml_library.hpp"

namespace headroom {

/// The state that a GPU reports; values that it does not report are absent.
struct GpuState {
  std::optional<double> clock_mhz;         ///< of the multiprocessors, now
  std::optional<double> memory_clock_mhz;  ///< now
  std::optional<double> power_w;           ///< averaged by the driver, on recent GPUs over the last second
  std::optional<std::int64_t> throttle;    ///< NVML's bits of reasons why the clock is held down; 1 (idle) left out
};

/// A GPU through NVML, which is loaded on demand.
class Nvml {
 public:
  /// Opens the GPU with this PCI bus id ("0000:41:00.0"). NVML's indices are not CUDA's, which CUDA_VISIBLE_DEVICES
  /// and CUDA_DEVICE_ORDER change. Nothing if there is no library of that name, no driver or no such GPU.
  [[nodiscard]] static std::unique_ptr<Nvml> open(const std::string& pci_bus_id,
                                                  const std::string& library = "libnvidia-ml.so.1");
  [[nodiscard]] GpuState state() const;

 private:
  explicit Nvml(const std::string& library) : library_(library) {}
  NvmlLibrary library_;
  void* device_ = nullptr;
};

/// The state of the machine during each trial, in columns of one entry per trial. A column is empty if the system
/// does not report it.
struct Conditions {
  std::vector<double> cpu_mhz;   ///< mean over the CPUs this process may use, at the end of the trial (cpufreq)
  std::vector<double> steal_ms;  ///< CPU time taken by a hypervisor, mean over the CPUs this process may use; counted
                                 ///< in steps of 10 ms, so for short trials only the sum is meaningful
  std::vector<std::int64_t> preemptions;  ///< involuntary context switches of threads of this process
  std::vector<double> waited_ms;  ///< time that threads of this process were ready but had no CPU, summed over threads
                                  ///< (Linux' run delay): the cost of other work on the same CPUs
  std::vector<double> gpu_clock_mhz;  ///< at the end of the trial, as in GpuState
  std::vector<double> gpu_memory_clock_mhz;
  std::vector<double> gpu_power_w;
  std::vector<std::int64_t> gpu_throttle;
  friend bool operator==(const Conditions&, const Conditions&) = default;

  [[nodiscard]] bool empty() const { return *this == Conditions{}; }
  void append(const Conditions& other);
  /// Empties columns whose length is not `trials`: they are not known for every trial.
  void keep_whole(std::size_t trials);
  /// The entries of `count` trials from `first` on.
  [[nodiscard]] Conditions part(std::size_t first, std::size_t count) const;
};

/// One sentence on what disturbed the trials, or empty: "3 of 20 trials were preempted; 30.0 ms were stolen; ...".
[[nodiscard]] std::string describe_disturbance(const Conditions& conditions);

/// Why times measured under these conditions may be wrong, one clause, or empty. Reasons: in a typical trial, threads
/// waited for a CPU for over 5% of its time (or, if the system does not report that, were preempted over 50 times a
/// second); a hypervisor took over 5%; a GPU's clock was held down for heat or by its power supply. Smaller
/// disturbances hardly move a median, and a power limit is normal operation of a GPU. `wall_ms` are the trials'
/// times; `trial` is the word for one of them.
[[nodiscard]] std::string find_disturbance(const Conditions& conditions, std::span<const double> wall_ms,
                                           std::string_view trial = "step");

/// Observes the machine from trial to trial.
class ConditionsProbe {
 public:
  /// Also observes the GPU at `pci_bus_id` if that is not empty. `root` holds proc and sys; tests pass a folder other
  /// than "/".
  explicit ConditionsProbe(const std::string& pci_bus_id, std::filesystem::path root = "/");

  /// Discards what happened before the next trial.
  void begin();
  /// Records what happened since begin() or the last add_trial().
  void add_trial();
  /// The recorded columns; those not known for every trial are empty.
  [[nodiscard]] Conditions take();

 private:
  /// Monotonic counters.
  struct Counters {
    std::optional<double> steal_ms;
    std::optional<double> waited_ms;
    std::int64_t preemptions = 0;
  };
  [[nodiscard]] Counters read_counters() const;
  [[nodiscard]] std::optional<double> read_steal_ms() const;
  [[nodiscard]] std::optional<double> read_waited_ms() const;
  [[nodiscard]] std::optional<double> read_cpu_mhz() const;

  std::filesystem::path root_;
  std::vector<std::string> cpus_;  // CPUs that this process may use, as the kernel names them
  std::vector<std::filesystem::path> frequency_files_;
  std::unique_ptr<Nvml> gpu_;
  Counters before_;
  std::size_t trials_ = 0;
  Conditions conditions_;
};

}  // namespace headroom
