// Set-ups that are wrong in one respect each: `headroom doctor` finds it, with the evidence and what mends it.

#include <gmock/gmock.h>
#include <sys/wait.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "base/test_paths.hpp"
#include "doctor/test_util.hpp"

namespace headroom::doctor {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// A machine with two GPUs, the first as FAKE_NVML says (tests/fake/nvml.c), and libraries that fit.
class SabotagedGpu : public testing::Test {
 protected:
  SabotagedGpu() { root_.add_gpus(2); }
  ~SabotagedGpu() override { unsetenv("FAKE_NVML"); }

  [[nodiscard]] MachineSources sources() const {
    MachineSources sources = root_.sources();
    sources.nvml = kFakeNvml;
    sources.built_for_gpu = true;
    sources.cuda_major = 13;
    return sources;
  }
  [[nodiscard]] std::vector<Finding> findings_with(const char* settings) const {
    setenv("FAKE_NVML", settings, 1);
    return diagnose(sources());
  }
  /// A library of this version as a file of this name.
  [[nodiscard]] std::string library(int version, const std::string& name) const {
    const fs::path file = libraries_ / name;
    fs::create_directories(file.parent_path());
    fs::copy_file(kFakeLibrary + std::to_string(version) + ".so", file, fs::copy_options::overwrite_existing);
    return file.native();
  }
  [[nodiscard]] std::string folder(const std::string& name) const { return (libraries_ / name).native(); }

  MachineRoot root_;

