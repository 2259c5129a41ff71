// NaN, infinities and rows of zeros go through every kernel of a GPU as the interpreter says.

#include <set>
#include <string>

#include "testing/gpu_check.hpp"
#include "testing/rounding_cases.hpp"

namespace headroom::cuda {
namespace {

class CudaSpecialValues : public KernelTest, public testing::WithParamInterface<Types> {};
INSTANTIATE_TEST_SUITE_P(Stored, CudaSpecialValues, testing::ValuesIn(kTypes), [](const auto& param) {
  return fmt::format("{}With{}", name_of(param.param.side), name_of(param.param.x));
});

TEST_P(CudaSpecialValues, GoWhereTheInterpreterSays) {
  for (const OpCase& c : all_small_cases({GetParam().x, GetParam().side}))
    for (const Kernel* kernel : kernels_of(DeviceKind::kCuda)) {
      if (kernel->op() != c.spec.op || kernel->supports(c.spec, target())) continue;
      Comparison result;
      try {
        result = compare_special_values(*kernel, c.spec, target(), 1, kSpecialTolerance, c.leaves_open);
      } catch (const CannotPrepare&) {  // another kernel runs it
        continue;
      } catch (const Error& error) {
        result.message = error.what();
      }
      EXPECT_TRUE(result.passed) << kernel->name() << ", " << name_of(c.spec.op) << ", " << c.name << ": "
                                 << result.message;
    }
}

TEST_F(KernelTest, RoundingIsDoneOnceByEveryKernel) {
  for (const auto& [made, side] : {Types{DType::kBF16, DType::kBF16}, Types{DType::kBF16, DType::kF32},
                                   Types{DType::kF16, DType::kF16}, Types{DType::kF16, DType::kF32}})
    for (const RoundingCase& c : RoundingCases(made, side).list())
      for (const Kernel* kernel : kernels_of(DeviceKind::kCuda)) {
        if (kernel->op() != c.spec.op || kernel->supports(c.spec, target())) continue;
        Comparison result;
        try {
          result = compare_on(*kernel, c.spec, target(), c.operands, c.tolerance);
        } catch (const CannotPrepare&) {  // another kernel runs it
          continue;
        } catch (const Error& error) {
          result.message = error.what();
        }
        EXPECT_TRUE(result.passed) << kernel->name() << ", " << c.name << ": " << result.message;
      }
}

TEST_F(KernelTest, SpecialCasesAreOfEveryKernelThatTakesFloats) {
  std::set<std::string_view> without;
  for (const Kernel* kernel : kernels_of(DeviceKind::kCuda)) without.insert(kernel->name());
  for (const Types& types : kTypes)
    for (const OpCase& c : all_small_cases({types.x, types.side}))
      for (const Kernel* kernel : kernels_of(DeviceKind::kCuda))
        if (kernel->op() == c.spec.op && !kernel->supports(c.spec, target())) without.erase(kernel->name());
  for (const std::string_view name : std::set(without)) {
    const Op op = kernel_named(name).op();
    // Kernels that take no floats, or only large images, for which CudaGroupNormTogether has a test of its own.
    if (op == Op::kRandom || op == Op::kConstant || name.ends_with("_integers") || name == "cuda.group_norm_together")
      without.erase(name);
  }
  if (target().compute_capability < 90) GTEST_SKIP() << "kernels for Hopper take nothing here";
  EXPECT_THAT(without, testing::IsEmpty());
}

}  // namespace
}  // namespace headroom::cuda
