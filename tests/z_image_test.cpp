// Z-Image's transformer against diffusers in double precision (tests/goldens/make_z_image.py), on both devices' kernels
// with and without switches, and on the interpreter.

#include <gtest/gtest.h>

#include <string>

#include "backends/cuda/gpu_test.hpp"
#include "component_golden.hpp"

namespace headroom {
namespace {

constexpr const char* kZImageGolden = "z_image/odd";
constexpr double kZImageExact = 1e-11;  // relative L2, of the graph in double precision
constexpr double kZImageFp32Error = 5e-6;
constexpr double kZImageBf16Ratio = 1.1;  // of diffusers' own error in bf16

void expect_z_image_in_fp32(DeviceKind device) {
  ComponentGolden golden(kZImageGolden, device);
  for (const std::string switches : {"baseline", "arena", "fuse", "flash", "flash,fuse", "lossless"})
    EXPECT_LE(golden.run("forward", switches).ours, kZImageFp32Error) << switches;
}

void expect_z_image_in_bf16(DeviceKind device) {
  ComponentGolden golden(kZImageGolden, device);
  const ComponentGolden::Errors errors = golden.run("forward", "lossless,bf16");
  EXPECT_LE(errors.ours, kZImageBf16Ratio * errors.pytorch);
}

TEST(ZImageTransformer, IsDiffusersInDoublePrecision) {
  EXPECT_LE(ComponentGolden(kZImageGolden, DeviceKind::kCpu).interpreted("forward"), kZImageExact);
}
TEST(ZImageTransformer, IsDiffusersInFp32) { expect_z_image_in_fp32(DeviceKind::kCpu); }
TEST(ZImageTransformer, IsAsGoodAsDiffusersInBf16) { expect_z_image_in_bf16(DeviceKind::kCpu); }

using GpuZImageTransformer = GpuTest;

TEST_F(GpuZImageTransformer, IsDiffusersInFp32) { expect_z_image_in_fp32(DeviceKind::kCuda); }
TEST_F(GpuZImageTransformer, IsAsGoodAsDiffusersInBf16) { expect_z_image_in_bf16(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
