#pragma once

// For the tests of GPU kernels: compares a kernel with the oracle, dense, padded and permuted, behind work that is late.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "kernels/compare.hpp"
#include "kernels/cuda/late_work.hpp"

namespace headroom::cuda {

/// A test of kernels; skipped, with the reason, where there is no GPU.
class KernelTest : public GpuTest {
 protected:
  [[nodiscard]] Target target() { return backend().properties().target; }

  [[nodiscard]] Comparison compare(const Kernel& kernel, const OpSpec& spec, std::uint64_t seed, Tolerance tolerance,
                                   TestStrides strides = TestStrides::kDense) {
    return compare_with_oracle(kernel, spec, target(), seed, tolerance, strides, submit_late_copies);
  }
  void expect_matches_oracle(std::string_view kernel, const OpSpec& spec, Tolerance tolerance) {
    for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted}) {
      Comparison result;
      try {
        result = compare(kernel_named(kernel), spec, seed_++, tolerance, strides);
      } catch (const Error& error) {  // with the case that it came from
        result.message = error.what();
      }
      EXPECT_TRUE(result.passed) << kernel << " on " << name_of(spec.inputs[0].dtype)
                                 << spec.inputs[0].shape.to_string() << ", strides " << static_cast<int>(strides)
                                 << ": " << result.message;
    }
  }
  void expect_matches_oracle(std::string_view kernel, const OpSpec& spec) {
    expect_matches_oracle(kernel, spec, default_tolerance(spec.outputs[0].dtype));
  }

  [[nodiscard]] static std::shared_ptr<const PreparedKernel> prepare_dense(std::string_view kernel, const OpSpec& spec,
                                                                           const Target& target) {
    std::vector<Operand> inputs, outputs;
    for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
    for (const TensorType& type : spec.outputs) outputs.push_back(dense_operand(type));
    std::shared_ptr<const PreparedKernel> prepared = kernel_named(kernel).prepare(spec, inputs, outputs, target);
    prepared->finish();
    return prepared;
  }
  /// What runs a spec where new work is not timed, which agrees with the oracle, and before it what was measured to be the fastest for
  /// another. For tests with an OwnCache.
  struct TakenOver {
    std::string from, to;
  };
  [[nodiscard]] TakenOver take_over(std::string_view kernel, const OpSpec& from, const OpSpec& to,
                                    Tolerance tolerance) {
    TakenOver names{.from = prepare_dense(kernel, from, target())->implementation(), .to = {}};
    Target untimed = target();
    untimed.new_work = NewWork::kTakeOver;
    const Comparison result = compare_with_oracle(kernel_named(kernel), to, untimed, seed_++, tolerance,
                                                  TestStrides::kDense, submit_late_copies);
    EXPECT_TRUE(result.passed) << kernel << ": " << result.message;
    names.to = prepare_dense(kernel, to, untimed)->implementation();
    return names;
  }

 private:
  std::uint64_t seed_ = 1;
};

/// The dtypes of x and of what stands beside it.
struct Types {
  DType x;
  DType side;
};
inline constexpr Types kTypes[] = {{DType::kF32, DType::kF32},
                                   {DType::kBF16, DType::kBF16},
                                   {DType::kBF16, DType::kF32},
                                   {DType::kF16, DType::kF16},
                                   {DType::kF16, DType::kF32}};
/// Those that our kernels store results in.
inline constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace headroom::cuda
