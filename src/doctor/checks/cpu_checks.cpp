#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>
#include <utility>

#include "base/text/format.hpp"
#include "doctor/checks/families.hpp"
#include "doctor/probes/system_text.hpp"

namespace headroom::doctor {
namespace {

/// Threads that the program runs: as asked for, but no more than it has CPUs.
int threads_of(const MachineFacts& facts) {
  return facts.threads > 0 ? std::min(facts.threads, facts.cpu.allowed) : facts.cpu.allowed;
}

std::string times_as_long(std::string_view work, double factor) {
  return fmt::format("{} takes {} times as long", work, format_significant(factor));
}

/// Whether other work may hold the CPUs of this process, with the evidence.
std::optional<Evidence> sharing_of(const MachineFacts& facts) {
  const CpuFacts& cpu = facts.cpu;
  if (cpu.quota && cpu.quota->cpus < threads_of(facts))
    return Evidence{cpu.quota->source, cpu.quota->text, "a quota of at least one CPU for each thread"};
  constexpr double kPressure = 0.05, kSteal = 0.05;
  if (cpu.pressure && *cpu.pressure > kPressure)
    return Evidence{"/proc/pressure/cpu", fmt::format("some avg10={:.2f}", 100 * *cpu.pressure), "below 5"};
  if (cpu.load && cpu.online > 0 && *cpu.load > 0.5 * cpu.online)
    return Evidence{"/proc/loadavg", format_significant(*cpu.load), fmt::format("below half of {} CPUs", cpu.online)};
  if (cpu.steal_share && *cpu.steal_share > kSteal)
    return Evidence{"/proc/stat", fmt::format("steal {:.1f}%", 100 * *cpu.steal_share), "below 5%"};
  return std::nullopt;
}

/// Whether a limit of oneDNN ("AVX2") is below the units that the CPU has. Names are those of dnnl_cpu_isa_t in oneDNN
/// 3; one that is not listed here limits nothing that Headroom uses.
bool is_limit_below(std::string value, CpuIsa there) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::toupper(c); });
  constexpr std::array kLimits = {std::pair(std::string_view("SSE41"), CpuIsa::kPortable),
                                  std::pair(std::string_view("AVX"), CpuIsa::kPortable),
                                  std::pair(std::string_view("AVX2"), CpuIsa::kAvx2),
                                  std::pair(std::string_view("AVX2_VNNI"), CpuIsa::kAvx2),
                                  std::pair(std::string_view("AVX2_VNNI_2"), CpuIsa::kAvx2),
                                  std::pair(std::string_view("AVX512_CORE"), CpuIsa::kAvx512),
                                  std::pair(std::string_view("AVX512_CORE_VNNI"), CpuIsa::kAvx512Vnni),
                                  std::pair(std::string_view("AVX512_CORE_BF16"), CpuIsa::kAvx512Bf16),
                                  std::pair(std::string_view("AVX512_CORE_FP16"), CpuIsa::kAvx512Bf16)};
  const auto limit = std::ranges::find(kLimits, value, &std::pair<std::string_view, CpuIsa>::first);
  return limit != kLimits.end() && limit->second < there;
}

bool is_one_of(std::string value, std::initializer_list<std::string_view> names) {
  std::ranges::transform(value, value.begin(), [](unsigned char c) { return std::tolower(c); });
  return std::ranges::find(names, value) != names.end();
}

}  // namespace

void find_cpu_quota(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (!facts.cpu.quota || facts.cpu.allowed == 0) return;
  const CpuQuota& quota = *facts.cpu.quota;
  const int threads = threads_of(facts);
  if (quota.cpus >= threads) return;
  const double factor = threads / quota.cpus;
  const int fitting = static_cast<int>(std::floor(quota.cpus));
  std::vector<Evidence> evidence = {
      {quota.source, quota.text, fmt::format("a quota of {} or none", format_count(threads, "CPU"))}};
  if (quota.share_of_periods_throttled)
    evidence.push_back({"cpu.stat of the same group",
                        fmt::format("throttled in {:.0f}% of the periods", 100 * *quota.share_of_periods_throttled),
                        "0%"});
  findings.push_back({.id = std::string(id),
                      .severity = severity_of(factor),
                      .sentence = fmt::format("A control group allows the time of {} CPUs, and {} are to run.",
                                              format_significant(quota.cpus), format_count(threads, "thread")),
                      .evidence = std::move(evidence),
                      .mend = fmt::format("raise the quota (docker --cpus={0}, Kubernetes limits.cpu: {0}){1}", threads,
                                          fitting >= 1 ? fmt::format(", or give --threads {}", fitting) : ""),
                      .cost = {.words = times_as_long("work on all threads", factor), .factor = factor}});
}

