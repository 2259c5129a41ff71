#include "doctor/probes/cpu_facts.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <system_error>
#include <utility>

#include "backends/cpu/control_groups.hpp"
#include "backends/cpu/cpu_info.hpp"
#include "backends/cpu/memory_limits.hpp"
#include "doctor/probes/system_text.hpp"

namespace headroom::doctor {
namespace fs = std::filesystem;
namespace {

bool has_all(const std::vector<std::string>& flags, std::initializer_list<std::string_view> names) {
  return std::ranges::all_of(names,
                             [&](std::string_view name) { return std::ranges::find(flags, name) != flags.end(); });
}

/// The number after `key` in lines of "key number".
std::optional<double> number_after(const std::string& text, std::string_view key) {
  const std::vector<std::string> words = words_of(text);
  const auto found = std::ranges::find(words, key);
  return found == words.end() || found + 1 == words.end() ? std::nullopt : number_in<double>(*(found + 1));
}

std::optional<CpuQuota> quota_of(const ControlGroup& group, const fs::path& root) {
  const fs::path file = group.folder / (group.is_version_2 ? "cpu.max" : "cpu.cfs_quota_us");
  CpuQuota quota{
      .cpus = 0, .source = shown_source(root, file), .text = first_line_of(file), .share_of_periods_throttled = {}};
  std::vector<std::string> words = words_of(quota.text);
  if (!group.is_version_2) words.push_back(first_line_of(group.folder / "cpu.cfs_period_us"));
  if (words.size() < 2) return std::nullopt;
  const auto allowed_us = number_in<double>(words[0]), period_us = number_in<double>(words[1]);  // "max" is no number
  if (!allowed_us || !period_us || *allowed_us <= 0 || *period_us <= 0) return std::nullopt;
  quota.cpus = *allowed_us / *period_us;
  const std::string stat = system_text(group.folder / "cpu.stat");
  const auto periods = number_after(stat, "nr_periods"), throttled = number_after(stat, "nr_throttled");
  if (periods && throttled && *periods > 0) quota.share_of_periods_throttled = *throttled / *periods;
  return quota;
}

std::optional<CpuQuota> least_quota(const fs::path& root) {
  std::optional<CpuQuota> least;
  for (const ControlGroup& group : control_groups("cpu", root)) {
    std::optional<CpuQuota> quota = quota_of(group, root);
    if (quota && (!least || quota->cpus < least->cpus)) least = std::move(quota);
  }
  return least;
}

/// The CPUs of the innermost group that names any.
std::string cpus_of_group(const fs::path& root) {
  for (const ControlGroup& group : control_groups("cpuset", root))
    for (const char* const name : {"cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"})
      if (std::string list = first_line_of(group.folder / name); !list.empty()) return list;
  return {};
}

/// The share of steal in the CPU time since the system began: the eighth number of the first line of /proc/stat.
std::optional<double> steal_share(const fs::path& root) {
  const std::vector<std::string> words = words_of(first_line_of(root / "proc/stat"));
  if (words.size() < 9 || words[0] != "cpu") return std::nullopt;
  std::array<double, 8> ticks{};
  for (std::size_t i = 0; i < ticks.size(); ++i) ticks[i] = number_in<double>(words[i + 1]).value_or(0);
  const double all = std::accumulate(ticks.begin(), ticks.end(), 0.0);
  return all > 0 ? std::optional(ticks[7] / all) : std::nullopt;
}

/// "some avg10=1.23 avg60=..." of /proc/pressure/cpu, as a share.
std::optional<double> cpu_pressure(const fs::path& root) {
  constexpr std::string_view kKey = "avg10=";
  for (const std::string& word : words_of(first_line_of(root / "proc/pressure/cpu")))
    if (word.starts_with(kKey))
      if (const auto percent = number_in<double>(word.substr(kKey.size()))) return *percent / 100;
  return std::nullopt;
}

std::optional<double> mhz_in(const fs::path& file) {
  const auto khz = number_in<double>(first_line_of(file));
  return khz ? std::optional(*khz / 1000) : std::nullopt;
}

void read_frequency(CpuFacts& cpu, const fs::path& root) {
  const std::vector<int> allowed = numbers_of_list(cpu.allowed_list);
  const fs::path folder =
      root / "sys/devices/system/cpu" / ("cpu" + std::to_string(allowed.empty() ? 0 : allowed.front())) / "cpufreq";
  cpu.governor = first_line_of(folder / "scaling_governor");
  cpu.governor_source = shown_source(root, folder / "scaling_governor");
  cpu.driver = first_line_of(folder / "scaling_driver");
  cpu.energy_preference = first_line_of(folder / "energy_performance_preference");
  cpu.max_mhz = mhz_in(folder / "cpuinfo_max_freq");
  cpu.least_mhz = mhz_in(folder / "cpuinfo_min_freq");
  cpu.limit_mhz = mhz_in(folder / "scaling_max_freq");
}

void read_nodes(CpuFacts& cpu, const fs::path& root) {
  const std::vector<int> allowed = numbers_of_list(cpu.allowed_list);
  std::error_code none;
  for (const fs::directory_entry& entry : fs::directory_iterator(root / "sys/devices/system/node", none)) {
    const std::string name = entry.path().filename().native();
    const auto node = name.starts_with("node") ? number_in<int>(name.substr(4)) : std::nullopt;
    if (node) cpu.nodes[*node] = first_line_of(entry.path() / "cpulist");
  }
  for (const auto& [node, list] : cpu.nodes) {
    const std::vector<int> cpus = numbers_of_list(list);
    if (std::ranges::any_of(cpus, [&](int one) { return std::ranges::find(allowed, one) != allowed.end(); }))
      cpu.nodes_of_allowed.push_back(node);
  }
}

/// A limit of /proc/self/limits, whose names have blanks: "Max address space   unlimited   unlimited   bytes".
std::optional<std::size_t> process_limit(const std::string& limits, std::string_view name) {
  const std::size_t at = limits.find(name);
  if (at == std::string::npos) return std::nullopt;
  const std::vector<std::string> words = words_of(std::string_view(limits).substr(at + name.size()));
  return words.empty() ? std::nullopt : number_in<std::size_t>(words[0]);
}

/// The option size= of a mount, such as "size=65536k".
std::optional<std::size_t> size_option(const std::string& options) {
  for (const std::string& option : words_of(options, ",")) {
    if (!option.starts_with("size=")) continue;
    const auto size = number_in<std::size_t>(option.substr(5));
    if (!size) return std::nullopt;
    constexpr std::string_view kUnits = "kmg";
    const std::size_t unit = kUnits.find(option.back());
    return *size << (unit == std::string_view::npos ? 0 : 10 * (unit + 1));
  }
  return std::nullopt;
}

/// The size of what is mounted there.
std::optional<std::size_t> mount_bytes(const fs::path& root, const std::string& point) {
  const std::string mounts = system_text(root / "proc/self/mountinfo");
  std::optional<std::size_t> bytes;
  for (const std::string& line : words_of(mounts, "\n")) {
    const std::vector<std::string> words = words_of(line);
    if (words.size() >= 5 && words[4] == point) bytes = size_option(words.back());  // a later mount hides the earlier
  }
  return bytes;
}

std::size_t kib_of(const std::string& text, std::string_view key) {
  return number_in<std::size_t>(find_colon_value(text, key)).value_or(0) * 1024;
}

}  // namespace

CpuIsa isa_of_flags(std::string_view flags) {
  const std::vector<std::string> all = words_of(flags);
  if (!has_all(all, {"avx2", "fma", "f16c"})) return CpuIsa::kPortable;
  if (!has_all(all, {"avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl"})) return CpuIsa::kAvx2;
  if (!has_all(all, {"avx512_vnni"})) return CpuIsa::kAvx512;
  if (!has_all(all, {"avx512_bf16"})) return CpuIsa::kAvx512Vnni;
  return has_all(all, {"amx_bf16", "amx_tile", "amx_int8", "avx512vbmi"}) ? CpuIsa::kAmx : CpuIsa::kAvx512Bf16;
}

CpuFacts read_cpu(const fs::path& root, CpuIsa used) {
  const std::string info = system_text(root / "proc/cpuinfo"), status = system_text(root / "proc/self/status");
  CpuFacts cpu;
  cpu.name = find_colon_value(info, "model name");
  cpu.isa_there = isa_of_flags(find_colon_value(info, "flags"));
  cpu.isa_used = used;
  const std::string online = first_line_of(root / "sys/devices/system/cpu/online");
  cpu.online = static_cast<int>(numbers_of_list(online).size());
  cpu.allowed_list = find_colon_value(status, "Cpus_allowed_list");
  cpu.allowed = static_cast<int>(numbers_of_list(cpu.allowed_list).size());
  cpu.memory_nodes = find_colon_value(status, "Mems_allowed_list");
  cpu.allowed_by_group_list = cpus_of_group(root);
  if (cpu.allowed_by_group_list.empty()) cpu.allowed_by_group_list = online;
  cpu.allowed_by_group = static_cast<int>(numbers_of_list(cpu.allowed_by_group_list).size());
  cpu.quota = least_quota(root);
  if (const std::string smt = first_line_of(root / "sys/devices/system/cpu/smt/active"); !smt.empty())
    cpu.smt = smt == "1";
  read_frequency(cpu, root);
  read_nodes(cpu, root);
  cpu.steal_share = steal_share(root);
  cpu.load = number_in<double>(first_line_of(root / "proc/loadavg"));
  cpu.pressure = cpu_pressure(root);
  return cpu;
}

MemoryFacts read_memory(const fs::path& root) {
  const std::string info = system_text(root / "proc/meminfo"), limits = system_text(root / "proc/self/limits");
  MemoryFacts memory;
  memory.installed_bytes = kib_of(info, "MemTotal");
  memory.available_bytes = kib_of(info, "MemAvailable");
  memory.swap_used_bytes = kib_of(info, "SwapTotal") - std::min(kib_of(info, "SwapTotal"), kib_of(info, "SwapFree"));
  for (const ControlGroup& group : control_groups("memory", root)) {
    const fs::path file = group.folder / (group.is_version_2 ? "memory.max" : "memory.limit_in_bytes");
    const auto bytes = number_in<std::size_t>(first_line_of(file));
    if (bytes && *bytes < memory.installed_bytes)
      memory.limits.push_back(
          {.bytes = *bytes, .source = shown_source(root, file), .name = "control group " + group.name});
  }
  for (const char* const name : {"Max address space", "Max data size", "Max resident set"})
    if (const auto bytes = process_limit(limits, name))
      memory.limits.push_back({.bytes = *bytes, .source = "/proc/self/limits", .name = name});
  if (const auto room = control_group_room(root)) memory.room_bytes = room->bytes;
  memory.huge_pages = first_line_of(root / "sys/kernel/mm/transparent_hugepage/enabled");
  memory.shm_bytes = mount_bytes(root, "/dev/shm");
  return memory;
}

std::string container_of(const fs::path& root, const std::map<std::string, std::string>& environment) {
  std::error_code none;
  if (environment.contains("KUBERNETES_SERVICE_HOST")) return "Kubernetes";
  if (fs::exists(root / ".dockerenv", none)) return "Docker";
  if (fs::exists(root / "run/.containerenv", none)) return "Podman";
  const auto named = environment.find("container");
  return named == environment.end() ? "" : "a container (" + named->second + ")";
}

std::map<std::string, std::string> read_environment(const fs::path& root) {
  std::map<std::string, std::string> environment;
  for (const std::string& entry : words_of(system_text(root / "proc/self/environ"), std::string_view("\0", 1))) {
    const std::size_t equals = entry.find('=');
    if (equals != std::string::npos) environment[entry.substr(0, equals)] = entry.substr(equals + 1);
  }
  return environment;
}

}  // namespace headroom::doctor
