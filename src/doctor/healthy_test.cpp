// Machines without a fault, in the forms that containers, virtual machines and drivers give them: nothing is "wrong".

#include <gmock/gmock.h>

#include <cstdlib>
#include <functional>

#include "base/test_paths.hpp"
#include "doctor/probes/cpu_facts.hpp"
#include "doctor/test_util.hpp"

namespace headroom::doctor {
namespace {

struct Healthy {
  const char* name;
  std::function<void(const MachineRoot& root, MachineSources& sources)> make;
};

constexpr const char* kCpuFreq = "sys/devices/system/cpu/cpu0/cpufreq/";

const std::vector<Healthy>& healthy_machines() {
  static const std::vector<Healthy> kMachines = {
      {"BareMetal", [](const MachineRoot&, MachineSources&) {}},
      {"LaptopWithIntelPstate",
       [](const MachineRoot& root, MachineSources&) {
         root.write(std::string(kCpuFreq) + "scaling_governor", "powersave\n");
         root.write(std::string(kCpuFreq) + "scaling_driver", "intel_pstate\n");
         root.write(std::string(kCpuFreq) + "energy_performance_preference", "balance_performance\n");
         root.write(std::string(kCpuFreq) + "cpuinfo_max_freq", "4800000\n");
         root.write(std::string(kCpuFreq) + "scaling_max_freq", "4800000\n");
       }},
      {"DockerOnALargeHost",
       [](const MachineRoot& root, MachineSources&) {
         root.write(".dockerenv", "");
         root.write("proc/self/cgroup", "0::/\n");
         root.write("sys/fs/cgroup/cpu.max", "max 100000\n");
         root.write("sys/fs/cgroup/memory.max", "max\n");
         root.write("sys/fs/cgroup/memory.current", "123456\n");
         root.write("proc/self/mountinfo",
                    "31 23 0:28 / /sys/fs/cgroup ro - cgroup2 cgroup rw\n"
                    "25 24 0:23 / /dev/shm rw - tmpfs shm rw,size=65536k\n");
         root.set_cpus("0-63", "0-63");
         root.write("sys/devices/system/node/node0/cpulist", "0-63\n");
       }},
      {"KubernetesWithAQuotaThatTheThreadsFit",
       [](const MachineRoot& root, MachineSources& sources) {
         root.set_environment({"KUBERNETES_SERVICE_HOST=10.0.0.1"});
         root.set_cpus("0-63", "0-63");
         root.write("sys/fs/cgroup/jobs/7/cpu.max", "800000 100000\n");
         root.write("sys/fs/cgroup/jobs/7/cpu.stat", "nr_periods 900\nnr_throttled 2\n");
         sources.threads = 8;
       }},
      {"ContainerWithACpuset",
       [](const MachineRoot& root, MachineSources&) {
         root.set_cpus("0-127", "16-31");
         root.write("sys/fs/cgroup/jobs/7/cpuset.cpus.effective", "16-31\n");
         root.write("sys/devices/system/node/node0/cpulist", "0-127\n");
       }},
      {"TwoSockets",
       [](const MachineRoot& root, MachineSources&) {
         root.set_cpus("0-95", "0-95", "0-1");
         root.write("sys/devices/system/node/node0/cpulist", "0-47\n");
         root.write("sys/devices/system/node/node1/cpulist", "48-95\n");
         root.write("sys/devices/system/cpu/smt/active", "0\n");
       }},
      {"GroupsOfVersion1WithoutLimits",
       [](const MachineRoot& root, MachineSources&) {
         root.write("proc/self/cgroup", "4:memory:/user.slice\n1:cpu,cpuacct:/user.slice\n");
         root.write("proc/self/mountinfo",
                    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
         root.write("sys/fs/cgroup/cpu/user.slice/cpu.cfs_quota_us", "-1\n");
         root.write("sys/fs/cgroup/cpu/user.slice/cpu.cfs_period_us", "100000\n");
         root.write("sys/fs/cgroup/memory/user.slice/memory.limit_in_bytes", "9223372036854771712\n");
         root.write("sys/fs/cgroup/memory/user.slice/memory.usage_in_bytes", "5000\n");
       }},
      {"CpuWithoutFlags",  // aarch64
       [](const MachineRoot& root, MachineSources& sources) {
         root.write("proc/cpuinfo", "processor\t: 0\nFeatures\t: fp asimd\n");
         sources.isa_used = CpuIsa::kPortable;
         sources.vector_unit = "highway:scalar";
       }},
      {"SandboxThatShowsNothing",
       [](const MachineRoot& root, MachineSources& sources) {
         for (const char* const name : {"proc", "sys"}) std::filesystem::remove_all(root.path() / name);
         sources.isa_used = CpuIsa::kPortable;
       }},
      {"IdleGpu",
       [](const MachineRoot& root, MachineSources& sources) {
         root.add_gpus(2);
         sources.nvml = kFakeNvml;
         sources.built_for_gpu = true;
         sources.cuda_major = 13;
       }},
      {"GpuAtItsPowerCapIsHowAGpuWorks",
       [](const MachineRoot& root, MachineSources& sources) {
         root.add_gpus(2);
         root.set_environment({"CUDA_VISIBLE_DEVICES=1"});  // the one that works (tests/fake/nvml.c)
         sources.nvml = kFakeNvml;
         sources.built_for_gpu = true;
         sources.cuda_major = 13;
       }},
      {"DesktopWithAmdPstate",
       [](const MachineRoot& root, MachineSources&) {
         root.write(std::string(kCpuFreq) + "scaling_governor", "powersave\n");
         root.write(std::string(kCpuFreq) + "scaling_driver", "amd-pstate-epp\n");
         root.write(std::string(kCpuFreq) + "energy_performance_preference", "balance_power\n");
         root.write(std::string(kCpuFreq) + "cpuinfo_max_freq", "5759000\n");
         root.write(std::string(kCpuFreq) + "scaling_max_freq", "5500000\n");
       }},
      {"ServerWithSchedutil",
       [](const MachineRoot& root, MachineSources&) {
         root.write(std::string(kCpuFreq) + "scaling_governor", "schedutil\n");
         root.write(std::string(kCpuFreq) + "scaling_driver", "acpi-cpufreq\n");
         root.write(std::string(kCpuFreq) + "cpuinfo_min_freq", "1500000\n");
         root.write(std::string(kCpuFreq) + "cpuinfo_max_freq", "3400000\n");
         root.write(std::string(kCpuFreq) + "scaling_max_freq", "3400000\n");
       }},
      {"JobOfASchedulerWithGroupsOfVersion1",
       [](const MachineRoot& root, MachineSources&) {
         root.set_cpus("0-127", "8-15", "0-1");
         root.set_environment({"SLURM_JOB_ID=7", "OMP_NUM_THREADS=8", "OMP_PROC_BIND=false"});
         root.write("proc/self/cgroup", "5:cpuset:/slurm/job_7\n1:cpu,cpuacct:/\n");
         root.write("proc/self/mountinfo",
                    "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
                    "33 31 0:30 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n");
         root.write("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
         root.write("sys/fs/cgroup/cpuset/slurm/job_7/cpuset.cpus", "8-15\n");
         root.write("sys/devices/system/node/node0/cpulist", "0-63\n");
         root.write("sys/devices/system/node/node1/cpulist", "64-127\n");
       }},
      {"QuotaOfExactlyItsCpus",
       [](const MachineRoot& root, MachineSources&) {
         root.write("sys/fs/cgroup/jobs/7/cpu.max", "800000 100000\n");
         root.write("sys/fs/cgroup/jobs/cpu.max", "6400000 100000\n");
       }},
      {"VirtualMachineWithNeighbours",
       [](const MachineRoot& root, MachineSources&) {
         root.write("proc/stat", "cpu  30000 0 2000 60000 0 0 0 2500 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
         root.write("proc/loadavg", "1.90 1.20 0.90 2/200 4711\n");
         root.write("proc/pressure/cpu", "some avg10=3.70 avg60=2.00 avg300=1.00 total=9000\n");
       }},
      {"ThreadsThatWaitShortly",
       [](const MachineRoot& root, MachineSources&) {
         root.set_environment({"OMP_WAIT_POLICY=PASSIVE", "GOMP_SPINCOUNT=300000", "OMP_THREAD_LIMIT=64"});
         root.write("proc/loadavg", "7.50 7.00 6.00 9/200 4711\n");
       }},
      {"LimitOfOneDnnThatLimitsNothing",
       [](const MachineRoot& root, MachineSources&) {
         root.set_environment({"ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX", "DNNL_MAX_CPU_ISA=avx512_core_bf16"});
       }},
      {"GpusOfWhichNoneIsWanted",
       [](const MachineRoot& root, MachineSources& sources) {
         root.add_gpus(8);
         root.set_environment({"CUDA_VISIBLE_DEVICES=", "CUDA_LAUNCH_BLOCKING=1"});
         sources.wants_gpu = false;
       }},
      {"MemoryLimitOfAContainer",
       [](const MachineRoot& root, MachineSources&) {
         root.write("sys/fs/cgroup/jobs/7/memory.max", "8589934592\n");
         root.write("sys/fs/cgroup/jobs/7/memory.current", "8000000000\n");
         root.write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
       }},
      {"RecordedContainerWithTwoGpus",  // its proc and sys; NVML is the fake one, of another driver
       [](const MachineRoot& root, MachineSources& sources) {
         for (const char* const name : {"proc", "sys"}) std::filesystem::remove_all(root.path() / name);
         unpack_root(std::filesystem::path(kSourceDir) / "tests/doctor/roots/container_h200.root", root);
         root.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX  580.159  Release Build\n");
         sources.isa_used = CpuIsa::kAmx;
         sources.nvml = kFakeNvml;
         sources.built_for_gpu = true;
         sources.cuda_major = 13;
       }},
      {"RecordedVirtualMachine",  // by tests/doctor/record_root.sh, while others worked on it
       [](const MachineRoot& root, MachineSources& sources) {
         for (const char* const name : {"proc", "sys"}) std::filesystem::remove_all(root.path() / name);
         unpack_root(std::filesystem::path(kSourceDir) / "tests/doctor/roots/vm.root", root);
         sources.isa_used = CpuIsa::kAmx;
       }},
  };
  return kMachines;
}

class HealthyMachine : public testing::TestWithParam<Healthy> {};

TEST_P(HealthyMachine, HasNothingWrong) {
  unsetenv("FAKE_NVML");
  const MachineRoot root;
  MachineSources sources = root.sources();
  GetParam().make(root, sources);
  for (const Finding& finding : diagnose(sources))
    EXPECT_EQ(finding.severity, Severity::kCould) << finding.id << ": " << finding.sentence;
}

INSTANTIATE_TEST_SUITE_P(Healthy, HealthyMachine, testing::ValuesIn(healthy_machines()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST(HealthyMachines, HaveAtMostTwoThingsThatCouldBeBetter) {
  unsetenv("FAKE_NVML");
  std::vector<std::string> all;
  for (const Healthy& healthy : healthy_machines()) {
    const MachineRoot root;
    MachineSources sources = root.sources();
    healthy.make(root, sources);
    for (const Finding& finding : diagnose(sources)) all.push_back(healthy.name + (": " + finding.id));
  }
  EXPECT_THAT(all, testing::ElementsAre("RecordedVirtualMachine: cpu-busy")) << "it was";
}

TEST(ReadMachine, ReadsARecordedOne) {
  const FakeRoot root;
  unpack_root(std::filesystem::path(kSourceDir) / "tests/doctor/roots/vm.root", root);
  const CpuFacts cpu = read_cpu(root.path(), CpuIsa::kAmx);
  EXPECT_EQ(cpu.name, "Intel(R) Xeon(R) Processor");
  EXPECT_EQ(cpu.isa_there, CpuIsa::kAmx);
  EXPECT_EQ(cpu.online, 2);
  EXPECT_EQ(cpu.allowed_list, "0-1");
  EXPECT_EQ(cpu.memory_nodes, "0");
  EXPECT_FALSE(cpu.quota);
  EXPECT_EQ(cpu.governor, "");
  EXPECT_NEAR(cpu.steal_share.value(), 0.0017, 0.0001);
  const MemoryFacts memory = read_memory(root.path());
  EXPECT_GT(memory.installed_bytes, std::size_t{20} << 30);
  EXPECT_EQ(memory.shm_bytes, std::size_t{24684092} << 10);
  const FakeRoot container;
  unpack_root(std::filesystem::path(kSourceDir) / "tests/doctor/roots/container_h200.root", container);
  EXPECT_EQ(read_cpu(container.path(), CpuIsa::kAmx).allowed_list, "0-31");
  EXPECT_EQ(read_memory(container.path()).shm_bytes, std::size_t{268435456} << 10) << "the last mount";
}

}  // namespace
}  // namespace headroom::doctor