 private:
  TempFolder libraries_;
};

LibraryNeed need(const std::string& name, const std::string& soname, const std::string& function,
                 PackedVersion least = 0) {
  return {.name = name,
          .soname = soname,
          .version_function = function,
          .least = least,
          .used_for = "attention",
          .package = "nvidia-" + name};
}

TEST_F(SabotagedGpu, HealthyAsItIs) {
  MachineSources whole = sources();
  whole.libraries = {need("cudnn", library(91900, "libcudnn.so.9"), "cudnnGetVersion", 91301)};
  EXPECT_THAT(ids_of(diagnose(whole)), IsEmpty());
}

TEST_F(SabotagedGpu, WithoutNvrtc) {
  MachineSources without = sources();
  without.libraries = {need("nvrtc", "libheadroom-no-nvrtc.so.13", "nvrtcVersion")};
  const Finding finding = only_finding(diagnose(without), "library-missing");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_THAT(finding.evidence[0].source, HasSubstr("libheadroom-no-nvrtc.so.13"));
  EXPECT_THAT(finding.evidence[0].value, HasSubstr("cannot open shared object file"));
  EXPECT_THAT(finding.mend, HasSubstr("pip install nvidia-nvrtc"));
}

TEST_F(SabotagedGpu, WithoutCuptiOnlyProfilesAreMissed) {
  MachineSources without = sources();
  without.libraries = {need("cupti", "libheadroom-no-cupti.so.13", "cuptiGetVersion")};
  without.libraries[0].is_essential = false;
  const Finding finding = only_finding(diagnose(without), "library-missing");
  EXPECT_EQ(finding.severity, Severity::kCould);
  EXPECT_THAT(finding.mend, HasSubstr("pip install nvidia-cupti"));
}

TEST_F(SabotagedGpu, WithACudnnThatIsTooOld) {
  MachineSources old = sources();
  old.libraries = {need("cudnn", library(90100, "libcudnn.so.9"), "cudnnGetVersion", 91301)};
  const Finding finding = only_finding(diagnose(old), "library-old");
  EXPECT_EQ(finding.evidence[0].value, "9.1.0");
  EXPECT_EQ(finding.evidence[0].expected, "9.13.1 or newer");
  EXPECT_THAT(finding.evidence[0].source, HasSubstr("libcudnn.so.9"));
  EXPECT_THAT(finding.mend, HasSubstr("'nvidia-cudnn>=9.13.1'"));
}

/// What tests/fake/survey_library.cpp prints with these folders in LD_LIBRARY_PATH.
std::string survey_with(const std::string& folders) {
  const std::string command =
      "LD_LIBRARY_PATH=" + folders + " " + kSurveyLibrary + " libfake-cublasLt.so.13 cublasLtGetVersion";
  FILE* const pipe = popen(command.c_str(), "r");
  std::string out(4096, '\0');
  out.resize(fread(out.data(), 1, out.size(), pipe));
  EXPECT_EQ(pclose(pipe), 0) << command;
  return out;
}

TEST_F(SabotagedGpu, WithASecondCublasltEarlierInLdLibraryPath) {
  const std::string old = library(130000, "old/libfake-cublasLt.so.13");
  static_cast<void>(library(130100, "new/libfake-cublasLt.so.13"));
  const std::string out = survey_with(folder("old") + ":" + folder("new"));
  EXPECT_THAT(out, HasSubstr(old +
                             "\nlibrary-shadowed|The loader takes cuBLASLt 13.0.0 from LD_LIBRARY_PATH, although "
                             "13.1.0 is there.|" +
                             old + ", version 13.0.0, by LD_LIBRARY_PATH|take " + folder("old") +
                             " out of LD_LIBRARY_PATH, or put " + folder("new") + " before it\n"));
  EXPECT_EQ(survey_with(folder("new") + ":" + folder("old")), folder("new") + "/libfake-cublasLt.so.13\n")
      << "the newer one is taken: nothing to mend";
}

TEST_F(SabotagedGpu, WithoutNvml) {
  MachineSources without = sources();
  without.nvml = "libheadroom-no-nvml.so.1";
  const Finding finding = only_finding(diagnose(without), "nvml-missing");
  EXPECT_EQ(finding.severity, Severity::kUnknown);
  EXPECT_THAT(finding.mend, HasSubstr("install the driver's library libnvidia-ml.so.1"));
  EXPECT_EQ(exit_code_of(std::vector{finding}, {}), ExitCode::kInconclusive);
  root_.write(".dockerenv", "");
  EXPECT_THAT(only_finding(diagnose(without), "nvml-missing").mend,
              HasSubstr("NVIDIA_DRIVER_CAPABILITIES=compute,utility"));
}

TEST_F(SabotagedGpu, WithADriverThatWasUpdatedWithoutAReboot) {
  EXPECT_THAT(only_finding(findings_with("init=18,gpus=0"), "driver-mismatch").mend, HasSubstr("reboot"));
  root_.write("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  575.1  Release Build\n");
  const Finding finding = only_finding(findings_with(""), "driver-mismatch");
  EXPECT_EQ(finding.evidence[0].value, "13.580.159");
  EXPECT_EQ(finding.evidence[1].value, "575.1");
}

TEST_F(SabotagedGpu, WithADriverOlderThanTheProgram) {
  EXPECT_EQ(only_finding(findings_with("cuda=12080"), "driver-old").evidence[0].value, "12.8");
}

TEST_F(SabotagedGpu, BusyByAnotherProcess) {
  root_.write("proc/4711/comm", "trainer\n");
  const Finding finding = only_finding(findings_with("busy=97,pid=4711,holds_mib=2048,pcie_generation=5"), "gpu-busy");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].value, "97%");
  EXPECT_EQ(finding.evidence[1].value, "process 4711 (trainer) holds 2.00 GiB");
  EXPECT_THAT(finding.mend, HasSubstr("CUDA_VISIBLE_DEVICES=N"));
}

TEST_F(SabotagedGpu, IsNotBusyIfAProcessHasJustEnded) {
  EXPECT_THAT(ids_of(findings_with("busy=97,busy_reads=1")), IsEmpty());
}

TEST_F(SabotagedGpu, WithItsMemoryNearlyFull) {
  const Finding finding = only_finding(findings_with("free_mib=700,pid=12,holds_mib=80000"), "gpu-full");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].value, "700 MiB free");
  EXPECT_THAT(finding.evidence[1].value, HasSubstr("process 12 holds 78.1 GiB"));
}

