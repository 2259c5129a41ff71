#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "kernels/highway_check.hpp"

namespace headroom {
namespace {

/// One less, as many and one more than each vector length, and one element.
const std::vector<std::int64_t> kLengths = {1, 3, 7, 8, 9, 15, 16, 17, 33, 100};

std::string highway(Op op) { return fmt::format("highway.{}", name_of(op)); }

constexpr std::array kUnary = {
#define HR_UNARY(enumerator, ...) Op::enumerator,
#define HR_SCALAR(...)
#define HR_BINARY(...)
#define HR_TERNARY(...)
#include "ir/elementwise.def"
};

class Elementwise : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] static TensorType type(Shape shape) { return {GetParam(), shape}; }
  static void matches(Op op, std::vector<TensorType> inputs,
                      std::vector<std::pair<std::string_view, Attribute>> attributes = {}) {
    expect_matches_oracle(highway(op), make_spec(op, std::move(inputs), std::move(attributes)));
  }
};
INSTANTIATE_TEST_SUITE_P(Stored, Elementwise, testing::Values(DType::kF32, DType::kBF16),
                         [](const auto& param) { return std::string(name_of(param.param)); });

TEST_P(Elementwise, TakesAnyLength) {
  for (const std::int64_t n : kLengths) {
    matches(Op::kAdd, {type({n}), type({n})});
    matches(Op::kGeluTanh, {type({2, n})});
    matches(Op::kSilu, {type({2, n})});
  }
}

TEST_P(Elementwise, ComputesEachOp) {
  const TensorType x = type({3, 5, 37});
#define HR_UNARY(enumerator, ...) matches(Op::enumerator, {x});
#define HR_SCALAR(enumerator, ...) matches(Op::enumerator, {x}, {{"value", -0.75}});
#define HR_BINARY(enumerator, ...) matches(Op::enumerator, {x, x});
#define HR_TERNARY(enumerator, ...) matches(Op::enumerator, {x, type({3, 1, 37}), x});
#include "ir/elementwise.def"
}

TEST_P(Elementwise, SharesLongRowsBetweenThreads) {
  matches(Op::kAdd, {type({40000}), type({40000})});
  matches(Op::kGeluTanh, {type({3, 17000})});
}

TEST_P(Elementwise, Broadcasts) {
  const std::vector<std::pair<Shape, Shape>> pairs = {
      {{4, 5, 17}, {17}},       {{4, 5, 17}, {4, 1, 17}}, {{4, 5, 17}, {5, 1}},   {{4, 5, 17}, {1}}, {{4, 5, 17}, {}},
      {{4, 1, 17}, {1, 5, 17}}, {{4, 5, 1}, {1, 1, 17}},  {{4, 1, 1}, {1, 5, 1}}, {{1, 1}, {1}},     {{}, {}},
      {{3, 8, 5, 4}, {8, 1, 1}}};
  for (const auto& [a, b] : pairs) {
    matches(Op::kSub, {type(a), type(b)});
    matches(Op::kSub, {type(b), type(a)});
    matches(Op::kMul, {type(b), type(a)});
  }
}

TEST_P(Elementwise, TakesAGateOfItsDtypeOrF32) {
  for (const Shape& shape :
       {Shape{1, 1, 1}, {2, 3, 7}, {2, 3, 8}, {3, 1, 17}, {2, 5, 33}, {1, 9, 64}, {1, 65, 513}, {1, 5, 9000}})
    for (const DType gate : {GetParam(), DType::kF32})
      matches(Op::kGateResidual, {type(shape), {gate, {shape[0], 1, shape[2]}}, type(shape)});
}

TEST_P(Elementwise, TakesChannelsLastImages) {
  TensorType image = type({2, 3, 5, 7});
  image.layout = Layout::kChannelsLast;
  matches(Op::kRelu, {image});
  matches(Op::kAdd, {image, image});
}

TEST(ElementwiseSupport, DeclinesOtherDtypesWithAReason) {
  const Support support = kernel_named("highway.relu").supports(make_spec(Op::kRelu, {{DType::kF16, {4}}}), Target{});
  ASSERT_TRUE(support.has_value());
  EXPECT_EQ(support->reason, "stores f32 or bf16, not f16");
  const OpSpec other = make_spec(Op::kSilu, {{DType::kF32, {4}}});
  EXPECT_EQ(kernel_named("highway.relu").supports(other, Target{})->reason, "runs relu, not silu");
  EXPECT_TRUE(kernel_named("highway.silu").supports(other, Target{.device = DeviceKind::kCuda}).has_value());
}

/// One unary op on exactly these values, in memory as its spec says.
template <typename T>
std::vector<T> run(const Kernel& kernel, const OpSpec& spec, const std::vector<T>& x) {
  const Operand operand = dense_operand(spec.inputs[0]);
  const auto backend = make_backend(DeviceKind::kCpu, 1);
  const auto stream = backend->make_stream();
  std::vector<T> y(x.size());
  const void* in = x.data();
  void* out = y.data();
  kernel.prepare(spec, {&operand, 1}, {&operand, 1}, Target{})->launch({*stream, {&in, 1}, {&out, 1}, nullptr});
  return y;
}

double silu(double v) { return v / (1 + std::exp(-v)); }
double gelu_erf(double v) { return 0.5 * v * std::erfc(-v / std::numbers::sqrt2); }
double gelu_tanh(double v) {
  return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
}
double quick_gelu(double v) { return v / (1 + std::exp(-1.702 * v)); }