void find_threads_over_cpus(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const std::string from_variable = facts.variable("OMP_NUM_THREADS").value_or("");
  const bool is_option = facts.threads > 0;
  const int asked = is_option ? facts.threads : number_in<int>(from_variable).value_or(0);
  const int allowed = facts.cpu.allowed;
  if (allowed == 0 || asked <= allowed) return;
  const int possible = std::min(asked, facts.cpu.online);  // without the mask
  const bool loses = possible > allowed;
  if (!loses && !is_option) return;  // other programs read the variable
  const std::optional<double> factor = loses ? std::optional(static_cast<double>(possible) / allowed) : std::nullopt;
  const Evidence demand = is_option ? Evidence{"--threads", std::to_string(asked), fmt::format("at most {}", allowed)}
                                    : Evidence{"OMP_NUM_THREADS", from_variable, fmt::format("at most {}", allowed)};
  const bool has_more = facts.cpu.allowed_by_group > allowed;
  findings.push_back(
      {.id = std::string(id),
       .severity = factor ? severity_of(*factor) : Severity::kCould,
       .sentence = fmt::format("{} are asked for, and this process may use {} of {}; Headroom runs {}.",
                               format_count(asked, "thread"), allowed, format_count(facts.cpu.online, "CPU"), allowed),
       .evidence = {demand,
                    {"/proc/self/status, Cpus_allowed_list", facts.cpu.allowed_list, format_count(asked, "CPU")}},
       .mend = has_more ? fmt::format("start it without the affinity mask: taskset -c {} headroom ...",
                                      facts.cpu.allowed_by_group_list)
               : loses  ? fmt::format("ask for {}, or give the container more CPUs (docker --cpuset-cpus)",
                                      format_count(allowed, "thread"))
                        : fmt::format("ask for {}", format_count(allowed, "thread")),
       .cost = {.words = factor ? times_as_long("work", *factor) : "nothing is lost", .factor = factor}});
}

void find_narrow_affinity(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const CpuFacts& cpu = facts.cpu;
  if (cpu.allowed == 0 || cpu.allowed >= cpu.allowed_by_group || facts.threads > 0) return;
  const double factor = static_cast<double>(cpu.allowed_by_group) / cpu.allowed;
  const std::optional<std::string> bound = facts.variable("OMP_PROC_BIND");
  const bool is_bound = bound && !is_one_of(*bound, {"false", "0", ""});
  std::vector<Evidence> evidence = {
      {"/proc/self/status, Cpus_allowed_list", cpu.allowed_list, cpu.allowed_by_group_list}};
  if (is_bound) evidence.push_back({"OMP_PROC_BIND", *bound, "not set"});
  findings.push_back(
      {.id = std::string(id),
       .severity = is_bound ? severity_of(factor) : Severity::kCould,
       .sentence =
           is_bound ? fmt::format("OMP_PROC_BIND binds the first thread to {} of {} CPUs, and Headroom uses no others.",
                                  cpu.allowed, cpu.allowed_by_group)
                    : fmt::format("This process may use {} of {} CPUs.", cpu.allowed, cpu.allowed_by_group),
       .evidence = std::move(evidence),
       .mend = is_bound ? "unset OMP_PROC_BIND OMP_PLACES"
                        : fmt::format("taskset -c {} headroom ...", cpu.allowed_by_group_list),
       .cost = {.words = times_as_long("work on a CPU", factor), .factor = factor}});
}

void find_omp_thread_limit(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const std::string text = facts.variable("OMP_THREAD_LIMIT").value_or("");
  const auto limit = number_in<int>(text);
  const int threads = threads_of(facts);
  if (!limit || *limit <= 0 || *limit >= threads) return;
  const double factor = static_cast<double>(threads) / *limit;
  findings.push_back({.id = std::string(id),
                      .severity = severity_of(factor),
                      .sentence = fmt::format("OpenMP may run {}, and there are {}.", format_count(*limit, "thread"),
                                              format_count(threads, "CPU")),
                      .evidence = {{"OMP_THREAD_LIMIT", text, fmt::format("not set, or at least {}", threads)}},
                      .mend = "unset OMP_THREAD_LIMIT",
                      .cost = {.words = times_as_long("work on a CPU", factor), .factor = factor}});
}

