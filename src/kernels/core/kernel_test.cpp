#include "kernels/core/kernel.hpp"

#include <gtest/gtest.h>

#include <set>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "testing/compare.hpp"

namespace headroom {
namespace {

TEST(CpuKernels, EveryPlainOpHasAKernelInF32) {
  const DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  int plain_ops = 0;
  for (const OpSchema& schema : all_ops()) {
    if (schema.fused) continue;
    ++plain_ops;
    const std::vector<OpCase> cases = small_cases(schema.op, {});
    ASSERT_FALSE(cases.empty()) << schema.name << " has no cases";
    std::string reasons;
    bool supported = false;
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) {
      const Support rejection = kernel->supports(cases.front().spec, target);
      supported = supported || !rejection;
      if (rejection) reasons += fmt::format("\n  {}: {}", kernel->name(), rejection->reason);
    }
    EXPECT_TRUE(supported) << "no CPU kernel runs " << schema.name << ":" << reasons;
  }
  EXPECT_GE(plain_ops, 20);
}

TEST(CpuKernels, NamesAreUniqueAndQualified) {
  std::set<std::string_view> names;
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) {
    EXPECT_TRUE(names.insert(kernel->name()).second) << kernel->name() << " is listed twice";
    EXPECT_NE(kernel->name().find('.'), std::string_view::npos) << kernel->name();
  }
}

// Whatever the order in which the linker puts the files that they are listed in.
TEST(CpuKernels, ThoseOfOneOpAreTriedInTheOrderThatTheySay) {
  const auto names_of = [](Op op) {
    std::vector<std::string_view> names;
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
      if (kernel->op() == op) names.push_back(kernel->name());
    return names;
  };
  EXPECT_EQ(names_of(Op::kLinear), (std::vector<std::string_view>{"amx.linear", "onednn.linear"}));
  EXPECT_EQ(names_of(Op::kScaledLinear),
            (std::vector<std::string_view>{"amx.scaled_linear", "onednn.scaled_linear", "plain.scaled_linear"}));
  EXPECT_EQ(names_of(Op::kAttention), (std::vector<std::string_view>{"amx.attention", "highway.attention"}));
}

TEST(CpuKernels, NoKernelTakesAnotherDevice) {
  const Target cuda{.device = DeviceKind::kCuda};
  for (const OpCase& one : all_small_cases({}))
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
      EXPECT_TRUE(kernel->supports(one.spec, cuda).has_value()) << kernel->name();
}

}  // namespace
}  // namespace headroom