TEST_F(SabotagedGpu, HiddenByAnEmptyVariable) {
  root_.set_environment({"CUDA_VISIBLE_DEVICES="});
  const Finding finding = only_finding(findings_with(""), "gpu-hidden");
  EXPECT_EQ(finding.evidence[0].value, "''");
  EXPECT_EQ(finding.evidence[0].expected, "not set, or some of 0 to 1");
  EXPECT_EQ(finding.mend, "unset CUDA_VISIBLE_DEVICES");
  root_.set_environment({"CUDA_VISIBLE_DEVICES=7"});
  static_cast<void>(only_finding(findings_with(""), "gpu-hidden"));
}

TEST_F(SabotagedGpu, ThrottledByHeat) {
  const Finding finding = only_finding(findings_with("throttle=0x40,temperature=91"), "gpu-throttled");
  EXPECT_THAT(finding.sentence, HasSubstr("held down by heat"));
  EXPECT_EQ(finding.evidence[0].value, "hardware thermal slowdown (0x40)");
  EXPECT_EQ(finding.evidence[1].value, "345 MHz");
  EXPECT_EQ(finding.evidence[2].value, "91 C");
  EXPECT_DOUBLE_EQ(finding.cost.factor.value(), 1980.0 / 345);
  EXPECT_THAT(finding.mend, HasSubstr("cool it"));
}

TEST_F(SabotagedGpu, WithItsPowerCapped) {
  const Finding finding = only_finding(findings_with("limit_mw=350000"), "gpu-power-limit");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].value, "350 W");
  EXPECT_EQ(finding.mend, "sudo nvidia-smi -i 0 -pl 700");
  EXPECT_EQ(finding.cost.factor, 2);
}

TEST_F(SabotagedGpu, WithoutEcc) {
  const Finding finding = only_finding(findings_with("ecc=0"), "gpu-ecc-off");
  EXPECT_EQ(finding.severity, Severity::kCould);
  EXPECT_THAT(finding.mend, HasSubstr("nvidia-smi -i 0 -e 1"));
  EXPECT_EQ(only_finding(findings_with("errors=3"), "gpu-memory-errors").evidence[0].value, "3");
}

TEST_F(SabotagedGpu, OnFourLanesOfPcie) {
  const Finding finding = only_finding(findings_with("pcie_width=4"), "gpu-pcie");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].value, "x4");
  EXPECT_EQ(finding.evidence[0].expected, "x16");
  EXPECT_EQ(finding.cost.factor, 4) << "the generation of an idle link says nothing";
  EXPECT_THAT(finding.mend, HasSubstr("slot with 16 lanes"));
}

TEST_F(SabotagedGpu, OtherGpusAreNoFaultOfThisOne) {
  root_.set_environment({"CUDA_VISIBLE_DEVICES=1"});
  EXPECT_THAT(ids_of(findings_with("busy=97,free_mib=10,ecc=0,limit_mw=1000")), IsEmpty());
}

TEST_F(SabotagedGpu, WithBlockingLaunches) {
  root_.set_environment({"CUDA_LAUNCH_BLOCKING=1"});
  EXPECT_EQ(only_finding(findings_with(""), "launch-blocking").mend, "unset CUDA_LAUNCH_BLOCKING");
}

TEST_F(SabotagedGpu, ThatCopiesTooSlowly) {
  setenv("FAKE_NVML", "", 1);
  MachineFacts facts = read_machine(sources());
  facts.measured = MeasuredFacts{.copy_bytes_per_s = 4.28e12, .is_gpu = true, .disturbance = {}};  // an H200
  EXPECT_THAT(ids_of(run_checks(machine_checks(), facts)), IsEmpty());
  facts.measured->copy_bytes_per_s = 2e12;
  const Finding finding = only_finding(run_checks(machine_checks(), facts), "gpu-slow-copies");
  EXPECT_THAT(finding.evidence[0].expected, HasSubstr("6144 bits at 3201 MHz"));
}

