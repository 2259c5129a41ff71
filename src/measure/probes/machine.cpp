#include "measure/probes/machine.hpp"

#include <hwy/highway.h>
#include <oneapi/dnnl/dnnl.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <ctime>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>

#include "backends/cpu/cpu_info.hpp"
#include "base/error.hpp"
#include "base/text/json.hpp"
#include "measure/results/json_members.hpp"

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

/// The text of a small system file; empty if it cannot be read.
std::string read_system_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::optional<std::string> first_line(const fs::path& path) {
  std::string text = read_system_text(path);
  text.erase(std::min(text.find('\n'), text.size()));
  return text.empty() ? std::nullopt : std::optional(text);
}

std::optional<double> cpu_max_mhz(const fs::path& cpufreq) {
  const auto line = first_line(cpufreq / "cpuinfo_max_freq");  // in kHz
  double khz = 0;
  if (!line || std::from_chars(line->data(), line->data() + line->size(), khz).ec != std::errc{}) return std::nullopt;
  return khz / 1000;
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
    const std::string name = find_colon_value(read_system_text(folder / "information"), "Model");
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

BuildInfo build_from_json(const nlohmann::json& json, const std::string& context) {
  check_members(json, {"version", "git_revision", "type", "compiler", "optimized", "sanitized"}, context);
  return {.version = get_text(json, "version", context),
          .git_revision = get_text(json, "git_revision", context),
          .type = get_text(json, "type", context),
          .compiler = get_text(json, "compiler", context),
          .optimized = get_bool(json, "optimized", context),
          .sanitized = get_bool(json, "sanitized", context)};
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

nlohmann::json to_json(const Machine& machine) {
  nlohmann::json json = {{"cpu", machine.cpu},
                         {"logical_cores", machine.logical_cores},
                         {"allowed_cores", machine.allowed_cores},
                         {"memory_bytes", machine.memory_bytes},
                         {"gpus", nlohmann::json::array()},
                         {"os", machine.os},
                         {"kernel", machine.kernel},
                         {"libraries", machine.libraries}};
  if (machine.cpu_isa) json["cpu_isa"] = *machine.cpu_isa;
  if (machine.cpu_max_mhz) json["cpu_max_mhz"] = *machine.cpu_max_mhz;
  if (machine.cpu_governor) json["cpu_governor"] = *machine.cpu_governor;
  for (const GpuInfo& gpu : machine.gpus) {
    nlohmann::json& entry = json["gpus"].emplace_back(nlohmann::json{{"name", gpu.name}});
    if (gpu.driver) entry["driver"] = *gpu.driver;
  }
  if (const auto& build = machine.build) {
    json["build"] = {{"version", build->version},     {"git_revision", build->git_revision},
                     {"type", build->type},           {"compiler", build->compiler},
                     {"optimized", build->optimized}, {"sanitized", build->sanitized}};
  }
  return json;
}

Machine machine_from_json(const nlohmann::json& json, std::string_view context) {
  check_members(json,
                {"cpu", "cpu_isa", "logical_cores", "allowed_cores", "cpu_max_mhz", "cpu_governor", "memory_bytes",
                 "gpus", "os", "kernel", "build", "libraries"},
                context);
  Machine machine{.cpu = get_text(json, "cpu", context),
                  .cpu_isa = find_text(json, "cpu_isa", context),
                  .logical_cores = get_whole(json, "logical_cores", context, 1),
                  .allowed_cores = get_whole(json, "allowed_cores", context, 1),
                  .cpu_max_mhz = find_number(json, "cpu_max_mhz", context, kNotNegative),
                  .cpu_governor = find_text(json, "cpu_governor", context),
                  .memory_bytes = get_whole(json, "memory_bytes", context),
                  .gpus = {},
                  .os = get_text(json, "os", context),
                  .kernel = get_text(json, "kernel", context),
                  .build = {},
                  .libraries = {}};
  for (const nlohmann::json& gpu : get_array(json, "gpus", context)) {
    const std::string place = fmt::format("gpus[{}] of {}", machine.gpus.size(), context);
    check_members(gpu, {"name", "driver"}, place);
    machine.gpus.push_back({get_text(gpu, "name", place), find_text(gpu, "driver", place)});
  }
  if (json.contains("build")) machine.build = build_from_json(json["build"], fmt::format("build of {}", context));
  const nlohmann::json& libraries = get_object(json, "libraries", context);
  for (const auto& [name, version] : libraries.items()) {
    machine.libraries[name] = get_text(libraries, name, fmt::format("libraries of {}", context));
  }
  return machine;
}

std::string utc_now() {
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm parts{};
  gmtime_r(&now, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}Z", parts.tm_year + 1900, parts.tm_mon + 1, parts.tm_mday,
                     parts.tm_hour, parts.tm_min, parts.tm_sec);
}

}  // namespace headroom
