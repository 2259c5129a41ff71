#include "kernels/core/kernel.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
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

TEST(CpuKernels, AreByOpAndThoseOfOneOpInTheOrderOfTheirList) {
  EXPECT_TRUE(std::ranges::is_sorted(kernels_of(DeviceKind::kCpu), {}, &Kernel::op));
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
  EXPECT_EQ(names_of(Op::kAdd), (std::vector<std::string_view>{"highway.add", "plain.add"}));
}

/// An add on a device that this test makes up.
class AddedKernel final : public Kernel {
 public:
  AddedKernel(std::string_view name, const DeviceProfile& profile) : name_(name), device_(profile) {}
  [[nodiscard]] std::string_view name() const override { return name_; }
  [[nodiscard]] Op op() const override { return Op::kAdd; }
  [[nodiscard]] DeviceKind device() const override { return device_; }
  [[nodiscard]] Support supports(const OpSpec& /*spec*/, const Target& /*target*/) const override { return {}; }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.outputs[0].dtype; }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& /*spec*/, std::span<const Operand> /*inputs*/,
                                                        std::span<const Operand> /*outputs*/,
                                                        const DeviceTarget& /*target*/) const override {
    throw CannotPrepare("is never run");
  }

 private:
  std::string_view name_;
  DeviceKind device_;
};

TEST(AddedKernels, AreOfTheirDeviceInTheOrderGivenAndNotAddedLate) {
  static const DeviceProfile kProfile{.name = "added"};
  static const AddedKernel kFirst("added.b", kProfile), kNext("added.a", kProfile);
  EXPECT_TRUE(kernels_of(DeviceKind(kProfile)).empty());
  const Kernel* const added[] = {&kFirst, &kNext};
  add_kernels(added);
  EXPECT_THAT(kernels_of(DeviceKind(kProfile)), testing::ElementsAre(&kFirst, &kNext));
  EXPECT_EQ(&kernel_named("added.a"), &kNext);
  EXPECT_THROW(add_kernels(added), std::logic_error) << "plans may have been made without them";
  EXPECT_EQ(kernels_of(DeviceKind(kProfile)).size(), 2U);
}

TEST(CpuKernels, NoKernelTakesAnotherDevice) {
  const Target cuda{.device = DeviceKind::kCuda};
  for (const OpCase& one : all_small_cases({}))
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
      EXPECT_TRUE(kernel->supports(one.spec, cuda).has_value()) << kernel->name();
}

}  // namespace
}  // namespace headroom
