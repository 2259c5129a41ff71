#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/files/file.hpp"
#include "doctor/checks.hpp"
#include "measure/test_util.hpp"

/// Helpers that several tests of doctor/ share; included by *_test.cpp only.
namespace headroom::doctor {

inline constexpr const char* kAvx512Flags =
    "flags\t\t: fpu avx2 fma f16c avx512f avx512cd avx512bw avx512dq avx512vl avx512_vnni avx512_bf16\n";

/// The root of a healthy machine with control groups of version 2, 8 CPUs and 64 GiB; tests write over its files.
class MachineRoot : public FakeRoot {
 public:
  MachineRoot() {
    write("proc/cpuinfo", std::string("processor\t: 0\nmodel name\t: Example CPU\n") + kAvx512Flags);
    write("proc/stat", "cpu  1000 0 100 9000 0 0 0 10 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
    write("proc/meminfo",
          "MemTotal:       67108864 kB\nMemAvailable:   60000000 kB\nSwapTotal: 0 kB\nSwapFree: 0 kB\n");
    write("proc/loadavg", "0.10 0.20 0.30 1/200 4711\n");
    write("proc/pressure/cpu", "some avg10=0.00 avg60=0.00 avg300=0.00 total=1\n");
    write("proc/self/limits",
          "Limit                     Soft Limit           Hard Limit           Units     \n"
          "Max data size             unlimited            unlimited            bytes     \n"
          "Max resident set          unlimited            unlimited            bytes     \n"
          "Max address space         unlimited            unlimited            bytes     \n");
    write("proc/self/cgroup", "0::/jobs/7\n");
    write("proc/self/mountinfo",
          "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
          "25 24 0:23 / /dev/shm rw - tmpfs tmpfs rw,size=8g\n");
    write("proc/self/environ", std::string("PATH=/bin\0GOMP_SPINCOUNT=20000\0", 31));
    write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
    write("sys/devices/system/node/node0/cpulist", "0-7\n");
    set_cpus("0-7", "0-7");
  }
  void set_cpus(const std::string& online, const std::string& allowed, const std::string& memory_nodes = "0") const {
    write("sys/devices/system/cpu/online", online + "\n");
    write("proc/self/status",
          "Name:\theadroom\nCpus_allowed_list:\t" + allowed + "\nMems_allowed_list:\t" + memory_nodes + "\n");
  }
  /// Variables "A=1", which take the place of those above.
  void set_environment(const std::vector<std::string>& variables) const {
    std::string text;
    for (const std::string& variable : variables) text += variable + '\0';
    write("proc/self/environ", text);
  }
  void add_gpus(int count) const {
    write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159  Release Build\n");
    for (int gpu = 0; gpu < count; ++gpu)
      write("proc/driver/nvidia/gpus/0000:0" + std::to_string(gpu + 1) + ":00.0/information", "Model: NVIDIA Fake\n");
  }
  /// A program of this machine, for a CPU with AVX-512 and bf16.
  [[nodiscard]] MachineSources sources() const {
    MachineSources sources;
    sources.root = path();
    sources.nvml = "libheadroom-no-nvml.so.1";
    sources.isa_used = CpuIsa::kAvx512Bf16;
    sources.vector_unit = "highway:avx3_bf16";
    return sources;
  }
};

/// Unpacks a root that tests/doctor/record_root.sh printed.
inline void unpack_root(const std::filesystem::path& recorded, const FakeRoot& root) {
  const std::string text = read_file(recorded);
  constexpr std::string_view kMark = "=== ";
  ASSERT_TRUE(text.starts_with(kMark)) << recorded;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end_of_name = text.find('\n', at);
    const std::size_t next = std::min(text.find("\n=== ", end_of_name - 1), text.size() - 1);
    root.write(text.substr(at + kMark.size(), end_of_name - at - kMark.size()),
               text.substr(end_of_name + 1, next > end_of_name ? next - end_of_name : 0));
    at = next + 1;
  }
}

[[nodiscard]] inline std::vector<Finding> diagnose(const MachineSources& sources) {
  return run_checks(machine_checks(), read_machine(sources));
}

[[nodiscard]] inline std::vector<std::string> ids_of(const std::vector<Finding>& findings) {
  std::vector<std::string> ids;
  for (const Finding& finding : findings) ids.push_back(finding.id);
  return ids;
}

/// The only finding, which must be of this check.
[[nodiscard]] inline Finding only_finding(const std::vector<Finding>& findings, const std::string& id) {
  EXPECT_EQ(ids_of(findings), std::vector{id});
  const auto found = std::ranges::find(findings, id, &Finding::id);
  if (found == findings.end()) return {};
  EXPECT_FALSE(found->evidence.empty()) << id << " shows no evidence";
  for (const Evidence& evidence : found->evidence)
    EXPECT_FALSE(evidence.source.empty() || evidence.value.empty() || evidence.expected.empty()) << id;
  EXPECT_FALSE(found->mend.empty() || found->cost.words.empty()) << id;
  return *found;
}

}  // namespace headroom::doctor