OpSpec f32_spec(Op op, std::size_t count, std::vector<std::pair<std::string_view, Attribute>> attributes = {}) {
  return make_spec(op, {{DType::kF32, {static_cast<std::int64_t>(count)}}}, std::move(attributes));
}

// Compares every magnitude, not only those a normal distribution draws.
TEST(Activations, AreAccurateFromTheSmallestToTheLargestInput) {
  std::vector<float> x;
  for (float magnitude = 1e-30F; magnitude < 1e30F; magnitude *= 1.07F) {
    x.push_back(magnitude);
    x.push_back(-magnitude);
  }
  for (float value = -12.0F; value < 12.0F; value += 0.003F) x.push_back(value);
  const auto check = [&](const OpSpec& spec, double (*reference)(double)) {
    const Kernel& kernel = kernel_named(highway(spec.op));
    const std::vector<float> y = run(kernel, spec, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = reference(static_cast<double>(x[i]));
      // Far in the negative tail the argument of exp is itself rounded: relative to what it multiplies, not to the
      // result.
      const double allowed = 6e-7 * std::fabs(expected) + 1e-9 * std::fmin(1.0, std::fabs(static_cast<double>(x[i])));
      EXPECT_NEAR(static_cast<double>(y[i]), expected, allowed) << kernel.name() << "(" << x[i] << ")";
    }
  };
  for_each_highway_target([&] {
    check(f32_spec(Op::kSilu, x.size()), silu);
    check(f32_spec(Op::kGeluErf, x.size()), gelu_erf);
    check(f32_spec(Op::kGeluTanh, x.size()), gelu_tanh);
    check(f32_spec(Op::kQuickGelu, x.size()), quick_gelu);
  });
}

// Every finite bf16. Where the CPU rounds to bf16 itself, a subnormal result is 0: the absolute term covers it.
TEST(Activations, OfBf16AreAsGoodAsOneRounding) {
  std::vector<std::uint16_t> x;
  for (std::uint32_t bits = 0; bits < 65536; ++bits)
    if ((bits & 0x7F80) != 0x7F80) x.push_back(static_cast<std::uint16_t>(bits));
  const TensorType type{DType::kBF16, {static_cast<std::int64_t>(x.size())}};
  const auto check = [&](const OpSpec& spec, double (*reference)(double)) {
    const Kernel& kernel = kernel_named(highway(spec.op));
    const std::vector<std::uint16_t> y = run(kernel, spec, x);
    int wrong = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = reference(load_as_double(&x[i], DType::kBF16));
      const double got = load_as_double(&y[i], DType::kBF16);
      // Half a unit in the last place and a twentieth.
      if (!(std::fabs(got - expected) <= 1.05 * 0x1p-8 * std::fabs(expected) + 1e-12)) ++wrong;
    }
    EXPECT_EQ(wrong, 0) << kernel.name();
  };
  for_each_highway_target([&] {
    check(make_spec(Op::kSilu, {type}), silu);
    check(make_spec(Op::kGeluErf, {type}), gelu_erf);
    check(make_spec(Op::kGeluTanh, {type}), gelu_tanh);
    check(make_spec(Op::kQuickGelu, {type}), quick_gelu);
  });
}

TEST(Activations, KeepNanAndInfinity) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for_each_highway_target([&] {
    for (const Op op : kUnary) {
      const Kernel& kernel = kernel_named(highway(op));
      const std::vector<float> y =
          run(kernel, f32_spec(op, 18),
              std::vector<float>{nan, -nan, infinity, 0, -infinity, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, nan});
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[17])) << kernel.name();
      EXPECT_EQ(y[2], infinity) << kernel.name();
      EXPECT_EQ(y[3], 0.0F) << kernel.name();
      EXPECT_NEAR(y[4], 0.0F, 1e-30F) << kernel.name() << ": the limit";
    }
  });
}

// Each NaN that a bf16 can be, and the infinities. Enough of them that whole vectors are rounded as well as single
// ones.
TEST(Activations, OfBf16KeepNanAndInfinity) {
  std::vector<std::uint16_t> x;
  for (std::uint32_t mantissa = 0; mantissa < 128; ++mantissa)
    for (const std::uint32_t sign : {0x0000U, 0x8000U})
      x.push_back(static_cast<std::uint16_t>(sign | 0x7F80 | mantissa));
  const TensorType type{DType::kBF16, {static_cast<std::int64_t>(x.size())}};
  const auto check = [&](const OpSpec& spec) {
    const Kernel& kernel = kernel_named(highway(spec.op));
    const std::vector<std::uint16_t> y = run(kernel, spec, x);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double from = load_as_double(&x[i], DType::kBF16);
      const double got = load_as_double(&y[i], DType::kBF16);
      if (std::isnan(from)) {
        EXPECT_TRUE(std::isnan(got)) << kernel.name() << " of bits " << x[i];
      } else if (from > 0) {
        EXPECT_EQ(got, from) << kernel.name();
      } else {
        EXPECT_NEAR(got, 0, 1e-30) << kernel.name() << ": the limit";
      }
    }
  };
  for_each_highway_target([&] {
    for (const Op op : kUnary) check(make_spec(op, {type}));
  });
}

}  // namespace
}  // namespace headroom
