#include "measure/probes/machine.hpp"

#include <fmt/format.h>
#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <fstream>
#include <system_error>

#include "backends/cpu/cpu_info.hpp"
#include "base/files/system_text.hpp"

// Macros set by the build system for machine.cpp alone.
#ifndef HEADROOM_VERSION
#define HEADROOM_VERSION "unknown"
#endif
#ifndef HEADROOM_GIT_REVISION
#define HEADROOM_GIT_REVISION "unknown"
#endif
#ifndef HEADROOM_BUILD_TYPE
#define HEADROOM_BUILD_TYPE "unknown"
#endif

namespace headroom {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_line(const fs::path& path) {
  const std::string line = first_line_of(path);
  return line.empty() ? std::nullopt : std::optional(line);
}

std::optional<double> cpu_max_mhz(const fs::path& cpufreq) {
  const auto khz = number_in<double>(first_line_of(cpufreq / "cpuinfo_max_freq"));
  return khz ? std::optional(*khz / 1000) : std::nullopt;
}

/// PRETTY_NAME of os-release(5), without its quotes; "unknown" if it is missing.
std::string os_name(const fs::path& etc) {
  std::ifstream file(etc / "os-release");
  constexpr std::string_view kKey = "PRETTY_NAME=";
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(kKey)) continue;
    line.erase(0, kKey.size());
    std::erase_if(line, [](char c) { return c == '"' || c == '\''; });
    return line;
  }
  return "unknown";
}

std::string kernel_name() {
  utsname name{};
  if (uname(&name) != 0) return "unknown";
  return fmt::format("{} {} {}", name.sysname, name.release, name.machine);
}

/// The version in a line such as "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar ...": the first
/// word made of digits and dots only.
std::optional<std::string> nvidia_driver_version(const fs::path& nvidia) {
  std::ifstream file(nvidia / "version");
  std::string line;
  std::getline(file, line);
  for (std::size_t at = 0; at < line.size();) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    const std::string word = line.substr(at, end - at);
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
    at = end + 1;
  }
  return std::nullopt;
}

/// The GPUs that the NVIDIA driver lists in /proc, in PCI order. This needs no CUDA, so a CPU build names them as
/// well.
std::vector<GpuInfo> nvidia_gpus(const fs::path& nvidia) {
  std::vector<fs::path> folders;
  std::error_code none;  // a machine without driver has no GPUs
  for (fs::directory_iterator entry(nvidia / "gpus", none), end; !none && entry != end; entry.increment(none)) {
    folders.push_back(entry->path());
  }
  std::ranges::sort(folders);
  std::vector<GpuInfo> gpus;
  for (const fs::path& folder : folders) {
    const std::string name = find_colon_value(system_text(folder / "information"), "Model");
    if (!name.empty()) gpus.push_back({name, nvidia_driver_version(nvidia)});
  }
  return gpus;
}

constexpr bool is_sanitized() {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return true;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  return true;
#endif
#endif
  return false;
}

constexpr bool is_optimized() {
#if defined(__OPTIMIZE__)
  return true;
#else
  return false;
#endif
}

std::string compiler_name() {
#if defined(__clang__)
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("gcc {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

BuildInfo describe_build() {
  return {.version = HEADROOM_VERSION,
          .git_revision = HEADROOM_GIT_REVISION,
          .type = HEADROOM_BUILD_TYPE,
          .compiler = compiler_name(),
          .optimized = is_optimized(),
          .sanitized = is_sanitized()};
}

std::map<std::string, std::string> library_versions() {
  const dnnl_version_t* onednn = dnnl_version();
  return {{"oneDNN", fmt::format("{}.{}.{}", onednn->major, onednn->minor, onednn->patch)},
          {"Highway", fmt::format("{}.{}.{}", HWY_MAJOR, HWY_MINOR, HWY_PATCH)}};
}

}  // namespace

Machine describe_machine(const fs::path& root) {
  const fs::path cpufreq = root / "sys/devices/system/cpu/cpu0/cpufreq";
  return {.cpu = cpu_name(),
          .cpu_isa = std::string(name_of(detect_cpu_isa())),
          .logical_cores = sysconf(_SC_NPROCESSORS_ONLN),
          .allowed_cores = allowed_cpus(),
          .cpu_max_mhz = cpu_max_mhz(cpufreq),
          .cpu_governor = first_line(cpufreq / "scaling_governor"),
          .memory_bytes = static_cast<std::int64_t>(system_memory().installed_bytes),
          .gpus = nvidia_gpus(root / "proc/driver/nvidia"),
          .os = os_name(root / "etc"),
          .kernel = kernel_name(),
          .build = describe_build(),
          .libraries = library_versions()};
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace headroom