TEST_F(SabotagedGpu, ThatMultipliesTooSlowly) {
  setenv("FAKE_NVML", "", 1);
  MachineFacts facts = read_machine(sources());
  facts.nvml.gpus.front().name = "NVIDIA H200";
  facts.measured = MeasuredFacts{.copy_bytes_per_s = 4.28e12,
                                 .product_flops_per_s = 650e12,
                                 .product_arithmetic = "bf16",
                                 .is_gpu = true,
                                 .disturbance = {}};
  EXPECT_THAT(ids_of(run_checks(machine_checks(), facts)), IsEmpty());
  const std::vector<Fact> described = describe(facts);
  const auto products = std::ranges::find(described, "matmuls", &Fact::name);
  ASSERT_NE(products, described.end());
  EXPECT_EQ(products->value,
            "650 TFLOP/s in bf16 on the GPU; its data sheet says 990 TFLOP/s (NVIDIA H200 Tensor Core GPU datasheet)");
  facts.measured->product_flops_per_s = 400e12;
  EXPECT_THAT(only_finding(run_checks(machine_checks(), facts), "gpu-slow-matmuls").evidence[0].expected,
              HasSubstr("70% of the peak in NVIDIA H200"));
  facts.nvml.gpus.front().name = "NVIDIA of another kind";
  EXPECT_THAT(ids_of(run_checks(machine_checks(), facts)), IsEmpty());
}

TEST_F(SabotagedGpu, InAProgramBuiltWithoutCuda) {
  MachineSources without = sources();
  without.built_for_gpu = false;
  without.cuda_major = 0;
  setenv("FAKE_NVML", "", 1);
  EXPECT_EQ(only_finding(diagnose(without), "build-without-cuda").mend, "scripts/bootstrap.sh cuda && make");
}

TEST(SabotagedCpu, WithOneCoreForEightThreads) {
  const MachineRoot root;
  root.set_cpus("0-7", "3");
  root.set_environment({"OMP_NUM_THREADS=8"});
  const std::vector<Finding> findings = diagnose(root.sources());
  EXPECT_THAT(ids_of(findings), testing::ElementsAre("threads-over-cpus", "affinity-narrow"));
  const Finding& finding = findings[0];
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].value, "8");
  EXPECT_EQ(finding.evidence[1].value, "3");
  EXPECT_EQ(finding.cost.factor, 8);
  EXPECT_EQ(finding.mend, "start it without the affinity mask: taskset -c 0-7 headroom ...");
  MachineSources asked = root.sources();
  root.set_environment({});
  asked.threads = 8;
  EXPECT_EQ(only_finding(diagnose(asked), "threads-over-cpus").evidence[0].source, "--threads");
  root.set_cpus("0-7", "0-7");
  asked.threads = 9;
  const Finding more_than_there_are = only_finding(diagnose(asked), "threads-over-cpus");
  EXPECT_EQ(more_than_there_are.severity, Severity::kCould);
  EXPECT_EQ(more_than_there_are.cost.words, "nothing is lost");
  EXPECT_EQ(more_than_there_are.mend, "ask for 8 threads");
}

TEST(SabotagedCpu, BoundByOpenMp) {
  const MachineRoot root;
  root.set_cpus("0-7", "0-1");
  root.set_environment({"OMP_PROC_BIND=true"});
  const Finding finding = only_finding(diagnose(root.sources()), "affinity-narrow");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.mend, "unset OMP_PROC_BIND OMP_PLACES");
  root.set_environment({"OMP_THREAD_LIMIT=2"});
  root.set_cpus("0-7", "0-7");
  EXPECT_EQ(only_finding(diagnose(root.sources()), "omp-thread-limit").cost.factor, 4);
}

