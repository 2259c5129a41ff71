// Qwen-Image's transformer against diffusers in double precision (tests/goldens/make_qwen_image.py), on both devices'
// kernels with and without switches, and on the interpreter.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "backends/cuda/gpu_test.hpp"
#include "component_golden.hpp"

namespace headroom {
namespace {

constexpr double kQwenExact = 1e-11;     // relative L2, of the graph in double precision
constexpr double kQwenFp32Error = 5e-6;  // diffusers in fp32 is within 3.4e-6 of the goldens
constexpr double kQwenBf16Ratio = 1.1;   // of diffusers' own error in bf16

constexpr const char* kQwenCases[] = {"odd", "wide"};

void expect_qwen_in_fp32(DeviceKind device) {
  for (const char* const name : kQwenCases) {
    ComponentGolden golden(std::string("qwen_image/") + name, device);
    for (const std::string switches : {"baseline", "arena", "fuse", "flash", "flash,fuse", "lossless"})
      EXPECT_LE(golden.run("forward", switches).ours, kQwenFp32Error) << name << ' ' << switches;
  }
}

void expect_qwen_in_bf16(DeviceKind device) {
  for (const char* const name : kQwenCases) {
    ComponentGolden golden(std::string("qwen_image/") + name, device);
    const ComponentGolden::Errors errors = golden.run("forward", "lossless,bf16");
    EXPECT_LE(errors.ours, kQwenBf16Ratio * errors.pytorch) << name;
  }
}

TEST(QwenImageTransformer, IsDiffusersInDoublePrecision) {
  for (const char* const name : kQwenCases)
    EXPECT_LE(ComponentGolden(std::string("qwen_image/") + name, DeviceKind::kCpu).interpreted("forward"), kQwenExact)
        << name;
}
TEST(QwenImageTransformer, IsDiffusersInFp32) { expect_qwen_in_fp32(DeviceKind::kCpu); }
TEST(QwenImageTransformer, IsAsGoodAsDiffusersInBf16) { expect_qwen_in_bf16(DeviceKind::kCpu); }

using GpuQwenImageTransformer = GpuTest;

TEST_F(GpuQwenImageTransformer, IsDiffusersInFp32) { expect_qwen_in_fp32(DeviceKind::kCuda); }
TEST_F(GpuQwenImageTransformer, IsAsGoodAsDiffusersInBf16) { expect_qwen_in_bf16(DeviceKind::kCuda); }

}  // namespace
}  // namespace headroom
