// NaN, infinities and rows of zeros go through every kernel of a CPU as the interpreter says.

#include <set>
#include <string>

#include "ir/op_definition.hpp"
#include "testing/highway_check.hpp"
#include "testing/onednn_target.hpp"
#include "testing/rounding_cases.hpp"

namespace headroom {
namespace {

bool has_float_input(const OpCase& c) {
  for (std::size_t i = 0; i < c.spec.inputs.size(); ++i)
    if (is_float(c.spec.inputs[i].dtype) && !(c.leaves_open && c.leaves_open(i, Special::kNaN))) return true;
  return false;
}

using SpecialValues = testing::TestWithParam<CaseTypes>;
class OwnSpecialValues : public SpecialValues {};
class OnednnSpecialValues : public SpecialValues {};  // in a process of its own too, with fewer vector units
const auto kStored = testing::Values(CaseTypes{DType::kF32, DType::kF32}, CaseTypes{DType::kBF16, DType::kBF16},
                                     CaseTypes{DType::kBF16, DType::kF32});
std::string name_of_case(const testing::TestParamInfo<CaseTypes>& of) {
  return fmt::format("{}With{}", name_of(of.param.vector), name_of(of.param.data));
}
INSTANTIATE_TEST_SUITE_P(Stored, OwnSpecialValues, kStored, name_of_case);
INSTANTIATE_TEST_SUITE_P(Stored, OnednnSpecialValues, kStored, name_of_case);

/// Whether oneDNN multiplies half a pair of bf16 channels of the next pixel by 0, so that NaN and infinity there
/// reach a pixel that does not see them. Its brgconv does so for an odd number of channels; its other algorithms
/// are wrong for some of those.
bool reads_next_pixel(const Kernel& kernel, const OpSpec& spec) {
  const bool is_convolution = kernel.name() == "onednn.conv2d" || kernel.name() == "onednn.conv_transpose2d";
  if (!is_convolution || spec.inputs[0].dtype != DType::kBF16) return false;
  return spec.inputs[1].shape[spec.op == Op::kConv2d ? 1 : 0] % 2 != 0;
}

void expect_special_values_agree(const Kernel& kernel, const OpCase& c) {
  DeviceTarget target = onednn::test_target();
  target.threads = 2;
  if (kernel.supports(c.spec, target) || reads_next_pixel(kernel, c.spec)) return;
  const Comparison result = compare_special_values(kernel, c.spec, target, 1, kSpecialTolerance, c.leaves_open);
  EXPECT_TRUE(result.passed) << kernel.name() << ", " << name_of(c.spec.op) << " of " << name_of(c.spec.inputs[0].dtype)
                             << ", " << c.name << ": " << result.message;
}

/// Calls it for the kernels of each case's op for which takes() holds.
template <class Takes>
void expect_special_values_agree(CaseTypes types, const Takes& takes) {
  for (const OpCase& c : all_small_cases(types))
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
      if (kernel->op() == c.spec.op && takes(*kernel)) expect_special_values_agree(*kernel, c);
}

bool is_of_onednn(const Kernel& kernel) { return kernel.name().starts_with("onednn."); }
bool is_of_highway(const Kernel& kernel) { return kernel.name().starts_with("highway."); }

TEST_P(OwnSpecialValues, GoWhereTheInterpreterSays) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "every vector unit takes too long under the sanitizers";
#endif
  for_each_highway_target([] { expect_special_values_agree(GetParam(), is_of_highway); });
  expect_special_values_agree(GetParam(),
                              [](const Kernel& kernel) { return !is_of_highway(kernel) && !is_of_onednn(kernel); });
}

TEST_P(OnednnSpecialValues, GoWhereTheInterpreterSays) { expect_special_values_agree(GetParam(), is_of_onednn); }

/// Calls it for the kernels of one op that support a spec on this CPU, once for each vector unit.
template <class Use>
void for_each_kernel(const OpSpec& spec, const Use& use) {
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) {
    if (kernel->op() != spec.op || kernel->supports(spec, onednn::test_target())) continue;
    if (is_of_highway(*kernel))
      for_each_highway_target([&] { use(*kernel); });
    else
      use(*kernel);
  }
}

TEST(Rounding, IsDoneOnceByEveryKernel) {
  for (const DType side : {DType::kBF16, DType::kF32})
    for (const RoundingCase& c : RoundingCases(DType::kBF16, side).list()) {
      if (c.spec.op == Op::kScaledLinear && c.spec.inputs[0].dtype == DType::kF8E4M3) continue;  // a GPU's
      bool is_supported = false;
      for_each_kernel(c.spec, [&](const Kernel& kernel) {
        is_supported = true;
        const Comparison result = compare_on(kernel, c.spec, onednn::test_target(), c.operands, c.tolerance);
        EXPECT_TRUE(result.passed) << kernel.name() << ", " << c.name << ": " << result.message;
      });
      const bool has_bf16_matmuls = onednn::test_target().cpu_isa >= CpuIsa::kAvx512;
      const bool has_gpu_form = c.spec.op == Op::kScaledLinear ||  // with a residual or a bias of 16 bits
                                c.spec.attributes.epilogue_operands() > 0;
      EXPECT_TRUE(is_supported || has_gpu_form || !has_bf16_matmuls) << c.name;
    }
}

TEST(SpecialCases, AreOfEveryKernelThatTakesFloats) {
  std::set<std::string_view> without;
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) without.insert(kernel->name());
  for (const CaseTypes types : {CaseTypes{DType::kF32, DType::kF32}, CaseTypes{DType::kBF16, DType::kF32}})
    for (const OpCase& c : all_small_cases(types))
      for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
        if (kernel->op() == c.spec.op && has_float_input(c) && !kernel->supports(c.spec, onednn::test_target()))
          without.erase(kernel->name());
  for (const std::string_view name : std::set(without)) {
    const Op op = kernel_named(name).op();
    // Kernels without operands, of integers, of integers here, or for units that this CPU lacks.
    const bool is_of_integers = op == Op::kRandom || op == Op::kConstant || op == Op::kUnpackBlocks ||
                                (name.starts_with("plain.") && is_elementwise(op) && op != Op::kSelect);
    const bool lacks_unit = name.starts_with("amx.") || name == "onednn.scaled_linear";
    if (is_of_integers || (lacks_unit && onednn::test_target().cpu_isa < CpuIsa::kAmx)) without.erase(name);
  }
  EXPECT_THAT(without, testing::IsEmpty());
}

}  // namespace
}  // namespace headroom
