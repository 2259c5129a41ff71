#include <array>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "testing/highway_check.hpp"

namespace headroom {
namespace {

/// One less, as many and one more than each vector length, and one element.
const std::vector<std::int64_t> kLengths = {1, 3, 7, 8, 9, 15, 16, 17, 33, 100};

std::string highway(Op op) { return fmt::format("highway.{}", name_of(op)); }

constexpr std::array kActivationOps = {Op::kRelu, Op::kSilu, Op::kGeluTanh, Op::kQuickGelu, Op::kGeluErf};
constexpr std::array kComparisons = {Op::kLess, Op::kLessEqual, Op::kEqual};

class Elementwise : public testing::TestWithParam<DType> {
 protected:
  [[nodiscard]] static TensorType type(Shape shape) { return {GetParam(), shape}; }
  static void matches(Op op, std::vector<TensorType> inputs, NamedAttributes attributes = {}) {
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
#define HR_RANGE(enumerator, ...) matches(Op::enumerator, {x}, {{"low", -0.75}, {"high", 1.25}});
#define HR_BINARY(enumerator, ...) matches(Op::enumerator, {x, x});
#define HR_REAL_BINARY HR_BINARY
#define HR_COMPARISON(...)  // of themselves, below
#define HR_TERNARY(enumerator, ...) matches(Op::enumerator, {x, type({3, 1, 37}), x});
#include "ir/elementwise.def"
}

TEST_P(Elementwise, ComparesAndSelects) {
  for (const auto& [a, b] : {std::pair<Shape, Shape>{{4, 5, 17}, {17}}, {{4, 5, 17}, {4, 5, 17}}, {{4, 1}, {1, 24}}})
    for (const Op op : kComparisons)
      expect_matches_oracle(fmt::format("plain.{}", name_of(op)), make_spec(op, {type(a), type(b)}));
  expect_matches_oracle("plain.select",
                        make_spec(Op::kSelect, {{DType::kBool, {4, 5, 1}}, type({17}), type({4, 5, 17})}));
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

TEST(PlainElementwise, TakesIntegers) {
  for (const DType dtype : {DType::kI32, DType::kI64}) {
    const TensorType a{dtype, {4, 5, 17}}, b{dtype, {4, 1, 17}};
    for (const Op op :
         {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kMod, Op::kLess, Op::kLessEqual, Op::kEqual}) {
      expect_matches_oracle(fmt::format("plain.{}", name_of(op)), make_spec(op, {a, a}));
      expect_matches_oracle(fmt::format("plain.{}", name_of(op)), make_spec(op, {b, a}));
    }
    expect_matches_oracle("plain.add_scalar", make_spec(Op::kAddScalar, {a}, {{"value", -7.0}}));
    expect_matches_oracle("plain.mul_scalar", make_spec(Op::kMulScalar, {a}, {{"value", 3.0}}));
    expect_matches_oracle("plain.clamp", make_spec(Op::kClamp, {a}, {{"low", -20.0}, {"high", 30.0}}));
  }
  for (const DType dtype : {DType::kBool, DType::kI8, DType::kU8})
    for (const Op op : kComparisons)
      expect_matches_oracle(fmt::format("plain.{}", name_of(op)), make_spec(op, {{dtype, {3, 7}}, {dtype, {7}}}));
}

TEST(PlainElementwise, SelectsElementsOfAnySize) {
  for (const DType dtype :
       {DType::kF64, DType::kF16, DType::kF8E4M3, DType::kI8, DType::kBool, DType::kI32, DType::kI64})
    for (const Shape& condition : {Shape{3, 7}, Shape{7}, Shape{3, 1}, Shape{}})
      expect_matches_oracle("plain.select",
                            make_spec(Op::kSelect, {{DType::kBool, condition}, {dtype, {3, 7}}, {dtype, {3, 7}}}));
}

TEST(PlainElementwise, IntegersWrapAndDivideByAnything) {
  const std::int64_t least = std::numeric_limits<std::int64_t>::min(), most = std::numeric_limits<std::int64_t>::max();
  const auto binary = [](Op op, const std::vector<std::int64_t>& a, const std::vector<std::int64_t>& b) {
    const OpSpec spec = make_spec(op, {{DType::kI64, {static_cast<std::int64_t>(a.size())}},
                                       {DType::kI64, {static_cast<std::int64_t>(b.size())}}});
    const std::vector<Operand> in = {dense_operand(spec.inputs[0]), dense_operand(spec.inputs[1])};
    const Operand out = dense_operand(spec.outputs[0]);
    const auto backend = make_backend(DeviceKind::kCpu, 1);
    const auto stream = backend->make_stream();
    std::vector<std::int64_t> y(a.size());
    const std::vector<DevicePointer> from = {host_place(a.data()), host_place(b.data())};
    const DevicePointer to = host_place(y.data());
    kernel_named(fmt::format("plain.{}", name_of(op)))
        .prepare(spec, in, {&out, 1}, Target{})
        ->launch({*stream, from, {&to, 1}, {}});
    return y;
  };
  EXPECT_EQ(binary(Op::kAdd, {most, least}, {1, -1}), (std::vector<std::int64_t>{least, most}));
  EXPECT_EQ(binary(Op::kMod, {least, 7, -7, -7}, {-1, 0, 4, -4}), (std::vector<std::int64_t>{0, 0, 1, -3}));
  EXPECT_EQ(binary(Op::kMin, {least, most}, {0, 0}), (std::vector<std::int64_t>{least, 0}));
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
  const DevicePointer in = host_place(x.data());
  const DevicePointer out = host_place(y.data());
  kernel.prepare(spec, {&operand, 1}, {&operand, 1}, Target{})->launch({*stream, {&in, 1}, {&out, 1}, {}});
  return y;
}

double silu(double v) { return v / (1 + std::exp(-v)); }
double gelu_erf(double v) { return 0.5 * v * std::erfc(-v / std::numbers::sqrt2); }
double gelu_tanh(double v) {
  return 0.5 * v * (1 + std::tanh(std::sqrt(2 / std::numbers::pi) * (v + 0.044715 * v * v * v)));
}
double quick_gelu(double v) { return v / (1 + std::exp(-1.702 * v)); }

OpSpec f32_spec(Op op, std::size_t count, NamedAttributes attributes = {}) {
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
      // Far in the negative tail the argument of exp is itself rounded, which is an error relative to the factor x, not
      // to the result.
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

// The same for the functions of C, a few units in the last place from their values in double.
TEST(Functions, AreAccurateFromTheSmallestToTheLargestInput) {
  std::vector<float> x;
  for (float magnitude = 1e-37F; magnitude < 1e37F; magnitude *= 1.09F) {
    x.push_back(magnitude);
    x.push_back(-magnitude);
  }
  for (float value = -104.0F; value < 90.0F; value += 0.0137F) x.push_back(value);
  for (int i = -2000; i < 2000; ++i)  // next to where sine and cosine are 0
    x.push_back(static_cast<float>(i * 16 * std::numbers::pi / 2));
  const auto check = [&](Op op, double ulps, double (*reference)(double)) {
    const std::vector<float> y = run(kernel_named(highway(op)), f32_spec(op, x.size()), x);
    double worst = 0, at = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const double expected = reference(static_cast<double>(x[i])), got = static_cast<double>(y[i]);
      if (std::isnan(expected) || std::fabs(expected) > static_cast<double>(std::numeric_limits<float>::max())) {
        EXPECT_TRUE(std::isnan(expected) ? std::isnan(got) : got == std::copysign(INFINITY, expected))
            << name_of(op) << "(" << x[i] << ") is " << got;
        continue;
      }
      const double unit = 0x1p-23 * std::fabs(expected) + 0x1p-126;  // below the normal numbers it may be flushed
      if (std::fabs(got - expected) / unit > worst)
        worst = std::fabs(got - expected) / unit, at = static_cast<double>(x[i]);
    }
    EXPECT_LE(worst, ulps) << name_of(op) << "(" << at << ")";
  };
  for_each_highway_target([&] {
    check(Op::kNeg, 0, [](double v) { return -v; });
    check(Op::kAbs, 0, [](double v) { return std::fabs(v); });
    check(Op::kExp, 1.5, [](double v) { return std::exp(v); });
    check(Op::kLog, 4, [](double v) { return std::log(v); });
    check(Op::kSqrt, 0.51, [](double v) { return std::sqrt(v); });
    check(Op::kRsqrt, 1.5, [](double v) { return 1 / std::sqrt(v); });
    check(Op::kTanh, 4, [](double v) { return std::tanh(v); });
    check(Op::kSigmoid, 3, [](double v) { return 1 / (1 + std::exp(-v)); });
    check(Op::kErf, 0.51, [](double v) { return std::erf(v); });
    check(Op::kSin, 0.51, [](double v) { return std::sin(v); });
    check(Op::kCos, 0.51, [](double v) { return std::cos(v); });
  });
}

TEST(Functions, OfWhatIsNoNumber) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  // The largest float and NaN by F16, together with zeros of both signs: a whole vector of any target.
  const std::vector<float> x = {kNan, -kNan, kInfinity, -kInfinity, 0.0F, -1.0F, 3.0e38F, 1,   2,
                                3,    4,     5,         6,          7,    8,     9,       kNan};
  struct Expected {
    Op op;
    float of_infinity, of_minus_infinity, of_zero, of_minus_one;
  };
  const auto same = [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); };
  for_each_highway_target([&] {
    for (const Expected& e :
         {Expected{Op::kExp, kInfinity, 0, 1, std::exp(-1.0F)}, Expected{Op::kLog, kInfinity, kNan, -kInfinity, kNan},
          Expected{Op::kSqrt, kInfinity, kNan, 0, kNan}, Expected{Op::kRsqrt, 0, kNan, kInfinity, kNan},
          Expected{Op::kTanh, 1, -1, 0, std::tanh(-1.0F)}, Expected{Op::kSigmoid, 1, 0, 0.5F, 1 / (1 + std::exp(1.0F))},
          Expected{Op::kErf, 1, -1, 0, std::erf(-1.0F)}, Expected{Op::kSin, kNan, kNan, 0, std::sin(-1.0F)},
          Expected{Op::kCos, kNan, kNan, 1, std::cos(-1.0F)}}) {
      const std::vector<float> y = run(kernel_named(highway(e.op)), f32_spec(e.op, x.size()), x);
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[16])) << name_of(e.op);
      EXPECT_TRUE(same(y[2], e.of_infinity)) << name_of(e.op) << " " << y[2];
      EXPECT_TRUE(same(y[3], e.of_minus_infinity)) << name_of(e.op) << " " << y[3];
      EXPECT_EQ(y[4], e.of_zero) << name_of(e.op);
      if (std::isnan(e.of_minus_one))
        EXPECT_TRUE(std::isnan(y[5])) << name_of(e.op);
      else
        EXPECT_NEAR(y[5], e.of_minus_one, 2e-7F) << name_of(e.op);
    }
  });
}

