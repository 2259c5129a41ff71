#pragma once

// For tests of kernels written with Highway: compares a kernel with the oracle on every compiled vector target that
// this CPU has, dense, padded and permuted, on one thread and on two.

// clang-format off: it has to come before Highway.
#include "kernels/core/simd_targets.hpp"
// clang-format on

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hwy/targets.h"
#include "kernels/core/parallel.hpp"
#include "testing/compare.hpp"

namespace headroom {

/// Restricts dispatch to one vector target during its lifetime.
class [[nodiscard]] ForcedTarget {
 public:
  explicit ForcedTarget(std::int64_t target) { force(target); }
  ~ForcedTarget() { force(0); }
  ForcedTarget(const ForcedTarget&) = delete;
  ForcedTarget& operator=(const ForcedTarget&) = delete;

 private:
  static void force(std::int64_t target) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

/// Calls check() once per vector target.
template <typename Check>
void for_each_highway_target(const Check& check) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    const ForcedTarget forced(target);
    SCOPED_TRACE(highway_target_name());
    check();
  }
}

/// The tolerance of Highway kernels: f32 within a few units in the last place in L2, bf16 rounded once.
[[nodiscard]] inline Tolerance highway_tolerance(DType dtype) {
  return dtype == DType::kF32 ? Tolerance{.relative_l2 = 2e-7, .max_ulps_of_peak = 4} : default_tolerance(dtype);
}

inline void expect_matches_oracle(std::string_view kernel, const OpSpec& spec, Tolerance tolerance) {
  std::uint64_t seed = 1;
  const auto check = [&](TestStrides strides, const DeviceTarget& target) {
    const Comparison result = compare_with_oracle(kernel_named(kernel), spec, target, seed++, tolerance, strides);
    EXPECT_TRUE(result.passed) << kernel << " on " << name_of(spec.inputs[0].dtype) << spec.inputs[0].shape.to_string()
                               << ", strides " << static_cast<int>(strides) << ", threads " << target.threads
                               << ", cache of " << target.cache_bytes << " bytes: " << result.message;
  };
  for_each_highway_target([&] {
    for (const int threads : {1, 2}) {
      if (threads > 1 && spec.inputs[0].shape.numel() < 2 * kElementsPerThread) continue;  // would run serially
      for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted})
        check(strides, Target{.threads = threads});
      // With a cache of one byte, results are written with non-temporal stores.
      check(TestStrides::kDense, Target{.threads = threads, .cache_bytes = 1});
    }
  });
}

inline void expect_matches_oracle(std::string_view kernel, const OpSpec& spec) {
  expect_matches_oracle(kernel, spec, highway_tolerance(spec.outputs[0].dtype));
}

}  // namespace headroom