TEST(SabotagedCpu, WithAQuotaOfHalfACore) {
  const MachineRoot root;
  root.write("sys/fs/cgroup/jobs/cpu.max", "50000 100000\n");
  root.write("sys/fs/cgroup/jobs/cpu.stat", "usage_usec 5\nnr_periods 200\nnr_throttled 150\nthrottled_usec 9\n");
  root.write("sys/fs/cgroup/jobs/7/cpu.max", "max 100000\n");
  const Finding finding = only_finding(diagnose(root.sources()), "cpu-quota");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].source, "/sys/fs/cgroup/jobs/cpu.max");
  EXPECT_EQ(finding.evidence[0].value, "50000 100000");
  EXPECT_EQ(finding.evidence[1].value, "throttled in 75% of the periods");
  EXPECT_EQ(finding.cost.factor, 16);
  EXPECT_EQ(finding.mend, "raise the quota (docker --cpus=8, Kubernetes limits.cpu: 8)");
}

TEST(SabotagedCpu, WithAQuotaOfVersion1) {
  const MachineRoot root;
  root.write("proc/self/cgroup", "1:cpu,cpuacct:/box\n");
  root.write("proc/self/mountinfo", "32 31 0:29 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_quota_us", "400000\n");
  root.write("sys/fs/cgroup/cpu/box/cpu.cfs_period_us", "100000\n");
  const Finding finding = only_finding(diagnose(root.sources()), "cpu-quota");
  EXPECT_THAT(finding.mend, HasSubstr("or give --threads 4"));
  MachineSources fitting = root.sources();
  fitting.threads = 4;
  EXPECT_THAT(ids_of(diagnose(fitting)), IsEmpty());
}

TEST(SabotagedCpu, WithAMemoryLimitBelowTheModel) {
  const MachineRoot root;
  const TempFolder models;
  const fs::path model = models / "model.safetensors";
  std::ofstream(model) << std::string(3 << 20, 'x');
  root.write("sys/fs/cgroup/jobs/7/memory.max", "2097152\n");
  root.write("sys/fs/cgroup/jobs/7/memory.current", "1048576\n");
  MachineSources sources = root.sources();
  sources.model_files = {model};
  const Finding finding = only_finding(diagnose(sources), "memory-limit");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.sentence, "The model's files have 3.00 MiB, and a limit leaves this process 1.00 MiB.");
  EXPECT_EQ(finding.evidence[0].source, "/sys/fs/cgroup/jobs/7/memory.max");
  EXPECT_THAT(finding.mend, HasSubstr("docker --memory"));
  root.write("sys/fs/cgroup/jobs/7/memory.max", "max\n");
  root.write("proc/self/limits", "Max address space         1048576              unlimited            bytes     \n");
  EXPECT_THAT(only_finding(diagnose(sources), "memory-limit").mend, HasSubstr("ulimit -v unlimited"));
  root.write("proc/self/limits", "Max address space         unlimited            unlimited            bytes     \n");
  root.write("proc/meminfo", "MemTotal: 67108864 kB\nMemAvailable: 1000 kB\n");
  static_cast<void>(only_finding(diagnose(sources), "memory-short"));
}

TEST(SabotagedCpu, WithSpinningThreadsOnSharedCores) {
  const MachineRoot root;
  root.set_environment({"OMP_WAIT_POLICY=ACTIVE"});
  EXPECT_EQ(only_finding(diagnose(root.sources()), "omp-spinning").severity, Severity::kCould)
      << "nobody else is there";
  root.write("proc/loadavg", "6.50 0.20 0.30 1/200 4711\n");
  const Finding finding = only_finding(diagnose(root.sources()), "omp-spinning");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].source, "OMP_WAIT_POLICY");
  EXPECT_EQ(finding.evidence[1].source, "/proc/loadavg");
  EXPECT_EQ(finding.mend, "unset OMP_WAIT_POLICY");
}

