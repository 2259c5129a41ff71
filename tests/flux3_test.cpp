// The transformers of FLUX.3 and FLUX.2 against diffusers in double precision (tests/goldens/make_flux3.py), on both
// devices' kernels with and without switches, and on the interpreter.

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "component_golden.hpp"

namespace headroom {
namespace {

constexpr double kFlux3Exact = 1e-11;     // relative L2, of the graph in double precision
constexpr double kFlux3Fp32Error = 3e-6;  // diffusers in fp32 is within 5.1e-7 of the goldens
constexpr double kFlux3Bf16Ratio = 1.3;   // of diffusers' own error in bf16

constexpr std::pair<const char*, const char*> kFlux3Cases[] = {{"base", "forward"},
                                                               {"base-references", "forward-references"},
                                                               {"distilled", "forward-references"},
                                                               {"flux2-klein", "forward"},
                                                               {"flux2-guidance", "forward"}};

void expect_flux3_in_fp32(DeviceKind device) {
  for (const auto& [name, pass] : kFlux3Cases) {
    ComponentGolden golden(std::string("flux3/") + name, device);
    for (const std::string switches : {"baseline", "arena", "fuse", "flash", "flash,fuse", "lossless"})
      EXPECT_LE(golden.run(pass, switches).ours, kFlux3Fp32Error) << name << ' ' << switches;
  }
}

void expect_flux3_in_bf16(DeviceKind device) {
  for (const auto& [name, pass] : kFlux3Cases) {
    ComponentGolden golden(std::string("flux3/") + name, device);
    const ComponentGolden::Errors errors = golden.run(pass, "lossless,bf16");
    EXPECT_LE(errors.ours, kFlux3Bf16Ratio * errors.pytorch) << name;
  }
}

TEST(Flux3Transformer, IsDiffusersInDoublePrecision) {
  for (const auto& [name, pass] : kFlux3Cases)
    EXPECT_LE(ComponentGolden(std::string("flux3/") + name, DeviceKind::kCpu).interpreted(pass), kFlux3Exact) << name;
}
TEST(Flux3Transformer, IsDiffusersInFp32) { expect_flux3_in_fp32(DeviceKind::kCpu); }
TEST(Flux3Transformer, IsAsGoodAsDiffusersInBf16) { expect_flux3_in_bf16(DeviceKind::kCpu); }

using GpuFlux3Transformer = GpuTest;

TEST_F(GpuFlux3Transformer, IsDiffusersInFp32) { expect_flux3_in_fp32(DeviceKind::kCuda); }
TEST_F(GpuFlux3Transformer, IsAsGoodAsDiffusersInBf16) { expect_flux3_in_bf16(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
