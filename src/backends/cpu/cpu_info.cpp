#include "backends/cpu/cpu_info.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "backends/cpu/memory_limits.hpp"
#include "base/files/system_text.hpp"

namespace headroom {
namespace {

/// A size of /proc/meminfo, where sizes are in KiB; 0 where the line is missing.
std::size_t meminfo_bytes(std::string_view text, std::string_view key) {
  return number_in<std::size_t>(find_colon_value(text, key)).value_or(0) * 1024;
}

#if defined(__x86_64__)
/// By CPUID itself: compilers differ in the names that __builtin_cpu_supports knows for these.
bool has_f16c() {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & (1U << 29)) != 0;
}

/// AMX for bf16 and int8, and AVX-512 VBMI, which every CPU with AMX also has.
bool has_amx() {
  constexpr unsigned kBf16 = 1U << 22, kTile = 1U << 24, kInt8 = 1U << 25, kVbmi = 1U << 1;
  constexpr unsigned kAll = kBf16 | kTile | kInt8;
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (d & kAll) == kAll && (c & kVbmi) != 0;
}

bool may_use_amx_tiles() {
  constexpr long kArchReqXcompPerm = 0x1023;
  constexpr long kXfeatureXtiledata = 18;
  return syscall(SYS_arch_prctl, kArchReqXcompPerm, kXfeatureXtiledata) == 0;
}
#endif

/// The instruction set of the CPU, ignoring the cap.
CpuIsa find_cpu_isa() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
  if (!avx2) return CpuIsa::kPortable;
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (!avx512) return CpuIsa::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return CpuIsa::kAvx512;
  if (!__builtin_cpu_supports("avx512bf16")) return CpuIsa::kAvx512Vnni;
  return has_amx() && may_use_amx_tiles() ? CpuIsa::kAmx : CpuIsa::kAvx512Bf16;
#else
  return CpuIsa::kPortable;
#endif
}

std::atomic<CpuIsa>& isa_limit() {
  static std::atomic<CpuIsa> limit = all_cpu_isas().back();
  return limit;
}

}  // namespace

std::string find_colon_value(std::string_view text, std::string_view key) {
  constexpr std::string_view kBlank = " \t";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (!line.starts_with(key)) continue;
    std::string_view rest = line.substr(key.size());
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
    if (!rest.starts_with(':')) continue;
    rest.remove_prefix(1);
    rest.remove_prefix(std::min(rest.find_first_not_of(kBlank), rest.size()));
    return std::string(rest.substr(0, rest.find_last_not_of(kBlank) + 1));
  }
  return {};
}

std::string cpu_name() {
  std::string name = find_colon_value(system_text("/proc/cpuinfo"), "model name");
  return name.empty() ? "unknown CPU" : name;
}

CpuIsa detect_cpu_isa() { return std::min(find_cpu_isa(), isa_limit().load()); }

void limit_detected_isa(CpuIsa most) { isa_limit() = most; }

int allowed_cpus() {
  // The fixed cpu_set_t ends at 1024 CPUs; on larger machines the call fails until the set is large enough.
  for (int capacity = CPU_SETSIZE; capacity <= (1 << 20); capacity *= 2) {
    const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(static_cast<std::size_t>(capacity)),
                                                               [](cpu_set_t* p) { CPU_FREE(p); });
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(capacity));
    if (set != nullptr && sched_getaffinity(0, bytes, set.get()) == 0)
      return std::max(1, CPU_COUNT_S(bytes, set.get()));
  }
  return 1;
}

std::size_t last_level_cache_bytes() {
  long largest = 0;
  for (const int name : {_SC_LEVEL2_CACHE_SIZE, _SC_LEVEL3_CACHE_SIZE, _SC_LEVEL4_CACHE_SIZE})
    largest = std::max(largest, sysconf(name));
  return static_cast<std::size_t>(largest);
}

std::size_t core_cache_bytes() { return static_cast<std::size_t>(std::max(0L, sysconf(_SC_LEVEL2_CACHE_SIZE))); }

SystemMemory system_memory() {
  const std::string text = system_text("/proc/meminfo");
  SystemMemory memory{.installed_bytes = meminfo_bytes(text, "MemTotal"),
                      .available_bytes = meminfo_bytes(text, "MemAvailable"),
                      .limit = {}};
  for (std::optional<MemoryRoom>& room : std::array{control_group_room(), resource_limit_room()}) {
    if (!room || room->bytes >= memory.available_bytes) continue;
    memory.available_bytes = room->bytes;
    memory.limit = std::move(room->limit);
  }
  return memory;
}

}  // namespace headroom