// NaN and infinity in bf16, where results are rounded by an addition.
TEST(Functions, OfBf16MakeNoNumberOfNan) {
  std::vector<std::uint16_t> x(64, 0xBF80);  // -1
  for (std::size_t i = 0; i < x.size(); i += 3) x[i] = 0x7FFF;
  const OpSpec log = make_spec(Op::kLog, {{DType::kBF16, {64}}}), sin = make_spec(Op::kSin, {{DType::kBF16, {64}}});
  for_each_highway_target([&] {
    for (const std::uint16_t y : run(kernel_named("highway.log"), log, x))
      EXPECT_TRUE(std::isnan(load_as_double(&y, DType::kBF16))) << y;
    const std::vector<std::uint16_t> sines = run(kernel_named("highway.sin"), sin, x);
    for (std::size_t i = 0; i < x.size(); i += 3) EXPECT_TRUE(std::isnan(load_as_double(&sines[i], DType::kBF16)));
  });
}

// Every finite bf16. A CPU that rounds to bf16 itself flushes subnormal results to 0: the absolute term covers it.
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
    for (const Op op : kActivationOps) {
      const Kernel& kernel = kernel_named(highway(op));
      const std::vector<float> y =
          run(kernel, f32_spec(op, 18),
              std::vector<float>{nan, -nan, infinity, 0, -infinity, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, nan});
      EXPECT_TRUE(std::isnan(y[0]) && std::isnan(y[1]) && std::isnan(y[17])) << kernel.name();
      EXPECT_EQ(y[2], infinity) << kernel.name();
      EXPECT_EQ(y[3], 0.0F) << kernel.name();
      EXPECT_TRUE(op == Op::kRelu ? y[4] == 0 : std::isnan(y[4])) << kernel.name() << ": -inf times 0 is NaN";
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
        EXPECT_TRUE(spec.op == Op::kRelu ? got == 0 : std::isnan(got)) << kernel.name() << ": -inf times 0 is NaN";
      }
    }
  };
  for_each_highway_target([&] {
    for (const Op op : kActivationOps) check(make_spec(op, {type}));
  });
}

}  // namespace
}  // namespace headroom
