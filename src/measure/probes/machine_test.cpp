#include "measure/probes/machine.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

#include "base/error.hpp"
#include "measure/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;

TEST(Machine, DescribesThisMachine) {
  const Machine machine = describe_machine();
  EXPECT_FALSE(machine.cpu.empty());
  EXPECT_EQ(machine.logical_cores, sysconf(_SC_NPROCESSORS_ONLN));
  EXPECT_GE(machine.allowed_cores, 1);
  EXPECT_LE(machine.allowed_cores, sysconf(_SC_NPROCESSORS_CONF));
  // Some of the installed memory is never available as pages, so the two agree only roughly.
  const double pages_bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  EXPECT_NEAR(static_cast<double>(machine.memory_bytes), pages_bytes, 0.05 * pages_bytes);
  EXPECT_THAT(machine.kernel, HasSubstr("Linux "));
  ASSERT_TRUE(machine.build.has_value());
  EXPECT_THAT(machine.build->compiler, MatchesRegex("(gcc|clang) [0-9]+\\.[0-9]+\\.[0-9]+"));
  ASSERT_TRUE(machine.libraries.contains("oneDNN"));
  EXPECT_THAT(machine.libraries.at("oneDNN"), MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+"));
  EXPECT_TRUE(machine.libraries.contains("Highway"));
}

TEST(Machine, ReadsGpusClocksAndSystemName) {
  const FakeRoot root;
  root.write("etc/os-release", "ID=example\nPRETTY_NAME=\"Example Linux 7 (seven)\"\n");
  root.write("sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "3700500\n");
  root.write("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "performance\n");
  root.write(
      "proc/driver/nvidia/version",
      "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  570.86.15  Release Build\nGCC version:  gcc 12.2.0\n");
  root.write("proc/driver/nvidia/gpus/0000:41:00.0/information", "Model: \t\t NVIDIA B\nIRQ:   \t\t 11\n");
  root.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: \t\t NVIDIA A\n");
  const Machine machine = describe_machine(root.path());
  EXPECT_EQ(machine.os, "Example Linux 7 (seven)");
  EXPECT_EQ(machine.cpu_max_mhz, 3700.5);
  EXPECT_EQ(machine.cpu_governor, "performance");
  EXPECT_EQ(machine.gpus, (std::vector<GpuInfo>{{"NVIDIA A", "570.86.15"}, {"NVIDIA B", "570.86.15"}}));
}

TEST(Machine, LeavesOutWhatTheSystemDoesNotSay) {
  const FakeRoot root;
  root.write("proc/driver/nvidia/gpus/0000:01:00.0/information", "Model: NVIDIA A\n");
  const Machine machine = describe_machine(root.path());
  EXPECT_EQ(machine.os, "unknown");
  EXPECT_FALSE(machine.cpu_max_mhz.has_value());
  EXPECT_FALSE(machine.cpu_governor.has_value());
  EXPECT_EQ(machine.gpus, (std::vector<GpuInfo>{{"NVIDIA A", std::nullopt}}));
}

TEST(UtcNow, IsIso8601) {
  EXPECT_THAT(utc_now(), MatchesRegex("20[0-9][0-9]-[01][0-9]-[0-3][0-9]T[0-2][0-9]:[0-5][0-9]:[0-6][0-9]Z"));
}

}  // namespace
}  // namespace headroom
