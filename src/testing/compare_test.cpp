#include "testing/compare.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/tensors/dtype.hpp"

namespace headroom {
namespace {

const DeviceTarget kTarget{};
constexpr std::uint64_t kSeed = 20;

/// The launch of a test kernel, given strides.
using Body =
    std::function<void(const LaunchArguments&, std::span<const Operand> inputs, std::span<const Operand> outputs)>;

struct Traits {
  Body body;
  StrideRule rule = StrideRule::kAny;
  bool in_place = false;
  std::size_t scratch_bytes = 0;
  std::vector<PackedWeight> packed = {};
  std::function<void(Stream& stream, DevicePointer dense, DevicePointer packed)> pack = {};
};

class TestKernel final : public Kernel {
 public:
  explicit TestKernel(Traits traits) : traits_(std::move(traits)) {}
  [[nodiscard]] std::string_view name() const override { return "test"; }
  [[nodiscard]] Op op() const override { return Op::kAddScalar; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::kCpu; }
  [[nodiscard]] Support supports(const OpSpec& spec, const Target&) const override {
    if (spec.inputs[0].dtype == DType::kF64) return Rejection{"no f64"};
    return std::nullopt;
  }
  [[nodiscard]] StrideRule input_strides(const OpSpec&, int) const override { return traits_.rule; }
  [[nodiscard]] StrideRule output_strides(const OpSpec&, int) const override { return traits_.rule; }
  [[nodiscard]] bool may_overwrite(const OpSpec&, int, int output) const override { return traits_.in_place && output == 0; }
  [[nodiscard]] DType compute_type(const OpSpec& spec) const override { return spec.inputs[0].dtype; }
  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec&, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget&) const override {
    const auto launch = [body = traits_.body, in = std::vector(inputs.begin(), inputs.end()),
                         out = std::vector(outputs.begin(), outputs.end())](const LaunchArguments& arguments) {
      body(arguments, in, out);
    };
    return std::make_unique<PreparedKernel>(
        KernelPlan{launch, traits_.scratch_bytes, "test", traits_.packed, traits_.pack});
  }

 private:
  Traits traits_;
};

/// The offsets of a tensor's elements in row-major order.
std::vector<std::int64_t> offsets_of(const Operand& operand) {
  std::vector<std::int64_t> offsets;
  for (std::int64_t i = 0; i < operand.type.shape.numel(); ++i) {
    std::int64_t rest = i, offset = 0;
    for (int axis = operand.type.shape.rank() - 1; axis >= 0; --axis) {
      offset += rest % operand.type.shape[axis] * operand.strides[axis];
      rest /= operand.type.shape[axis];
    }
    offsets.push_back(offset);
  }
  return offsets;
}

double at(const void* data, std::int64_t offset, DType dtype) {
  return load_as_double(static_cast<const std::byte*>(data) + offset * static_cast<std::int64_t>(size_of(dtype)),
                        dtype);
}
void put(void* data, std::int64_t offset, DType dtype, double value) {
  store_from_double(static_cast<std::byte*>(data) + offset * static_cast<std::int64_t>(size_of(dtype)), dtype, value);
}

/// A correct elementwise kernel of one function, for any strides and dtype.
Body map(const std::function<double(double)>& function) {
  return [function](const LaunchArguments& a, std::span<const Operand> inputs, std::span<const Operand> outputs) {
    const auto from = offsets_of(inputs[0]), to = offsets_of(outputs[0]);
    const DType dtype = inputs[0].type.dtype;
    for (std::size_t i = 0; i < from.size(); ++i)
      put(a.output(0), to[i], dtype, function(at(a.input(0), from[i], dtype)));
  };
}

/// map(), and then something else.
Body map_then(const std::function<double(double)>& function, const Body& next) {
  return [function, next](const LaunchArguments& a, std::span<const Operand> inputs, std::span<const Operand> outputs) {
    map(function)(a, inputs, outputs);
    next(a, inputs, outputs);
  };
}

double relu(double x) { return x > 0 ? x : 0; }

OpSpec relu_spec(DType dtype = DType::kF32) { return make_spec(Op::kRelu, {{dtype, Shape{5, 7, 9}}}); }
OpSpec scale_spec(double value) { return make_spec(Op::kMulScalar, {{DType::kF32, Shape{5, 9}}}, {{"value", value}}); }

Comparison compare(Traits traits, const OpSpec& spec, TestStrides strides = TestStrides::kDense) {
  return compare_with_oracle(TestKernel(std::move(traits)), spec, kTarget, kSeed,
                             default_tolerance(spec.outputs[0].dtype), strides);
}

/// Expects a rejection whose message contains `reason`.
void expect_rejected(const Comparison& comparison, const std::string& reason) {
  EXPECT_FALSE(comparison.passed);
  EXPECT_NE(comparison.message.find(reason), std::string::npos) << "message: " << comparison.message;
}

TEST(Compare, AcceptsCorrectKernelsInAnyDtypeAndLayout) {
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    for (const TestStrides strides : {TestStrides::kDense, TestStrides::kPadded, TestStrides::kPermuted}) {
      const Comparison comparison = compare({.body = map(relu), .in_place = true}, relu_spec(dtype), strides);
      EXPECT_TRUE(comparison.passed) << comparison.message;
      EXPECT_EQ(comparison.relative_l2, 0);
    }
  }
}

