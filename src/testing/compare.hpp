#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/interpreter.hpp"
#include "kernels/core/kernel.hpp"

namespace headroom {

/// How close a kernel must come to the oracle. The error is ||out - ref||_2 / ||ref||_2 over all elements, and no
/// element may be off by more than `max_ulps_of_peak` times the dtype's epsilon times the largest |ref|.
struct Tolerance {
  double relative_l2;
  double max_ulps_of_peak = 64;
  bool rounds_once = false;  ///< every element must be the oracle's, rounded to the dtype
};
/// Usual bounds for a kernel that computes in fp32 and stores `dtype`.
[[nodiscard]] Tolerance default_tolerance(DType dtype);

struct Comparison {
  bool passed = false;
  double relative_l2 = 0;
  std::string message;  ///< what is wrong, with the first bad element; empty when passed
};

/// How operands lie for a comparison.
enum class TestStrides : std::uint8_t { kDense, kPadded, kPermuted };

/// Bytes of a device that work submitted before a kernel is to write.
struct LateCopy {
  DevicePointer from;
  DevicePointer to;
  std::size_t bytes = 0;
};
/// Submits work that makes copies when what is submitted behind it may have begun, so that it shows whether that waits: it would read
/// what lay there before, and what it wrote would be overwritten.
using LateWork = std::function<void(Stream& stream, std::span<const LateCopy> copies)>;

/// Runs `kernel` on fresh random inputs (drawn from `seed`, rounded to their dtypes) and compares each output with the
/// oracle; runs it again over each input that it says it may overwrite, which must give the same bits. NaN never passes unless the oracle has NaN
/// there; infinities must match in place and sign. Outputs are poisoned beforehand with NaN patterns, guard bytes
/// around every operand and between padded rows must survive, and inputs must be unchanged. With `late_work` all operands but weights,
/// outputs' poison too, come there by that.
[[nodiscard]] Comparison compare_with_oracle(const Kernel& kernel, const OpSpec& spec, const Target& target,
                                             std::uint64_t seed, Tolerance tolerance,
                                             TestStrides strides = TestStrides::kDense, const LateWork& late_work = {});

/// The same on given operands, one tensor for each input of `spec`, their elements rounded to its dtype.
[[nodiscard]] Comparison compare_on(const Kernel& kernel, const OpSpec& spec, const Target& target,
                                    std::vector<OracleTensor> operands, Tolerance tolerance,
                                    TestStrides strides = TestStrides::kDense, const LateWork& late_work = {});

/// What random operands do not hold.
enum class Special : std::uint8_t { kNaN, kInfinities, kZeros };

/// The same on random operands with a few special elements in one floating-point operand after the other: a NaN, then both
/// infinities, then a row of zeros. Where skips() holds, nothing is planted.
[[nodiscard]] Comparison compare_special_values(const Kernel& kernel, const OpSpec& spec, const Target& target,
                                                std::uint64_t seed, Tolerance tolerance,
                                                const std::function<bool(std::size_t input, Special)>& skips = {},
                                                const LateWork& late_work = {});

/// Where memory of a test's own lies, for kernels of a CPU.
[[nodiscard]] inline DevicePointer host_place(const void* memory) { return {.buffer = const_cast<void*>(memory)}; }

/// A spec with its output types inferred.
[[nodiscard]] OpSpec make_spec(Op op, std::vector<TensorType> inputs,
                               std::vector<std::pair<std::string_view, Attribute>> attributes = {},
                               std::vector<bool> is_weight = {});

}  // namespace headroom
