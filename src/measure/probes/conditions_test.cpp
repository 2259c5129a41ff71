#include "measure/probes/conditions.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <filesystem>
#include <string>

#include "base/test_paths.hpp"
#include "measure/test_util.hpp"

namespace headroom {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ConditionsTest : public testing::Test {
 protected:
  /// Two CPUs: the one that this test runs on, and one that the process may not use.
  void write_steal(int ticks) const {
    root_.write(
        "proc/stat",
        fmt::format("cpu  1 2 3 4 5 6 7 {} 9 10\ncpu{} 1 2 3 4 5 6 7 {} 9 10\ncpu{} 1 2 3 4 5 6 7 {} 9 10\nintr 1 2\n",
                    9 * ticks, sched_getcpu(), ticks, CPU_SETSIZE, 8 * ticks));
  }
  void write_khz(const std::string& khz) const {
    root_.write("sys/devices/system/cpu/cpu" + std::to_string(sched_getcpu()) + "/cpufreq/scaling_cur_freq",
                khz + "\n");
  }
  FakeRoot root_;
};

TEST_F(ConditionsTest, ReadsStealAndFrequencyOfTheCpusInUse) {
  write_steal(100);
  write_khz("2500000");
  ConditionsProbe probe("", root_.path());
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

TEST_F(ConditionsTest, AddsUpWhatThreadsWaitedForACpu) {
  root_.write("proc/self/task/10/schedstat", "900000000 2000000 77\n");  // nanoseconds: ran, waited
  root_.write("proc/self/task/11/schedstat", "100000000 1000000 12\n");
  ConditionsProbe probe("", root_.path());
  root_.write("proc/self/task/10/schedstat", "990000000 5000000 80\n");
  root_.write("proc/self/task/12/schedstat", "1000000 500000 1\n");
  probe.add_trial();
  probe.add_trial();
  EXPECT_THAT(probe.take().waited_ms, ElementsAre(3.5, 0));
}

TEST_F(ConditionsTest, LeavesOutWhatTheSystemDoesNotSay) {
  ConditionsProbe nothing("", root_.path());
  nothing.add_trial();
  EXPECT_THAT(nothing.take().steal_ms, IsEmpty());
  // A column that is known for some trials only would not say which, so it is empty.
  write_steal(1);
  ConditionsProbe probe("", root_.path());
  probe.add_trial();
  fs::remove(root_.path() / "proc/stat");
  probe.add_trial();
  const Conditions conditions = probe.take();
  EXPECT_THAT(conditions.steal_ms, IsEmpty());
  EXPECT_THAT(conditions.cpu_mhz, IsEmpty());
  EXPECT_EQ(conditions.preemptions.size(), 2U);
}

TEST_F(ConditionsTest, IsAbsentWithoutTheLibrary) {
  EXPECT_EQ(Nvml::open("0000:01:00.0", "libheadroom-no-such-library.so.1"), nullptr);
  EXPECT_EQ(Nvml::open("0000:01:00.0", "libm.so.6"), nullptr);  // a library, but not NVML
}

TEST_F(ConditionsTest, ReadsTheGpuAtItsPlaceThroughTheLibrary) {
  setenv("CUDA_VISIBLE_DEVICES", "1", 1);  // CUDA's indices do not apply to NVML
  {
    const std::unique_ptr<Nvml> nvml = Nvml::open("0000:01:00.0", kFakeNvml);
    ASSERT_NE(nvml, nullptr);
    const GpuState state = nvml->state();
    EXPECT_EQ(state.clock_mhz, 1980);
    EXPECT_EQ(state.memory_clock_mhz, 3201);
    EXPECT_EQ(state.power_w, 612.5);
    EXPECT_EQ(state.throttle, 4);  // power cap; the idle bit is not throttling
  }
  const std::unique_ptr<Nvml> other = Nvml::open("0000:41:00.0", kFakeNvml);
  ASSERT_NE(other, nullptr);
  EXPECT_EQ(other->state().clock_mhz, 345);
  EXPECT_EQ(other->state().memory_clock_mhz, 2619);
  EXPECT_EQ(other->state().power_w, 71);
  EXPECT_EQ(other->state().throttle, 0);
  EXPECT_EQ(Nvml::open("0000:81:00.0", kFakeNvml), nullptr);
  unsetenv("CUDA_VISIBLE_DEVICES");
}

TEST(Disturbance, IsDescribedInOneSentence) {
  EXPECT_EQ(describe_disturbance({}), "");
  Conditions conditions;
  conditions.preemptions = {0, 2, 1};
  conditions.steal_ms = {0, 30, 0};
  conditions.gpu_throttle = {0, 0, 4};
  EXPECT_EQ(describe_disturbance(conditions),
            "2 of 3 trials were preempted; 30.0 ms of CPU time were stolen by other machines; the GPU's clock was held "
            "down in 1 of 3 trials");
}

TEST(Disturbance, IsOnlyWhatMovesAMedian) {
  const std::vector<double> wall_ms = {100, 100, 100};
  const auto disturbance = [&](const Conditions& conditions) { return find_disturbance(conditions, wall_ms); };
  EXPECT_EQ(disturbance({}), "");
  Conditions conditions;
  conditions.waited_ms = {4, 4, 90};  // an outlier
  conditions.preemptions = {20, 20, 20};
  EXPECT_EQ(disturbance(conditions), "") << "what threads waited says more than how often";
  conditions.waited_ms = {0, 6, 90};
  EXPECT_EQ(disturbance(conditions),
            "other work held the CPUs: threads waited for one for 6% of a typical step's time");
  conditions.waited_ms = {0, 1989, 2000};
  EXPECT_EQ(disturbance(conditions),
            "other work held the CPUs: threads waited for one longer than a typical step takes");
  conditions.waited_ms.clear();
  EXPECT_EQ(disturbance(conditions), "other work held the CPUs: threads were preempted 200 times a second");
  conditions.preemptions = {1, 1, 1};
  EXPECT_EQ(disturbance(conditions), "");
  conditions.steal_ms = {10, 0, 30};
  EXPECT_EQ(disturbance(conditions), "") << "a few ticks of a coarse clock";
  conditions.steal_ms = {20, 10, 30};
  EXPECT_EQ(disturbance(conditions), "other machines on the same hardware took 20% of the CPUs' time");
  conditions.steal_ms.clear();
  conditions.gpu_throttle = {4, 4, 4};
  EXPECT_EQ(disturbance(conditions), "") << "a limit on power is how a GPU works";
  conditions.gpu_throttle = {0x44, 4, 0x20};
  EXPECT_EQ(disturbance(conditions), "the GPU's clock was held down for heat or by its power supply in 2 of 3 steps");
}

TEST(Disturbance, OfAPartIsThatOfItsTrials) {
  Conditions conditions;
  conditions.preemptions = {0, 1, 2, 3};
  conditions.waited_ms = {0, 0.5, 1, 1.5};
  const Conditions part = conditions.part(1, 2);
  EXPECT_THAT(part.preemptions, ElementsAre(1, 2));
  EXPECT_THAT(part.waited_ms, ElementsAre(0.5, 1));
  EXPECT_THAT(part.steal_ms, IsEmpty());
}

}  // namespace
}  // namespace headroom
