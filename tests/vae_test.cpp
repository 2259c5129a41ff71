// Autoencoders against diffusers in double precision (tests/goldens/make_vae.py): encoder and decoder, AutoencoderKL's
// whole and in tiles, of each configuration, on both devices' kernels with and without switches.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "component_golden.hpp"

namespace headroom {
namespace {

constexpr double kVaeExact = 1e-12;     // relative L2, of the graph in double precision
constexpr double kVaeFp32Error = 5e-6;  // relative L2; diffusers in fp32 is within 1.3e-6 of the goldens
constexpr double kVaeBf16Ratio = 1.15;  // of diffusers' own error in bf16, which is one draw

constexpr const char* kConfigurations[] = {"flux", "flux2", "stable-diffusion", "tiny", "qwen-image"};

/// Names of all its passes.
std::vector<std::string> passes_of(const ComponentGolden& golden) {
  std::vector<std::string> names;
  for (const ComponentPass& pass : golden.component().kind->passes) names.emplace_back(pass.name);
  return names;
}

void expect_in_fp32(DeviceKind device, const std::vector<std::string>& sets) {
  for (const char* configuration : kConfigurations) {
    ComponentGolden golden(std::string("vae/") + configuration, device);
    for (const std::string& pass : passes_of(golden))
      for (const std::string& switches : sets)
        EXPECT_LE(golden.run(pass, switches).ours, kVaeFp32Error) << configuration << ' ' << pass << ' ' << switches;
  }
}

void expect_vae_in_bf16(DeviceKind device) {
  for (const char* configuration : kConfigurations) {
    ComponentGolden golden(std::string("vae/") + configuration, device);
    for (const std::string& pass : passes_of(golden)) {
      const ComponentGolden::Errors errors = golden.run(pass, "lossless,bf16");
      EXPECT_LE(errors.ours, kVaeBf16Ratio * errors.pytorch) << configuration << ' ' << pass;
    }
  }
}

TEST(Vae, OfOneFrameIsDiffusersInDoublePrecision) {
  const ComponentGolden golden("vae/qwen-image", DeviceKind::kCpu);
  for (const std::string& pass : passes_of(golden)) EXPECT_LE(golden.interpreted(pass), kVaeExact) << pass;
}
TEST(Vae, IsDiffusersInFp32) {
  expect_in_fp32(DeviceKind::kCpu, {"baseline", "arena", "fuse", "channels-last", "flash,fuse", "lossless"});
}
TEST(Vae, IsAsGoodAsDiffusersInBf16) { expect_vae_in_bf16(DeviceKind::kCpu); }

class GpuVae : public GpuTest {};

TEST_F(GpuVae, IsDiffusersInFp32) {
  expect_in_fp32(DeviceKind::kCuda, {"baseline", "arena", "fuse", "channels-last", "flash,fuse", "lossless"});
}
TEST_F(GpuVae, IsAsGoodAsDiffusersInBf16) { expect_vae_in_bf16(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