void find_omp_spinning(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const std::string policy = facts.variable("OMP_WAIT_POLICY").value_or("");
  const std::string spins = facts.variable("GOMP_SPINCOUNT").value_or("");
  constexpr double kManySpins = 1e7;  // about 10 ms; Headroom itself sets 20000
  const bool is_active = is_one_of(policy, {"active"});
  const bool is_long = is_one_of(spins, {"infinity", "infinite"}) || number_in<double>(spins).value_or(0) > kManySpins;
  if (!is_active && !is_long) return;
  const std::optional<Evidence> sharing = sharing_of(facts);
  std::vector<Evidence> evidence = {is_active ? Evidence{"OMP_WAIT_POLICY", policy, "not set, or passive"}
                                              : Evidence{"GOMP_SPINCOUNT", spins, "not set"}};
  if (sharing) evidence.push_back(*sharing);
  findings.push_back(
      {.id = std::string(id),
       .severity = sharing ? Severity::kWrong : Severity::kCould,
       .sentence = sharing ? "Threads that wait keep their CPUs busy, and other work shares these CPUs."
                           : "Threads that wait keep their CPUs busy, which costs much once other work shares them.",
       .evidence = std::move(evidence),
       .mend = is_active ? "unset OMP_WAIT_POLICY" : "unset GOMP_SPINCOUNT",
       .cost = {.words = "a step takes up to 50 times as long while other work runs", .factor = {}}});
}

void find_unused_isa(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const CpuFacts& cpu = facts.cpu;
  const auto add = [&](std::string sentence, Evidence evidence, std::string mend) {
    findings.push_back(
        {.id = std::string(id),
         .severity = Severity::kWrong,
         .sentence = std::move(sentence),
         .evidence = {std::move(evidence), {"/proc/cpuinfo, flags", std::string(name_of(cpu.isa_there)), "in use"}},
         .mend = std::move(mend),
         .cost = {.words = "matmuls run on narrower units: up to twice the time from AVX-512 to AVX2 in f32, "
                           "several times from AMX in bf16 and int8",
                  .factor = {}}});
  };
  const std::string there(name_of(cpu.isa_there)), used(name_of(cpu.isa_used));
  if (!facts.isa_option.empty() && cpu.isa_used < cpu.isa_there)
    add(fmt::format("--cpu-isa limits the vector units to {}, and the CPU has {}.", used, there),
        {"--cpu-isa", facts.isa_option, "not given"}, fmt::format("leave out --cpu-isa {}", facts.isa_option));
  else if (cpu.isa_used < cpu.isa_there)
    add(fmt::format("The program may use {}, and the CPU has {}.", used, there), {"CPUID and arch_prctl", used, there},
        "let the process use the units: a newer kernel, or a sandbox that permits arch_prctl (ARCH_REQ_XCOMP_PERM)");
  for (const char* const name : {"ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA"})
    if (const auto value = facts.variable(name); value && is_limit_below(*value, cpu.isa_there))
      add(fmt::format("{} limits the vector units of oneDNN.", name), {name, *value, "not set"},
          fmt::format("unset {}", name));
  const bool is_narrow = cpu.vector_unit == "highway:avx2" || cpu.vector_unit == "highway:scalar";
  if (is_narrow && cpu.isa_used >= CpuIsa::kAvx512)
    add(fmt::format("The kernels were compiled for {}, and the CPU has {}.", cpu.vector_unit.substr(8), there),
        {"headroom --version", cpu.vector_unit, "highway:avx3 or highway:avx3_bf16"},
        "build with -DHEADROOM_VECTOR_UNITS=ALL, or on this machine with make");
}

void find_governor(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const CpuFacts& cpu = facts.cpu;
  // Under these drivers "powersave" follows the load; the preference says how fast.
  const bool is_dynamic = cpu.driver == "intel_pstate" || cpu.driver == "amd-pstate-epp";
  const bool is_slow_preference = is_dynamic && cpu.energy_preference == "power";
  if (cpu.governor != "powersave" || (is_dynamic && !is_slow_preference)) return;
  const std::optional<double> factor = !is_dynamic && cpu.least_mhz && cpu.max_mhz && *cpu.least_mhz > 0
                                           ? std::optional(*cpu.max_mhz / *cpu.least_mhz)
                                           : std::nullopt;
  std::vector<Evidence> evidence = {{cpu.governor_source, cpu.governor, "performance or schedutil"},
                                    {"scaling_driver next to it", cpu.driver, cpu.driver}};
  if (is_slow_preference)
    evidence.push_back({"energy_performance_preference next to it", "power", "performance or balance_performance"});
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence =
           is_dynamic ? "The CPU's clock is set to save power." : "The governor keeps the CPU at its lowest clock.",
       .evidence = std::move(evidence),
       .mend = is_slow_preference
                   ? "echo performance | sudo tee /sys/devices/system/cpu/cpu*/cpufreq/energy_performance_preference"
                   : "sudo cpupower frequency-set -g performance",
       .cost = {.words = factor ? times_as_long("work on a CPU", *factor) + " at the most" : "work on a CPU is slower",
                .factor = factor}});
}

