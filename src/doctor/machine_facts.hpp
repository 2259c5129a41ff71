#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/target.hpp"
#include "doctor/probes/library_survey.hpp"
#include "doctor/probes/nvml_survey.hpp"
#include "doctor/probes/page_cache.hpp"

/// What the checks of a machine look at. Facts that the system does not report are absent.
namespace headroom::doctor {

/// A quota of CPU time of a control group: so many CPUs' time in each period.
struct CpuQuota {
  double cpus = 0;                                   ///< 0.5: half a CPU
  std::string source;                                ///< "/sys/fs/cgroup/jobs/cpu.max"
  std::string text;                                  ///< of that file: "50000 100000"
  std::optional<double> share_of_periods_throttled;  ///< since the group began (cpu.stat)
};

/// A limit on memory and where it was read.
struct MemoryLimit {
  std::size_t bytes = 0;
  std::string source;  ///< "/sys/fs/cgroup/memory.max", "/proc/self/limits"
  std::string name;    ///< "control group", "Max address space"
};

struct CpuFacts {
  std::string name;
  CpuIsa isa_there = CpuIsa::kPortable;  ///< by the flags of /proc/cpuinfo
  CpuIsa isa_used = CpuIsa::kPortable;   ///< by this program
  std::string vector_unit;               ///< of its kernels: "highway:avx3_bf16"; empty: not known
  int online = 0;                        ///< CPUs
  int allowed = 0;                       ///< CPUs of the affinity mask
  std::string allowed_list;              ///< "0-3,8"
  int allowed_by_group = 0;              ///< CPUs of the control group's cpuset, else those online
  std::string allowed_by_group_list;
  std::string memory_nodes;           ///< NUMA nodes from which memory may be taken: "0"
  std::map<int, std::string> nodes;   ///< NUMA node to its CPUs
  std::vector<int> nodes_of_allowed;  ///< NUMA nodes that have allowed CPUs
  std::optional<CpuQuota> quota;      ///< the least of all groups
  std::optional<bool> smt;
  std::string governor, driver, energy_preference;  ///< cpufreq of the first allowed CPU; empty where there is none
  std::string governor_source;
  std::optional<double> least_mhz, max_mhz, limit_mhz;  ///< of the CPU, and of the policy (scaling_max_freq)
  std::optional<double> steal_share;                    ///< of the CPU time since the system began
  std::optional<double> load;                           ///< runnable threads, mean of the last minute
  std::optional<double> pressure;  ///< share of the last 10 s in which some thread waited for a CPU
};

struct MemoryFacts {
  std::size_t installed_bytes = 0, available_bytes = 0;
  std::vector<MemoryLimit> limits;
  std::optional<std::size_t> room_bytes;  ///< what the control groups leave; nothing without a limit
  std::string huge_pages;                 ///< "always [madvise] never"
  std::size_t swap_used_bytes = 0;
  std::optional<std::size_t> shm_bytes;  ///< size of /dev/shm, if its mount has one
};

/// Rates and disturbance measured in about a second, with all threads.
struct MeasuredFacts {
  double copy_bytes_per_s = 0;          ///< read and written, of copies that no cache holds
  double product_flops_per_s = 0;       ///< of the fastest of several bare matmuls; 0 if none was measured
  std::string product_arithmetic = {};  ///< "bf16"; "f32" where there are no units for bf16
  bool is_gpu = false;                  ///< measured on the GPU of MachineFacts::gpu_index
  std::string disturbance;              ///< as find_disturbance() says; empty if there was none
};

struct MachineFacts {
  std::filesystem::path root = "/";
  std::string os, kernel, container;  ///< the last one is empty outside a container
  int threads = 0;                    ///< that the user asked of this program; 0: as many as there are CPUs
  std::map<std::string, std::string> environment;  ///< of this process when it began
  CpuFacts cpu;
  MemoryFacts memory;
  bool wants_gpu = false;  ///< there is one, or the user asked for one
  bool built_for_gpu = false;
  int cuda_major = 0;         ///< that the program was built for; 0 without
  int gpu_index = 0;          ///< that the program would use, among those visible
  std::string isa_option;     ///< value of --cpu-isa; empty if it was not given
  int driver_gpus = 0;        ///< GPUs that the driver lists in /proc
  std::string kernel_driver;  ///< version of the kernel's driver
  std::vector<LibraryFacts> libraries;
  NvmlSurvey nvml;
  std::optional<ModelFiles> model;
  std::optional<MeasuredFacts> measured;

  /// The value of a variable; nothing if it is not set.
  [[nodiscard]] std::optional<std::string> variable(const std::string& name) const {
    const auto found = environment.find(name);
    return found == environment.end() ? std::nullopt : std::optional(found->second);
  }
};

/// The GPUs that CUDA would show to this process, in its order: all, or those that CUDA_VISIBLE_DEVICES names up to
/// the first that does not exist.
[[nodiscard]] std::vector<const GpuFacts*> visible_gpus(const MachineFacts& facts);
/// The one that the program would use, or null: what others on the machine do is no fault of this one's.
[[nodiscard]] const GpuFacts* used_gpu(const MachineFacts& facts);

/// Where facts are read. Tests give other folders and libraries than those of the machine.
struct MachineSources {
  std::filesystem::path root = "/";  ///< of proc, sys, etc and dev
  std::string nvml = "libnvidia-ml.so.1";
  std::vector<LibraryNeed> libraries = {};
  std::optional<bool> wants_gpu = {};  ///< as the user asked; nothing: if there is one
  bool built_for_gpu = false;
  int cuda_major = 0, gpu_index = 0;
  CpuIsa isa_used = CpuIsa::kPortable;
  std::string vector_unit = {}, isa_option = {};
  int threads = 0;
  std::vector<std::filesystem::path> model_files = {};
};

/// This machine and this program.
[[nodiscard]] MachineSources own_sources();

[[nodiscard]] MachineFacts read_machine(const MachineSources& sources);

/// A line of the report.
struct Fact {
  std::string_view family;  ///< "cpu"
  std::string name, value;
};
[[nodiscard]] std::vector<Fact> describe(const MachineFacts& facts);

}  // namespace headroom::doctor