TEST(SabotagedCpu, WithAColdPageCache) {
  const MachineRoot root;
  const TempFolder models;
  const fs::path model = models / "model.safetensors";
  MachineSources sources = root.sources();
  sources.model_files = {model};
  std::ofstream(model) << std::string(1 << 20, 'x');
  EXPECT_THAT(ids_of(diagnose(sources)), IsEmpty()) << "what was just written is in memory";
  EXPECT_EQ(cached_bytes(model), std::uint64_t{1} << 20);
  fs::resize_file(model, 0);
  fs::resize_file(model, 32 << 20);  // pages that nobody has read
  EXPECT_THAT(ids_of(diagnose(sources)), IsEmpty()) << "too few to matter";
  fs::resize_file(model, 128 << 20);
  const Finding finding = only_finding(diagnose(sources), "page-cache-cold");
  EXPECT_EQ(finding.severity, Severity::kCould);
  EXPECT_THAT(finding.evidence[0].source, HasSubstr("mincore of " + model.native()));
  EXPECT_EQ(finding.evidence[0].value, "0 B resident");
  EXPECT_EQ(finding.mend, "read it once: cat " + model.native() + " >/dev/null");
  const fs::path folder = models.path();
  sources.model_files = {};
  for (const char* part : {"unet", "vae"}) {
    fs::create_directory(folder / part);
    sources.model_files.push_back(folder / part / "a.safetensors");
    std::ofstream(sources.model_files.back()) << "";
    fs::resize_file(sources.model_files.back(), 64 << 20);
  }
  EXPECT_EQ(only_finding(diagnose(sources), "page-cache-cold").mend,
            fmt::format("read it once: cat {0}/unet/*.safetensors {0}/vae/*.safetensors >/dev/null", folder.native()));
}

TEST(SabotagedCpu, NamesFilesAsAShellTakesThem) {
  MachineFacts facts;
  const auto mend_of = [&](std::vector<fs::path> files) {
    facts.model = ModelFiles{.files = std::move(files), .bytes = 128 << 20, .cached_bytes = 0};
    return only_finding(run_checks(machine_checks(), facts), "page-cache-cold").mend;
  };
  EXPECT_EQ(mend_of({"my models/it's.gguf"}), R"(read it once: cat 'my models/it'\''s.gguf' >/dev/null)");
  EXPECT_EQ(mend_of({"my models/a.gguf", "my models/b.gguf"}), "read it once: cat 'my models'/*.gguf >/dev/null");
}

TEST(SabotagedCpu, WithFilesWhosePagesAreNotKnown) {
  MachineFacts facts;
  facts.model = ModelFiles{.files = {"model.safetensors"}, .bytes = 1 << 20, .cached_bytes = {}};
  const Finding finding = only_finding(run_checks(machine_checks(), facts), "page-cache-cold");
  EXPECT_EQ(finding.severity, Severity::kUnknown);
  EXPECT_EQ(finding.mend, "look as the owner of the files");
}

TEST(SabotagedCpu, WithItsVectorUnitsDisabled) {
  const MachineRoot root;
  MachineSources limited = root.sources();
  limited.isa_used = CpuIsa::kAvx2;
  limited.isa_option = "avx2";
  Finding finding = only_finding(diagnose(limited), "isa-unused");
  EXPECT_EQ(finding.severity, Severity::kWrong);
  EXPECT_EQ(finding.evidence[0].value, "avx2");
  EXPECT_EQ(finding.evidence[1].value, "avx512_bf16");
  EXPECT_EQ(finding.mend, "leave out --cpu-isa avx2");
  limited.isa_option = "";
  EXPECT_THAT(only_finding(diagnose(limited), "isa-unused").mend, HasSubstr("ARCH_REQ_XCOMP_PERM"));
  MachineSources narrow = root.sources();
  narrow.vector_unit = "highway:avx2";
  EXPECT_THAT(only_finding(diagnose(narrow), "isa-unused").mend, HasSubstr("HEADROOM_VECTOR_UNITS=ALL"));
  root.set_environment({"ONEDNN_MAX_CPU_ISA=AVX2"});
  EXPECT_EQ(only_finding(diagnose(root.sources()), "isa-unused").mend, "unset ONEDNN_MAX_CPU_ISA");
  root.set_environment({"ONEDNN_MAX_CPU_ISA=AVX512_CORE_AMX"});
  EXPECT_THAT(diagnose(root.sources()), testing::IsEmpty()) << "no limit";
}