TEST(Compare, ReportsTheErrorOfWhatPasses) {
  const Comparison comparison = compare({.body = map([](double x) { return relu(x) * (1 + 1e-6); })}, relu_spec());
  EXPECT_TRUE(comparison.passed) << comparison.message;
  EXPECT_NEAR(comparison.relative_l2, 1e-6, 1e-7);
}

TEST(Compare, RejectsNan) {
  const auto nan_once = [](const LaunchArguments& a, auto, auto) { a.output<float>(0)[11] = NAN; };
  expect_rejected(compare({.body = map_then(relu, nan_once)}, relu_spec()), "element [0, 1, 2] of f32[5, 7, 9] is nan");
  expect_rejected(compare({.body = map([](double) { return NAN; })}, relu_spec()), "is nan");
}

TEST(Compare, RejectsElementsThatWereNotWritten) {
  const auto skip_last = [](const LaunchArguments& a, std::span<const Operand> inputs,
                            std::span<const Operand> outputs) {
    const auto from = offsets_of(inputs[0]), to = offsets_of(outputs[0]);
    const DType dtype = inputs[0].type.dtype;
    for (std::size_t i = 0; i + 1 < from.size(); ++i)
      put(a.output(0), to[i], dtype, relu(at(a.input(0), from[i], dtype)));
  };
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16})
    expect_rejected(compare({.body = skip_last}, relu_spec(dtype)), "element [4, 6, 8]");
}

TEST(Compare, RejectsWritesOutOfBounds) {
  const auto after = [](const LaunchArguments& a, auto, auto) { a.output<float>(0)[5 * 7 * 9] = 0; };
  expect_rejected(compare({.body = map_then(relu, after)}, relu_spec()), "output 0 was overrun: byte 0 after its end");
  const auto before = [](const LaunchArguments& a, auto, auto) { a.output<float>(0)[-1] = 0; };
  expect_rejected(compare({.body = map_then(relu, before)}, relu_spec()),
                  "output 0 was overrun: 4 bytes before its start");
  const auto scratch = [](const LaunchArguments& a, auto, auto) { a.scratch_memory<char>()[16] = 0; };
  expect_rejected(compare({.body = map_then(relu, scratch), .scratch_bytes = 16}, relu_spec()), "scratch was overrun");
  EXPECT_TRUE(compare({.body = map_then(relu, scratch), .scratch_bytes = 17}, relu_spec()).passed);
}

TEST(Compare, RejectsCopyingGuardBytes) {
  const auto copy_too_much = [](const LaunchArguments& a, auto, auto) { std::memcpy(a.output(0), a.input(0), 64); };
  const OpSpec spec = make_spec(Op::kReshape, {{DType::kF32, Shape{15}}}, {{"shape", std::vector<std::int64_t>{3, 5}}});
  expect_rejected(compare({.body = copy_too_much, .rule = StrideRule::kDense}, spec), "output 0 was overrun");
}

