#include "plan/choose.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text/text.hpp"
#include "kernels/core/kernel.hpp"
#include "plan/plan.hpp"

namespace headroom {
namespace {

/// Supports every silu, but fails to prepare any except of vectors.
class Unready final : public Kernel {
 public:
  explicit Unready(const Kernel& real) : real_(real) {}
  [[nodiscard]] std::string_view name() const override { return "unready.silu"; }
  [[nodiscard]] Op op() const override { return Op::kSilu; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::kCpu; }
  [[nodiscard]] Support supports(const OpSpec& /*spec*/, const Target& /*target*/) const override {
    ++asked_;
    return std::nullopt;
  }
  /// How often supports() was called.
  [[nodiscard]] int asked() const { return asked_; }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return real_.compute_type(spec); }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget& target) const override {
    if (spec.inputs[0].shape.rank() > 1) throw CannotPrepare("a part of its library is missing");
    return real_.prepare(spec, inputs, outputs, target);
  }

 private:
  const Kernel& real_;
  mutable int asked_ = 0;
};

const Kernel& kernel_of(Op op) {
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
    if (kernel->op() == op) return *kernel;
  HR_CHECK(false);
}

constexpr const char* kActivations = R"(graph activations {
  input %x: f32[4, 8]
  input %v: f32[8]
  %1: f32[4, 8] = silu(%x)
  %2: f32[4, 8] = silu(%1)
  %3: f32[8] = silu(%v)
  output y = %2
  output z = %3
})";

TEST(ChooseKernels, TheNextTakesTheWorkOfOneThatCannotBePrepared) {
  const Unready unready(kernel_of(Op::kSilu));
  std::vector<const Kernel*> kernels = {&unready};
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) kernels.push_back(kernel);
  const Program program = plan(parse_graph(kActivations), Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {}, kernels);
  ASSERT_EQ(program.steps.size(), 3U);
  for (const std::size_t refused : {0U, 1U}) {
    const Step& step = program.steps[refused];
    EXPECT_EQ(step.kernel, &kernel_of(Op::kSilu));
    ASSERT_EQ(step.rejections.size(), 1U);
    EXPECT_EQ(step.rejections[0].kernel, "unready.silu");
    EXPECT_EQ(step.rejections[0].reason, "a part of its library is missing");
  }
  EXPECT_EQ(program.steps[2].kernel, &unready) << "it refused other work";
}

TEST(ChooseKernels, EqualWorkIsChosenForOnce) {
  const Unready unready(kernel_of(Op::kSilu));
  const Kernel* const only = &unready;
  const Graph graph = parse_graph(kActivations);
  const std::vector<ChosenKernel> chosen =
      choose_kernels(graph, find_weight_values(graph), Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {&only, 1}, {});
  ASSERT_EQ(chosen.size(), 3U);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    EXPECT_EQ(chosen[i].kernel, &unready);
    EXPECT_EQ(chosen[i].node, static_cast<int>(i));
    EXPECT_EQ(chosen[i].spec.inputs[0], graph.type(graph.nodes()[i].inputs[0]));
  }
  EXPECT_EQ(unready.asked(), 2) << "for f32[4, 8] and for f32[8]";
}

TEST(ChooseKernels, SaysWhyWhereNoOtherIsLeft) {
  const Unready unready(kernel_of(Op::kSilu));
  const Kernel* const only = &unready;
  try {
    (void)plan(parse_graph(kActivations), Target{.cpu_isa = CpuIsa::kAvx2, .threads = 1}, {}, {&only, 1});
    FAIL() << "a plan was made";
  } catch (const NoKernel& error) {
    EXPECT_EQ(error.reasons(), "unready.silu: a part of its library is missing");
    EXPECT_THAT(error.what(), testing::HasSubstr("no cpu kernel runs"));
  }
}

}  // namespace
}  // namespace headroom