void find_clock_limit(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const CpuFacts& cpu = facts.cpu;
  if (!cpu.max_mhz || !cpu.limit_mhz || *cpu.limit_mhz <= 0) return;
  const double factor = *cpu.max_mhz / *cpu.limit_mhz;
  if (factor <= kWrongFrom) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kWrong,
       .sentence = fmt::format("The CPU's clock is limited to {:.0f} of {:.0f} MHz.", *cpu.limit_mhz, *cpu.max_mhz),
       .evidence = {{"scaling_max_freq next to " + cpu.governor_source, fmt::format("{:.0f} MHz", *cpu.limit_mhz),
                     fmt::format("{:.0f} MHz", *cpu.max_mhz)}},
       .mend = fmt::format("sudo cpupower frequency-set -u {:.0f}MHz", *cpu.max_mhz),
       .cost = {.words = times_as_long("work on a CPU", factor) + " at the most", .factor = factor}});
}

void find_remote_memory(const MachineFacts& facts, std::string_view id, Findings& findings) {
  const CpuFacts& cpu = facts.cpu;
  const std::vector<int> memory = numbers_of_list(cpu.memory_nodes);
  if (cpu.nodes.size() < 2 || memory.empty() || cpu.nodes_of_allowed.empty()) return;
  const bool has_near = std::ranges::any_of(cpu.nodes_of_allowed,
                                            [&](int node) { return std::ranges::find(memory, node) != memory.end(); });
  if (has_near) return;
  const std::string nodes = fmt::format("{}", fmt::join(cpu.nodes_of_allowed, ","));
  findings.push_back({.id = std::string(id),
                      .severity = Severity::kWrong,
                      .sentence = fmt::format("The CPUs are of NUMA node {}, and all memory comes from node {}.", nodes,
                                              cpu.memory_nodes),
                      .evidence = {{"/proc/self/status, Mems_allowed_list", cpu.memory_nodes, nodes}},
                      .mend = fmt::format("numactl --cpunodebind={0} --membind={0} headroom ...", nodes),
                      .cost = {.words = "every access to memory goes through the other socket", .factor = {}}});
}

void find_steal(const MachineFacts& facts, std::string_view id, Findings& findings) {
  constexpr double kMost = 0.05;
  const std::optional<double>& steal = facts.cpu.steal_share;
  if (!steal || *steal <= kMost) return;
  const double factor = 1 / std::max(0.01, 1 - *steal);
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kCould,  // a mean over days; what is measured now counts in cpu-busy
       .sentence =
           fmt::format("Other virtual machines took {:.0f}% of the CPUs' time since the system began.", 100 * *steal),
       .evidence = {{"/proc/stat, the eighth number of its first line", fmt::format("{:.1f}% of all", 100 * *steal),
                     "below 5%"}},
       .mend = "a machine with CPUs of its own (dedicated host, not burstable)",
       .cost = {.words = times_as_long("work on a CPU", factor) + " on the average", .factor = factor}});
}

void find_busy_cpus(const MachineFacts& facts, std::string_view id, Findings& findings) {
  if (facts.measured && !facts.measured->disturbance.empty()) {
    findings.push_back({.id = std::string(id),
                        .severity = Severity::kWrong,
                        .sentence = "Other work runs on the CPUs now: measurements are disturbed, and slower.",
                        .evidence = {{"copies by all threads", facts.measured->disturbance, "no disturbance"}},
                        .mend = "end the other work, which `top` shows, or give --threads fewer than there are CPUs",
                        .cost = {.words = "over 5% of the time of work on a CPU", .factor = {}}});
    return;
  }
  constexpr double kMost = 0.10;
  const std::optional<double>& pressure = facts.cpu.pressure;
  if (!pressure || *pressure <= kMost) return;
  findings.push_back(
      {.id = std::string(id),
       .severity = Severity::kCould,
       .sentence =
           fmt::format("In {:.0f}% of the last 10 s some thread of this machine waited for a CPU.", 100 * *pressure),
       .evidence = {{"/proc/pressure/cpu", fmt::format("some avg10={:.2f}", 100 * *pressure), "below 10"}},
       .mend = "end the other work, which `top` shows, before anything is measured",
       .cost = {.words = "work on a CPU waits for others; `headroom doctor` without --quick measures it",
                .factor = {}}});
}

}  // namespace headroom::doctor
