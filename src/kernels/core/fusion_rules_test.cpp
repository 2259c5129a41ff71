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
