#include "measure/suites/configuration_name.hpp"

#include <gtest/gtest.h>

#include "base/switches.hpp"

namespace headroom {
namespace {

std::string name_of_asked(const std::string& device, std::vector<std::string> asked, const char* isa = "amx") {
  Machine machine;
  machine.cpu_isa = isa;
  Configuration configuration;
  configuration.device = device;
  configuration.asked = std::move(asked);
  return asked_name(machine, configuration);
}

std::vector<std::string> asked_by(const std::string& opt, const Target& target) {
  return SwitchSet::parse(opt).for_target(target).names();
}

TEST(AskedName, CallsPresetsByTheirNames) {
  const Target cpu{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAmx};
  const Target old_cpu{.device = DeviceKind::kCpu, .cpu_isa = CpuIsa::kAvx2};
  const Target gpu{.device = DeviceKind::kCuda, .compute_capability = 90};
  for (const char* opt : {"lossless", "fast"}) {
    EXPECT_EQ(name_of_asked("cpu", asked_by(opt, cpu)), opt);
    EXPECT_EQ(name_of_asked("cpu", asked_by(opt, old_cpu), "avx2"), opt);
    EXPECT_EQ(name_of_asked("cuda", asked_by(opt, gpu)), opt);
  }
  EXPECT_EQ(name_of_asked("cuda", asked_by("lossless,fp16,steps=8", gpu)), "lossless+fp16+steps=8");
  EXPECT_EQ(name_of_asked("cpu", asked_by("lossless,int8", cpu)), "lossless+int8");
}

TEST(AskedName, SpellsOutWhatIsNoPreset) {
  EXPECT_EQ(name_of_asked("cpu", {}), "baseline");
  EXPECT_EQ(name_of_asked("cpu", {"arena", "fuse"}), "arena+fuse");
  EXPECT_EQ(name_of_asked("cuda", {"auto", "steps=8"}), "auto+steps=8");
  EXPECT_EQ(name_of_asked("cuda", {"lossless", "fp8"}), "lossless+fp8") << "a peer's script may write it so";
}

}  // namespace
}  // namespace headroom