TEST(Compare, RejectsWritesBetweenRows) {
  const auto between = [](const LaunchArguments& a, auto, auto) { a.output<float>(0)[9] = 0; };
  expect_rejected(compare({.body = map_then(relu, between)}, relu_spec(), TestStrides::kPadded),
                  "written between its rows");
}

TEST(Compare, RejectsIgnoringStrides) {
  const auto as_if_dense = [](const LaunchArguments& a, std::span<const Operand> inputs,
                              std::span<const Operand> outputs) {
    map(relu)(a, std::vector{dense_operand(inputs[0].type)}, std::vector{dense_operand(outputs[0].type)});
  };
  EXPECT_TRUE(compare({.body = as_if_dense}, relu_spec()).passed);
  EXPECT_FALSE(compare({.body = as_if_dense}, relu_spec(), TestStrides::kPadded).passed);
  EXPECT_FALSE(compare({.body = as_if_dense}, relu_spec(), TestStrides::kPermuted).passed);
  const auto by_input_strides = [](const LaunchArguments& a, std::span<const Operand> inputs, auto) {
    map(relu)(a, inputs, inputs);
  };
  EXPECT_FALSE(compare({.body = by_input_strides}, relu_spec(), TestStrides::kPadded).passed);
  EXPECT_FALSE(compare({.body = by_input_strides}, relu_spec(), TestStrides::kPermuted).passed);
}

TEST(Compare, RejectsReadingGaps) {
  const auto sums_gap = [](const LaunchArguments& a, std::span<const Operand> inputs,
                           std::span<const Operand> outputs) {
    map(relu)(a, inputs, outputs);
    a.output<float>(0)[0] += 0 * a.input<float>(0)[9];
  };
  expect_rejected(compare({.body = sums_gap}, relu_spec(), TestStrides::kPadded), "nan, expected");
}

TEST(Compare, RejectsModifiedInputs) {
  const auto modify = [](const LaunchArguments& a, auto, auto) { const_cast<float*>(a.input<float>(0))[3] += 1; };
  expect_rejected(compare({.body = map_then(relu, modify)}, relu_spec()), "input 0 was modified at byte");
}

TEST(Compare, RejectsBeingOffByALittle) {
  const auto off = [](double x) { return relu(x) * (1 + 1e-5); };
  expect_rejected(compare({.body = map(off)}, relu_spec()), "relative L2 error 1");
  const auto off_bf16 = [](double x) { return relu(x) * 1.01; };
  expect_rejected(compare({.body = map(off_bf16)}, relu_spec(DType::kBF16)), "relative L2 error");
  // One wrong element in ten thousand does not show in the mean.
  const OpSpec large = make_spec(Op::kRelu, {{DType::kF32, Shape{100, 100}}});
  const auto one_off = [](const LaunchArguments& a, auto, auto) { a.output<float>(0)[50] += 1e-4F; };
  const Comparison comparison = compare({.body = map_then(relu, one_off)}, large);
  expect_rejected(comparison, "worst is element [0, 50]");
  EXPECT_LT(comparison.relative_l2, default_tolerance(DType::kF32).relative_l2);
}

TEST(Compare, InfinitiesMustMatchInPlaceAndSign) {
  const OpSpec spec = scale_spec(1e39);  // beyond fp32
  EXPECT_TRUE(compare({.body = map([](double x) { return x * 1e39; })}, spec).passed);
  expect_rejected(compare({.body = map([](double x) { return x * -1e39; })}, spec), "expected -inf");
  expect_rejected(compare({.body = map([](double x) { return x * std::numeric_limits<float>::max(); })}, spec),
                  "expected");
  expect_rejected(compare({.body = map([](double x) { return x > 1 ? INFINITY : x * 2; })}, scale_spec(2)),
                  "is inf, expected");
}

TEST(Compare, NanPassesOnlyWhereTheOracleHasIt) {
  const OpSpec spec = scale_spec(NAN);
  EXPECT_TRUE(compare({.body = map([](double x) { return x * NAN; })}, spec).passed);
  expect_rejected(compare({.body = map([](double x) { return x; })}, spec), "expected nan");
}

