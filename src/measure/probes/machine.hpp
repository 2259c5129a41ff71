#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace headroom {

struct GpuInfo {
  std::string name;                   ///< as the driver writes it: "NVIDIA H200"
  std::optional<std::string> driver;  ///< version of the kernel driver, if known
  friend bool operator==(const GpuInfo&, const GpuInfo&) = default;
};

/// How this program was built; figures of different builds are compared only if forced.
struct BuildInfo {
  std::string version;       ///< of headroom; "unknown" if CMake did not set it
  std::string git_revision;  ///< "unknown" outside a checkout
  std::string type;          ///< CMake's build type, or "unknown"
  std::string compiler;      ///< "gcc 12.2.0"
  bool optimized = false;    ///< compiled with optimization
  bool sanitized = false;    ///< built with AddressSanitizer or ThreadSanitizer: times are meaningless
  friend bool operator==(const BuildInfo&, const BuildInfo&) = default;
};

/// The environment of a measurement: hardware, system, build and libraries. It names no user and no host.
struct Machine {
  std::string cpu;                               ///< model: "AMD EPYC 9R14"
  std::optional<std::string> cpu_isa;            ///< widest vector units in use: "avx512_bf16"
  std::int64_t logical_cores = 0;                ///< online
  std::int64_t allowed_cores = 0;                ///< CPUs in the affinity mask of this process
  std::optional<double> cpu_max_mhz;             ///< if the system reports it; virtual machines seldom do
  std::optional<std::string> cpu_governor;       ///< frequency policy: "performance"
  std::int64_t memory_bytes = 0;                 ///< installed
  std::vector<GpuInfo> gpus;                     ///< installed, whether used or not
  std::string os;                                ///< "Debian GNU/Linux 12 (bookworm)"
  std::string kernel;                            ///< "Linux 6.1.0-18-amd64 x86_64"
  std::optional<BuildInfo> build;                ///< of headroom; absent in files written by other programs
  std::map<std::string, std::string> libraries;  ///< name to version, of libraries that do the arithmetic
  friend bool operator==(const Machine&, const Machine&) = default;
};

/// Describes this machine and build. GPUs, clock policy and system name are read below `root` (proc, sys, etc); tests
/// pass a folder other than "/".
[[nodiscard]] Machine describe_machine(const std::filesystem::path& root = "/");

/// The current date and time, "2025-03-14T09:26:53Z".
[[nodiscard]] std::string utc_now();

}  // namespace headroom
