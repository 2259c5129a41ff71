#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/interpreter.hpp"
#include "ir/test_cases/op_cases.hpp"
#include "ir/test_cases/tolerance.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

struct Comparison {
  bool passed = false;
  double relative_l2 = 0;
  std::string message;  ///< the error, with the first bad element; empty when passed
};

/// The memory layout of operands in a comparison.
enum class TestStrides : std::uint8_t { kDense, kPadded, kPermuted };

/// Bytes on a device that late work writes before a kernel reads them.
struct LateCopy {
  DevicePointer from;
  DevicePointer to;
  std::size_t bytes = 0;
};
/// Submits work that copies late: only when its successor may have begun. A kernel that fails to wait then reads the
/// old contents, and its results are overwritten.
using LateWork = std::function<void(Stream& stream, std::span<const LateCopy> copies)>;

/// Runs `kernel` on random inputs (drawn from `seed`, rounded to their dtypes) and compares each output with the
/// oracle. Runs it again in place, over each input that it may overwrite, which must give the same bits. NaN passes
/// only where the oracle has NaN; infinities must match in place and sign. Outputs are poisoned with NaN patterns,
/// guard bytes around every operand and between padded rows must survive, and inputs must be unchanged. With
/// `late_work`, all operands but weights are copied late, the poison of outputs too.
[[nodiscard]] Comparison compare_with_oracle(const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target,
                                             std::uint64_t seed, Tolerance tolerance,
                                             TestStrides strides = TestStrides::kDense, const LateWork& late_work = {});

/// The same on given operands, one tensor for each input of `spec`, their elements rounded to its dtype.
[[nodiscard]] Comparison compare_on(Backend& backend, const Kernel& kernel, const OpSpec& spec,
                                    const DeviceTarget& target, std::vector<OracleTensor> operands, Tolerance tolerance,
                                    TestStrides strides = TestStrides::kDense, const LateWork& late_work = {});
/// The same on a backend of its own.
[[nodiscard]] Comparison compare_on(const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target,
                                    std::vector<OracleTensor> operands, Tolerance tolerance,
                                    TestStrides strides = TestStrides::kDense, const LateWork& late_work = {});

/// The same on random operands that contain a few special elements. Each floating-point operand in succession gets a
/// NaN, then both infinities, then a row of zeros, unless `skips` excludes it.
[[nodiscard]] Comparison compare_special_values(const Kernel& kernel, const OpSpec& spec, const DeviceTarget& target,
                                                std::uint64_t seed, Tolerance tolerance,
                                                const std::function<bool(std::size_t input, Special)>& skips = {},
                                                const LateWork& late_work = {});

/// For compare_special_values(), which checks where special values appear: the kernels' own tests check accuracy.
inline constexpr Tolerance kSpecialTolerance{.relative_l2 = 0.1, .max_ulps_of_peak = 0x1p20};

/// A pointer to a test's own memory, for CPU kernels.
[[nodiscard]] inline DevicePointer host_place(const void* memory) { return {.buffer = const_cast<void*>(memory)}; }

}  // namespace headroom