TEST(Compare, ZeroReferenceWantsZeros) {
  EXPECT_TRUE(compare({.body = map([](double) { return 0.0; })}, scale_spec(0)).passed);
  expect_rejected(compare({.body = map([](double) { return 1e-30; })}, scale_spec(0)), "relative L2 error inf");
}

TEST(Compare, AddsAnAbsoluteErrorToBothLimits) {
  const auto compare_within = [](double absolute) {
    return compare_with_oracle(TestKernel(Traits{.body = map([](double) { return 1e-6; })}), scale_spec(0), kTarget,
                               kSeed, {.relative_l2 = 0, .absolute = absolute});
  };
  EXPECT_TRUE(compare_within(1.1e-6).passed);
  expect_rejected(compare_within(0.9e-6), "off by 1e-06 (allowed 9e-07)");
}

TEST(Compare, IntegersAreExactOrWrong) {
  const OpSpec spec = make_spec(Op::kReshape, {{DType::kI32, Shape{4, 6}}}, {{"shape", std::vector<std::int64_t>{24}}});
  const auto copy = [](const LaunchArguments& a, auto, auto) { std::memcpy(a.output(0), a.input(0), 24 * 4); };
  EXPECT_TRUE(compare({.body = copy, .rule = StrideRule::kDense}, spec).passed);
  const auto off_by_one = [copy](const LaunchArguments& a, std::span<const Operand> i, std::span<const Operand> o) {
    copy(a, i, o);
    a.output<std::int32_t>(0)[23] += 1;
  };
  expect_rejected(compare({.body = off_by_one, .rule = StrideRule::kDense}, spec), "element [23] of i32[24] is");
}

