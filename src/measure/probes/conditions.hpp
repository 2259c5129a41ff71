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

namespace headroom {

/// What a GPU says of itself; what it does not tell is absent.
struct GpuState {
  std::optional<double> clock_mhz;         ///< of the multiprocessors, now
  std::optional<double> memory_clock_mhz;  ///< now
  std::optional<double> power_w;           ///< averaged by the driver, on recent GPUs over the last second
  std::optional<std::int64_t> throttle;    ///< NVML's bits of reasons why the clock is held down; 1 (idle) left out
};

/// A GPU through NVIDIA's management library, which comes with the driver and is looked for when asked.
class Nvml {
 public:
  /// The GPU at a place of the PCI bus ("0000:41:00.0"): NVML's numbers are not CUDA's, which CUDA_VISIBLE_DEVICES and
  /// CUDA_DEVICE_ORDER change. Nothing where there is no library of that name, no driver or no such GPU.
  [[nodiscard]] static std::unique_ptr<Nvml> open(const std::string& pci_bus_id,
                                                  const std::string& library = "libnvidia-ml.so.1");
  ~Nvml();
  Nvml(const Nvml&) = delete;
  Nvml& operator=(const Nvml&) = delete;
  [[nodiscard]] GpuState state() const;

 private:
  Nvml() = default;
  void* library_ = nullptr;
  void* device_ = nullptr;
};

/// What the machine did during each trial, in columns of one entry a trial. A column is empty where the system does not
/// say.
struct Conditions {
  std::vector<double> cpu_mhz;   ///< mean over the CPUs this process may use, at the end of the trial (cpufreq)
  std::vector<double> steal_ms;  ///< that a hypervisor took, mean over the CPUs this process may use; counted in steps
                                 ///< of 10 ms, so of short trials only the sum means something
  std::vector<std::int64_t> preemptions;  ///< times that a thread of this process was made to give up its CPU
  std::vector<double> waited_ms;  ///< that threads of this process were ready and had no CPU, summed over them (Linux'
                                  ///< run delay): what others' work on the same CPUs cost
  std::vector<double> gpu_clock_mhz;  ///< at the end of the trial, as in GpuState
  std::vector<double> gpu_memory_clock_mhz;
  std::vector<double> gpu_power_w;
  std::vector<std::int64_t> gpu_throttle;
  friend bool operator==(const Conditions&, const Conditions&) = default;

  [[nodiscard]] bool empty() const { return *this == Conditions{}; }
  void append(const Conditions& other);
  /// Empties columns of another length, which are not known for every trial.
  void keep_whole(std::size_t trials);
  /// Those of `count` trials from `first` on.
  [[nodiscard]] Conditions part(std::size_t first, std::size_t count) const;
};

/// One sentence on what disturbed the trials, or nothing: "3 of 20 trials were preempted; 30.0 ms were stolen; ...".
[[nodiscard]] std::string describe_disturbance(const Conditions& conditions);

/// Why times taken under these conditions may be wrong, one clause, or nothing: in a typical trial threads waited for a
/// CPU for over 5% of its time (or, where the system does not tell, were preempted over 50 times a second); a
/// hypervisor took over 5%; a GPU's clock was held down for heat or by its power supply. Less does not move a median by
/// much, and a limit on power is how a GPU works. `wall_ms` are the trials' times, `trial` is what one is called.
[[nodiscard]] std::string find_disturbance(const Conditions& conditions, std::span<const double> wall_ms,
                                           std::string_view trial = "step");

/// Watches the machine from trial to trial.
class ConditionsProbe {
 public:
  /// Watches the GPU at `pci_bus_id` as well, where that is not empty. `root` holds proc and sys; another folder than
  /// "/" is for tests.
  explicit ConditionsProbe(const std::string& pci_bus_id, std::filesystem::path root = "/");

  /// Forgets what happened before the next trial.
  void begin();
  /// Adds what happened since begin() or the last add_trial().
  void add_trial();
  /// Columns that are not known for every trial are empty.
  [[nodiscard]] Conditions take();

 private:
  /// What only ever grows.
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
  std::vector<std::string> cpus_;  // this process may use, as the kernel names them
  std::vector<std::filesystem::path> frequency_files_;
  std::unique_ptr<Nvml> gpu_;
  Counters before_;
  std::size_t trials_ = 0;
  Conditions conditions_;
};

}  // namespace headroom
