#pragma once

#include <memory>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "kernels/core/kernel.hpp"

/// Shared by tests of plans and of their sessions; included by *_test.cpp only.
namespace headroom {

/// The samples of one value are its columns, so an op that reads and overwrites it by rows is cut differently.
inline constexpr const char* kMixedSamples = R"(graph mixed {
  input %x: f32[64, 64, 96]
  %1: f32[64, 64, 96] = silu(%x)
  %2: f32[64, 64, 96] = transpose(%1) {perm = [1, 0, 2]}
  %3: f32[64, 64, 96] = softmax(%1)
  %4: f32[64, 64, 96] = softmax(%2)
  %5: f32[64, 64, 96] = add(%3, %4)
  %6: f32[64, 64, 96] = silu(%5)
  output y = %6
})";

/// An output that later steps read too.
inline constexpr const char* kEarlyOutput = R"(graph out {
  input %x: f32[8, 64, 96]
  %1: f32[8, 64, 96] = silu(%x)
  %2: f32[8, 64, 96] = softmax(%1)
  %3: f32[8, 64, 96] = silu(%2)
  %4: f32[8, 64, 96] = add(%3, %1)
  output y = %4
  output early = %2
})";

/// A kernel of fused bodies, which never runs. For each pair of an input and an output, that output may be written over
/// that input.
class OverInputs final : public Kernel {
 public:
  explicit OverInputs(std::set<std::pair<int, int>> pairs) : pairs_(std::move(pairs)) {}
  [[nodiscard]] std::string_view name() const override { return "over.fused"; }
  [[nodiscard]] Op op() const override { return Op::kFused; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::kCpu; }
  [[nodiscard]] Support supports(const OpSpec& /*spec*/, const Target& /*target*/) const override {
    return std::nullopt;
  }
  [[nodiscard]] bool may_overwrite(const OpSpec& /*spec*/, int input, int output) const override {
    return pairs_.contains({input, output});
  }
  [[nodiscard]] DType compute_type(const OpSpec& /*spec*/) const override { return DType::kF32; }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& /*spec*/, std::span<const Operand> /*inputs*/,
                                                        std::span<const Operand> /*outputs*/,
                                                        const DeviceTarget& /*target*/) const override {
    return std::make_unique<PreparedKernel>(KernelPlan{.launch = [](const LaunchArguments&) {}});
  }

 private:
  std::set<std::pair<int, int>> pairs_;
};

}  // namespace headroom
