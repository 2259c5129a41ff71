#pragma once

// For tests of GPU kernels: compares a kernel with the oracle, dense, padded and permuted, after late work.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "backends/cuda/gpu_test.hpp"
#include "base/error.hpp"
#include "base/files/file.hpp"
#include "base/files/user_cache.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "testing/compare.hpp"
#include "testing/late_work.hpp"
#include "testing/own_cache.hpp"

namespace headroom::cuda {

/// A kernel test, skipped with the reason if there is no GPU.
class KernelTest : public GpuTest {
 protected:
  [[nodiscard]] DeviceTarget target() { return backend().properties().target; }

  [[nodiscard]] Comparison compare(const Kernel& kernel, const OpSpec& spec, std::uint64_t seed, Tolerance tolerance,
                                   TestStrides strides = TestStrides::kDense) {
    return compare_with_oracle(kernel, spec, target(), seed, tolerance, strides, submit_late_copies);
  }
  void expect_matches_oracle(std::string_view kernel, const OpSpec& spec, Tolerance tolerance) {
    for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted}) {
      Comparison result;
      try {
        result = compare(kernel_named(kernel), spec, seed_++, tolerance, strides);
      } catch (const Error& error) {  // adds the case to the message
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
                                                                           const DeviceTarget& target) {
    std::vector<Operand> inputs, outputs;
    for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
    for (const TensorType& type : spec.outputs) outputs.push_back(dense_operand(type));
    std::shared_ptr<const PreparedKernel> prepared = kernel_named(kernel).prepare(spec, inputs, outputs, target);
    prepared->finish();
    return prepared;
  }
  /// The name of the algorithm that runs a spec when new work is not timed. Checks that it agrees with the oracle,
  /// is not called measured, and is not stored. For tests with an OwnCache that stores the fastest algorithm of
  /// other sizes.
  [[nodiscard]] std::string take_over(std::string_view kernel, const OpSpec& spec, Tolerance tolerance) {
    DeviceTarget untimed = target();
    untimed.new_work = NewWork::kTakeOver;
    const std::map<std::string, std::string> before = kept_algorithms();
    std::string name = prepare_dense(kernel, spec, untimed)->implementation();
    EXPECT_THAT(name, testing::Not(testing::HasSubstr("fastest")));
    const Comparison result = compare_with_oracle(kernel_named(kernel), spec, untimed, seed_++, tolerance,
                                                  TestStrides::kDense, submit_late_copies);
    EXPECT_TRUE(result.passed) << kernel << ", " << name << ": " << result.message;
    EXPECT_EQ(kept_algorithms(), before);
    return name;
  }
  /// The algorithm measured as the fastest for a spec, on a backend and with a cache of its own; the choice is
  /// stored for `work`. It is one of the library's algorithms that is sure to accept the spec.
  template <class TunerOfLibrary>
  [[nodiscard]] static std::string measured_algorithm(std::string_view kernel, const OpSpec& spec,
                                                      const tune::Work& work) {
    const OwnCache cache;
    const std::unique_ptr<Backend> other = make_backend(DeviceKind::kCuda);
    static_cast<void>(prepare_dense(kernel, spec, other->properties().target));
    const std::optional<std::string> name = other->context<TunerOfLibrary>()->find_known(work);
    if (!name) fail("{} keeps nothing for {}", kernel, work.text);
    return *name;
  }

 private:
  /// The cache's contents, by file.
  [[nodiscard]] static std::map<std::string, std::string> kept_algorithms() {
    std::map<std::string, std::string> contents;
    const std::optional<std::filesystem::path> folder = user_cache_folder("algorithms");
    if (!folder || !std::filesystem::exists(*folder)) return contents;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(*folder))
      if (entry.is_regular_file()) contents[entry.path().string()] = read_file(entry.path());
    return contents;
  }

  std::uint64_t seed_ = 1;
};

/// The dtypes of x and of the other operands.
struct Types {
  DType x;
  DType side;
};
inline constexpr Types kTypes[] = {{DType::kF32, DType::kF32},
                                   {DType::kBF16, DType::kBF16},
                                   {DType::kBF16, DType::kF32},
                                   {DType::kF16, DType::kF16},
                                   {DType::kF16, DType::kF32}};
/// The dtypes in which our kernels store results.
inline constexpr DType kDTypes[] = {DType::kF32, DType::kBF16, DType::kF16};

}  // namespace headroom::cuda
