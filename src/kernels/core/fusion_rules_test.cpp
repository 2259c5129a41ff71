#include "kernels/core/fusion_rules.hpp"

#include <gtest/gtest.h>

#include "kernels/core/kernel.hpp"
#include "testing/compare.hpp"

namespace headroom {
namespace {

bool runs(const Target& target, std::string_view epilogue) {
  const Epilogue end = Epilogue::parse(epilogue);
  const TensorType x{DType::kF32, {16, 32}}, weight{DType::kF32, {64, 32}}, made{DType::kF32, {16, 64}};
  std::vector<TensorType> inputs = {x, weight};
  inputs.insert(inputs.end(), end.operand_count(), made);
  return kernel_rules().runs(target, Op::kLinear, Attributes(Op::kLinear, {{attr::kEpilogue, end}}), inputs, made);
}

TEST(KernelRules, AreWhatKernelsSupport) {
  const Target cpu{.device = DeviceKind::kCpu, .threads = 1};
  EXPECT_TRUE(runs(cpu, "sum"));
  EXPECT_TRUE(runs(cpu, "silu(sum)"));
  EXPECT_FALSE(runs(cpu, "add(e0, sum)"));
  EXPECT_FALSE(runs(cpu, "exp(sum)"));
}

bool convolves(const Target& target, std::string_view epilogue, Op op = Op::kConv2d) {
  const Epilogue end = Epilogue::parse(epilogue);
  const TensorType x{DType::kF32, {1, 8, 6, 6}}, weight{DType::kF32, {8, 8, 1, 1}};
  std::vector<TensorType> inputs = {x, weight};
  inputs.insert(inputs.end(), end.operand_count(), x);
  return kernel_rules().runs(target, op, Attributes(op, {{attr::kEpilogue, end}}), inputs, x);
}

TEST(KernelRules, OfConvolutionsTakeAResidualAndThenAnActivation) {
  for (const Target& target : {Target{.device = DeviceKind::kCpu, .threads = 1},
                               Target{.device = DeviceKind::kCuda, .compute_capability = 90}}) {
    if (kernels_of(target.device).empty()) continue;
    for (const char* const taken : {"sum", "gelu_erf(sum)", "add(e0, sum)", "silu(add(sum, e0))"})
      EXPECT_TRUE(convolves(target, taken)) << name_of(target.device) << ' ' << taken;
    for (const char* const other : {"add(e0, silu(sum))", "mul(e0, sum)", "exp(sum)", "add(e0, add(e1, sum))"})
      EXPECT_FALSE(convolves(target, other)) << name_of(target.device) << ' ' << other;
  }
}

TEST(KernelRules, OfGroupNormsTakeAnActivation) {
  const auto norms = [](const Target& target, std::string_view epilogue) {
    const Epilogue end = Epilogue::parse(epilogue);
    const TensorType x{DType::kF32, {1, 8, 6, 6}};
    std::vector<TensorType> inputs(1 + end.operand_count(), x);
    const Attributes attributes(Op::kGroupNorm, {{attr::kGroups, 2}, {attr::kEps, 1e-5}, {attr::kEpilogue, end}});
    return kernel_rules().runs(target, Op::kGroupNorm, attributes, inputs, x);
  };
  for (const Target& target : {Target{.device = DeviceKind::kCpu, .threads = 1},
                               Target{.device = DeviceKind::kCuda, .compute_capability = 90}}) {
    if (kernels_of(target.device).empty()) continue;
    EXPECT_TRUE(norms(target, "silu(sum)")) << name_of(target.device);
    for (const char* const other : {"exp(sum)", "add(sum, e0)"})
      EXPECT_FALSE(norms(target, other)) << name_of(target.device) << ' ' << other;
  }
}

TEST(KernelRules, OfTransposedConvolutionsTakeNothing) {
  for (const Target& target : {Target{.device = DeviceKind::kCpu, .threads = 1},
                               Target{.device = DeviceKind::kCuda, .compute_capability = 90}}) {
    if (kernels_of(target.device).empty()) continue;
    EXPECT_TRUE(convolves(target, "sum", Op::kConvTranspose2d)) << name_of(target.device);
    for (const char* const other : {"silu(sum)", "add(sum, e0)"})
      EXPECT_FALSE(convolves(target, other, Op::kConvTranspose2d)) << name_of(target.device) << ' ' << other;
  }
}

/// The best form of a convolution's images, of which one has `channels` and the other 64.
ImageForm images(const Target& target, DType dtype, std::int64_t channels, bool tf32 = false, Op op = Op::kConv2d) {
  const TensorType x{dtype, {1, channels, 6, 6}}, made{dtype, {1, 64, 6, 6}};
  const TensorType weight{dtype, op == Op::kConv2d ? Shape{64, channels, 1, 1} : Shape{channels, 64, 1, 1}};
  return kernel_rules().best_images(target, op, Attributes(op, {{attr::kTf32, tf32}}), {x, weight}, made);
}

TEST(KernelRules, OfConvolutionsNameTheBestImages) {
  for (const Op op : {Op::kConv2d, Op::kConvTranspose2d}) {
    const Target cpu{.device = DeviceKind::kCpu, .threads = 1};
    EXPECT_EQ(images(cpu, DType::kBF16, 60, false, op).channel_multiple, 8);
    EXPECT_EQ(images(cpu, DType::kBF16, 60, false, op).layout, Layout::kChannelsLast);
    EXPECT_EQ(images(cpu, DType::kF32, 3, false, op).channel_multiple, 1);
    const Target gpu{.device = DeviceKind::kCuda, .compute_capability = 90};
    if (kernels_of(gpu.device).empty()) continue;
    EXPECT_EQ(images(gpu, DType::kF16, 60, false, op).channel_multiple, 8);
    EXPECT_EQ(images(gpu, DType::kF16, 60, false, op).layout, Layout::kRowMajor);
    EXPECT_EQ(images(gpu, DType::kF16, 56, false, op).layout, Layout::kChannelsLast);
    EXPECT_EQ(images(gpu, DType::kF32, 3, false, op).layout, Layout::kChannelsLast);
    EXPECT_EQ(images(gpu, DType::kF32, 6, true, op).channel_multiple, 4);
    EXPECT_EQ(images(gpu, DType::kF32, 6, true, op).layout, Layout::kRowMajor);
  }
}

TEST(KernelRules, OfHopperTakeAShortcutInPacksOfChannelsLastImages) {
  const auto takes = [](const Target& target, std::int64_t channels, Layout layout, DType dtype = DType::kBF16) {
    const TensorType x{dtype, {1, 16, 6, 6}, layout}, weight{dtype, {32, 16, 3, 3}}, bias{DType::kF32, {32}};
    const TensorType other{dtype, {1, channels, 6, 6}, layout}, shortcut{dtype, {32, channels, 1, 1}};
    const Attributes attributes(Op::kConv2dShortcut, {{attr::kPadding, std::vector<std::int64_t>{1, 1, 1, 1}}});
    return kernel_rules().runs(target, Op::kConv2dShortcut, attributes, {x, weight, bias, other, shortcut},
                               {dtype, {1, 32, 6, 6}, layout});
  };
  constexpr Layout kLast = Layout::kChannelsLast;
  EXPECT_FALSE(takes({.device = DeviceKind::kCpu, .threads = 1}, 8, kLast));
  if (kernels_of(DeviceKind::kCuda).empty()) GTEST_SKIP() << "built without CUDA";
  const Target hopper{.device = DeviceKind::kCuda, .compute_capability = 90};
  EXPECT_TRUE(takes(hopper, 8, kLast));
  EXPECT_FALSE(takes(hopper, 12, kLast));
  EXPECT_FALSE(takes(hopper, 8, Layout::kRowMajor));
  EXPECT_FALSE(takes(hopper, 8, kLast, DType::kF32));
  EXPECT_FALSE(takes({.device = DeviceKind::kCuda, .compute_capability = 80}, 8, kLast));
}

TEST(KernelRules, OfAGpuTakeAResidual) {
  const Target gpu{.device = DeviceKind::kCuda, .compute_capability = 90};
  if (kernels_of(DeviceKind::kCuda).empty()) GTEST_SKIP() << "built without CUDA";
  EXPECT_TRUE(runs(gpu, "add(e0, sum)"));
  EXPECT_TRUE(runs(gpu, "add(sum, e0)"));
  EXPECT_FALSE(runs(gpu, "mul(e0, sum)"));
  EXPECT_FALSE(runs(gpu, "add(e0, silu(sum))"));
}

}  // namespace
}  // namespace headroom