TEST(Compare, RejectsKernelsThatCannotRunInPlaceThoughTheySaySo) {
  // Reads its input backwards, after parts of it have been overwritten.
  const auto backwards = [](const LaunchArguments& a, auto, auto) {
    const auto* x = a.input<float>(0);
    auto* y = a.output<float>(0);
    for (int i = 0; i < 5 * 7 * 9; ++i) y[i] = 0;
    for (int i = 0; i < 5 * 7 * 9; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  };
  EXPECT_TRUE(compare({.body = backwards}, relu_spec()).passed);
  expect_rejected(compare({.body = backwards, .in_place = true}, relu_spec()), "over input 0: output 0");
}

/// A kernel that rounds its result twice when it runs in place, as a library may.
TEST(Compare, RejectsOtherBitsInPlaceThanApart) {
  const auto rounds_in_place = [](const LaunchArguments& a, auto, auto) {
    const bool is_in_place = a.input(0) == a.output(0);
    for (int i = 0; i < 5 * 7 * 9; ++i) {
      const auto x = static_cast<float>(at(a.input(0), i, DType::kBF16));
      const float off = is_in_place && i == 100 ? 1 + 0x1p-7F : 1.0F;  // a step of one element, within the tolerance
      put(a.output(0), i, DType::kBF16, static_cast<double>(std::max(off * x, 0.0F)));
    }
  };
  const OpSpec spec = relu_spec(DType::kBF16);
  EXPECT_TRUE(compare({.body = rounds_in_place}, spec).passed);
  expect_rejected(compare({.body = rounds_in_place, .in_place = true}, spec), "where the output lies apart");
}

Comparison compare_special(const Body& body, const std::function<bool(std::size_t, Special)>& skips = {}) {
  return compare_special_values(TestKernel({.body = body}), relu_spec(), kTarget, kSeed, default_tolerance(DType::kF32),
                                skips);
}

TEST(Compare, SpecialValuesGoWhereTheOracleSays) {
  const auto keeps_nan = [](double x) { return x < 0 ? 0 : x; };
  EXPECT_TRUE(compare_special(map(keeps_nan)).passed) << compare_special(map(keeps_nan)).message;
  expect_rejected(compare_special(map(relu)), "with NaN in input 0: output 0");
  EXPECT_TRUE(compare_special(map(relu), [](std::size_t, Special) { return true; }).passed) << "nothing is planted";
  const auto bounded = [&](double x) { return x > 1e30 ? 1e30 : keeps_nan(x); };
  expect_rejected(compare_special(map(bounded)), "with infinities in input 0: output 0");
  const auto no_zeros = [&](double x) { return x == 0 ? NAN : keeps_nan(x); };
  expect_rejected(compare_special(map(no_zeros)), "with a row of zeros in input 0: output 0");
}

TEST(Compare, ChecksPackedWeights) {
  // linear with k = 1: y[m, n] = x[m] * weight[n]; packing reverses the weight.
  const OpSpec spec =
      make_spec(Op::kLinear, {{DType::kF32, Shape{3, 1}}, {DType::kF32, Shape{4, 1}}}, {}, {false, true});
  const auto outer_product = [](const LaunchArguments& a, auto, auto) {
    for (int i = 0; i < 12; ++i) a.output<float>(0)[i] = a.input<float>(0)[i / 4] * a.input<float>(1)[3 - i % 4];
  };
  const auto reverse = [](Stream& /*stream*/, DevicePointer dense, DevicePointer packed) {
    for (int i = 0; i < 4; ++i) packed.address<float>()[i] = dense.address<float>()[3 - i];
  };
  Traits traits{.body = outer_product, .rule = StrideRule::kDense, .packed = {{1, "reversed", 16}}, .pack = reverse};
  EXPECT_TRUE(compare(traits, spec).passed) << compare(traits, spec).message;

  Traits too_long = traits;
  too_long.packed[0].bytes = 12;
  expect_rejected(compare(too_long, spec), "the packed form of input 1 was overrun");
  Traits no_weight = traits;
  no_weight.packed[0].input = 0;
  expect_rejected(compare(no_weight, spec), "input 0 is packed but is no weight");
  Traits unpacked = traits;
  unpacked.packed.clear();
  EXPECT_FALSE(compare(unpacked, spec).passed);
}

void make(std::span<const LateCopy> copies) {
  for (const LateCopy& copy : copies) std::memcpy(copy.to.address<void>(), copy.from.address<void>(), copy.bytes);
}
Comparison compare_behind(const LateWork& late_work, Traits traits) {
  return compare_with_oracle(TestKernel(std::move(traits)), relu_spec(), kTarget, kSeed, default_tolerance(DType::kF32),
                             TestStrides::kDense, late_work);
}

TEST(Compare, OperandsComeByLateWork) {
  const auto at_once = [](Stream&, std::span<const LateCopy> copies) { make(copies); };
  const Comparison waited = compare_behind(at_once, {.body = map(relu), .in_place = true, .scratch_bytes = 64});
  EXPECT_TRUE(waited.passed) << waited.message;
  const auto too_late = [](Stream&, std::span<const LateCopy>) {};
  expect_rejected(compare_behind(too_late, {.body = map(relu)}), "output 0");
}

TEST(Compare, RejectsWritesBeforeLateWorkIsDone) {
  std::vector<LateCopy> to_come;
  const auto later = [&](Stream&, std::span<const LateCopy> copies) {
    make(copies.first(copies.size() - 1));
    to_come = {copies.back()};  // what the output held before
  };
  const auto writes_early = map_then(relu, [&](const LaunchArguments&, auto, auto) { make(to_come); });
  expect_rejected(compare_behind(later, {.body = writes_early}), "output 0");
}

TEST(Compare, ReportsWhyAKernelRejectsTheSpec) {
  expect_rejected(compare({.body = map(relu)}, relu_spec(DType::kF64)), "rejected: no f64");
}

TEST(Compare, InputsAreFreshForEachSeed) {
  std::vector<float> first;
  for (const std::uint64_t seed : {1, 2}) {
    const auto keep = [&](const LaunchArguments& a, auto, auto) { first.push_back(*a.input<float>(0)); };
    (void)compare_with_oracle(TestKernel({.body = keep}), relu_spec(), kTarget, seed, default_tolerance(DType::kF32));
  }
  ASSERT_EQ(first.size(), 2U);
  EXPECT_NE(first[0], first[1]);
}

}  // namespace
}  // namespace headroom
