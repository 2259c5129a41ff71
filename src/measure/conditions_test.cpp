#include "measure/conditions.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <string>

#include "measure/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConditionsTest : public testing::Test {
 protected:
  void write_steal(int ticks) const {
    root_.write("proc/stat",
                "cpu  10 20 30 40 50 60 70 " + std::to_string(ticks) + " 0 0\ncpu0 1 2 3 4 5 6 7 8 9 10\n");
  }
  void write_khz(const std::string& khz) const {
    root_.write("sys/devices/system/cpu/cpu" + std::to_string(sched_getcpu()) + "/cpufreq/scaling_cur_freq",
                khz + "\n");
  }
  FakeRoot root_;
};

TEST_F(ConditionsTest, ReadsStealAndFrequencyOfEveryTrial) {
  write_steal(100);
  write_khz("2500000");
  ConditionsProbe probe(false, root_.path());
  write_steal(103);
  probe.add_trial();
  write_khz("1800000");
  probe.add_trial();
  const Conditions conditions = probe.take();
  EXPECT_THAT(conditions.steal_ms, ElementsAre(30, 0));  // ticks of 10 ms
  EXPECT_THAT(conditions.cpu_mhz, ElementsAre(2500, 1800));
  EXPECT_EQ(conditions.preemptions.size(), 2U);
  EXPECT_THAT(conditions.gpu_clock_mhz, IsEmpty());
}

TEST_F(ConditionsTest, LeavesOutWhatTheSystemDoesNotSay) {
  ConditionsProbe nothing(false, root_.path());
  nothing.add_trial();
  EXPECT_THAT(nothing.take().steal_ms, IsEmpty());
  // A column that is known for some trials only would not say which.
  write_steal(1);
  ConditionsProbe probe(false, root_.path());
  probe.add_trial();
  fs::remove(root_.path() / "proc/stat");
  probe.add_trial();
  const Conditions conditions = probe.take();
  EXPECT_THAT(conditions.steal_ms, IsEmpty());
  EXPECT_THAT(conditions.cpu_mhz, IsEmpty());
  EXPECT_EQ(conditions.preemptions.size(), 2U);
}

TEST_F(ConditionsTest, IsAbsentWithoutTheLibrary) {
  EXPECT_EQ(Nvml::open("libheadroom-no-such-library.so.1"), nullptr);
  EXPECT_EQ(Nvml::open("libm.so.6"), nullptr);  // a library, but another one
}

TEST_F(ConditionsTest, ReadsAGpuThroughItsLibrary) {
  unsetenv("CUDA_VISIBLE_DEVICES");
  {
    const std::unique_ptr<Nvml> nvml = Nvml::open(FAKE_NVML);
    ASSERT_NE(nvml, nullptr);
    const GpuState state = nvml->state();
    EXPECT_EQ(state.clock_mhz, 1980);
    EXPECT_EQ(state.memory_clock_mhz, 3201);
    EXPECT_EQ(state.power_w, 612.5);
    EXPECT_EQ(state.throttle, 4);  // power cap; that it was idle as well is no throttling
  }
  setenv("CUDA_VISIBLE_DEVICES", "GPU-1234,0", 1);
  EXPECT_NE(Nvml::open(FAKE_NVML), nullptr);
  setenv("CUDA_VISIBLE_DEVICES", "7", 1);
  EXPECT_EQ(Nvml::open(FAKE_NVML), nullptr);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Disturbance, IsToldInOneSentence) {
  EXPECT_EQ(describe_disturbance({}), "");
  Conditions conditions;
  conditions.preemptions = {0, 2, 1};
  conditions.steal_ms = {0, 30, 0};
  conditions.gpu_throttle = {0, 0, 4};
  EXPECT_EQ(describe_disturbance(conditions),
            "2 of 3 trials were preempted; 30.0 ms of CPU time were stolen by other machines; the GPU's clock was held "
            "down in 1 of 3 trials");
}

}  // namespace
}  // namespace headroom
