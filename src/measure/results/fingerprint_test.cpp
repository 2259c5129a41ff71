#include "measure/results/fingerprint.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

namespace headroom {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

Machine machine() {
  return {
      .cpu = "Xeon",
      .cpu_isa = "amx",
      .logical_cores = 4,
      .allowed_cores = 2,
      .cpu_max_mhz = 3000,
      .cpu_governor = "performance",
      .memory_bytes = 1'000'000'000,
      .gpus = {{"NVIDIA L4", "570.1"}},
      .os = "Debian",
      .kernel = "Linux 6.1",
      .build =
          BuildInfo{.version = "1", .git_revision = "a", .type = "Release", .compiler = "gcc 12", .optimized = true},
      .libraries = {{"oneDNN", "3.0"}}};
}

std::vector<std::string> after(const std::function<void(Machine&)>& change) {
  Machine changed = machine();
  change(changed);
  return machine_differences(machine(), changed);
}

TEST(Fingerprint, IgnoresWhatIsCompared) {
  EXPECT_THAT(machine_differences(machine(), machine()), IsEmpty());
  EXPECT_THAT(after([](Machine& m) {
                m.build->git_revision = "b";
                m.build->version = "2";
                m.memory_bytes += 5'000'000;
              }),
              IsEmpty());
}

TEST(Fingerprint, NamesWhatDiffers) {
  EXPECT_THAT(after([](Machine& m) { m.cpu = "EPYC"; }), ElementsAre("CPU: EPYC against Xeon"));
  EXPECT_THAT(after([](Machine& m) { m.cpu_isa.reset(); }), ElementsAre("vector units: unknown against amx"));
  EXPECT_THAT(after([](Machine& m) { m.logical_cores = 8; }), ElementsAre("logical cores: 8 against 4"));
  EXPECT_THAT(after([](Machine& m) { m.allowed_cores = 1; }), ElementsAre("allowed cores: 1 against 2"));
  EXPECT_THAT(after([](Machine& m) { m.cpu_max_mhz = 2000; }), ElementsAre("CPU's highest MHz: 2000 against 3000"));
  EXPECT_THAT(after([](Machine& m) { m.cpu_governor = "powersave"; }),
              ElementsAre("CPU governor: powersave against performance"));
  EXPECT_THAT(after([](Machine& m) { m.memory_bytes = 2'000'000'000; }),
              ElementsAre("memory: 1.86 GiB against 954 MiB"));
  EXPECT_THAT(after([](Machine& m) { m.gpus[0].driver = "580.2"; }),
              ElementsAre("GPU: NVIDIA L4 (driver 580.2) against NVIDIA L4 (driver 570.1)"));
  EXPECT_THAT(after([](Machine& m) { m.gpus.clear(); }), ElementsAre("GPU: none against NVIDIA L4 (driver 570.1)"));
  EXPECT_THAT(after([](Machine& m) { m.os = "Ubuntu"; }), ElementsAre("system: Ubuntu against Debian"));
  EXPECT_THAT(after([](Machine& m) { m.kernel = "Linux 6.2"; }), ElementsAre("kernel: Linux 6.2 against Linux 6.1"));
  EXPECT_THAT(after([](Machine& m) { m.build->type = "Debug"; }), ElementsAre("build type: Debug against Release"));
  EXPECT_THAT(after([](Machine& m) { m.build->compiler = "clang 16"; }),
              ElementsAre("compiler: clang 16 against gcc 12"));
  EXPECT_THAT(after([](Machine& m) { m.build->optimized = false; }),
              ElementsAre("compiled with optimization: no against yes"));
  EXPECT_THAT(after([](Machine& m) { m.build->sanitized = true; }),
              ElementsAre("compiled with a sanitizer: yes against no"));
  EXPECT_THAT(after([](Machine& m) {
                m.libraries = {{"oneDNN", "3.1"}, {"Highway", "1.0"}};
              }),
              ElementsAre("Highway: 1.0 against none", "oneDNN: 3.1 against 3.0"));
}

TEST(Fingerprint, ComparesBuildsOnlyWhereBothHaveOne) {
  EXPECT_THAT(after([](Machine& m) {
                m.build.reset();
                m.libraries = {{"torch", "2.8"}};
              }),
              IsEmpty());
}

TEST(Fingerprint, ComparesHowABenchmarkRan) {
  const Configuration base{
      .device = "cpu", .asked = {}, .applied = {}, .declined = {}, .threads = 2, .baseline_dtype = "f32"};
  EXPECT_THAT(configuration_differences(base, base), IsEmpty());
  Configuration changed = base;
  changed.device = "cuda";
  changed.threads.reset();
  changed.baseline_dtype = "bf16";
  EXPECT_THAT(
      configuration_differences(base, changed),
      ElementsAre("device: cuda against cpu", "threads: unknown against 2", "baseline's dtype: bf16 against f32"));
}

TEST(Fingerprint, ComparesTheKindOfGpuInUse) {
  Configuration base{.device = "cuda", .asked = {}, .applied = {}, .declined = {}, .threads = {}, .baseline_dtype = {}};
  Configuration changed = base;
  changed.gpu = {.name = "NVIDIA H200", .index = 0, .uuid = "GPU-1"};
  EXPECT_THAT(configuration_differences(base, changed), IsEmpty()) << "an older file does not tell";
  base.gpu = {.name = "NVIDIA H200", .index = 3, .uuid = "GPU-2"};
  EXPECT_THAT(configuration_differences(base, changed), IsEmpty());
  base.gpu->name = "NVIDIA L4";
  EXPECT_THAT(configuration_differences(base, changed), ElementsAre("GPU in use: NVIDIA H200 against NVIDIA L4"));
}

}  // namespace
}  // namespace headroom