TEST(SabotagedCpu, WithAPowersaveGovernor) {
  const MachineRoot root;
  const std::string folder = "sys/devices/system/cpu/cpu0/cpufreq/";
  root.write(folder + "scaling_governor", "powersave\n");
  root.write(folder + "scaling_driver", "acpi-cpufreq\n");
  root.write(folder + "cpuinfo_min_freq", "1200000\n");
  root.write(folder + "cpuinfo_max_freq", "3600000\n");
  const Finding finding = only_finding(diagnose(root.sources()), "governor");
  EXPECT_EQ(finding.evidence[0].source, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  EXPECT_EQ(finding.cost.factor, 3);
  EXPECT_EQ(finding.mend, "sudo cpupower frequency-set -g performance");
  root.write(folder + "scaling_driver", "intel_pstate\n");
  EXPECT_THAT(ids_of(diagnose(root.sources())), IsEmpty()) << "there it follows the load";
  root.write(folder + "energy_performance_preference", "power\n");
  EXPECT_THAT(only_finding(diagnose(root.sources()), "governor").mend, HasSubstr("energy_performance_preference"));
  root.write(folder + "scaling_governor", "performance\n");
  root.write(folder + "scaling_max_freq", "1800000\n");
  EXPECT_EQ(only_finding(diagnose(root.sources()), "clock-limit").mend, "sudo cpupower frequency-set -u 3600MHz");
}

TEST(SabotagedCpu, WithMemoryOfTheOtherSocket) {
  const MachineRoot root;
  root.set_cpus("0-7", "4-7", "0");
  root.write("sys/fs/cgroup/jobs/7/cpuset.cpus.effective", "4-7\n");
  root.write("sys/devices/system/node/node0/cpulist", "0-3\n");
  root.write("sys/devices/system/node/node1/cpulist", "4-7\n");
  EXPECT_EQ(only_finding(diagnose(root.sources()), "numa-remote").mend,
            "numactl --cpunodebind=1 --membind=1 headroom ...");
}

TEST(SabotagedCpu, ByOthersOnTheSameHardware) {
  const MachineRoot root;
  root.write("proc/stat", "cpu  1000 0 100 7000 0 0 0 1900 0 0\n");
  EXPECT_EQ(only_finding(diagnose(root.sources()), "steal").evidence[0].value, "19.0% of all");
  root.write("proc/stat", "cpu  1000 0 100 7000 0 0 0 19 0 0\n");
  root.write("proc/pressure/cpu", "some avg10=80.92 avg60=70.55 avg300=78.55 total=17\n");
  EXPECT_EQ(only_finding(diagnose(root.sources()), "cpu-busy").severity, Severity::kCould);
  MachineFacts facts = read_machine(root.sources());
  facts.measured = MeasuredFacts{.copy_bytes_per_s = 1e10, .is_gpu = false, .disturbance = "threads waited"};
  EXPECT_EQ(only_finding(run_checks(machine_checks(), facts), "cpu-busy").severity, Severity::kWrong);
  facts.measured->disturbance.clear();
  static_cast<void>(only_finding(run_checks(machine_checks(), facts), "cpu-busy"));
}

TEST(SabotagedCpu, WithoutHugePages) {
  const MachineRoot root;
  root.write("sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  EXPECT_EQ(only_finding(diagnose(root.sources()), "huge-pages-off").severity, Severity::kCould);
}

}  // namespace
}  // namespace headroom::doctor
