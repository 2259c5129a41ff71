#include "kernels/core/kernel.hpp"

#include <gtest/gtest.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "backends/backend.hpp"
#include "testing/compare.hpp"

namespace headroom {
namespace {

TensorType f32(const Shape& shape) { return {DType::kF32, shape}; }

/// A spec in f32 as a model would have it; nothing for an op that this test does not know yet.
std::optional<OpSpec> typical_spec(Op op) {
  const TensorType tokens = f32({2, 12, 32});
  const TensorType heads = f32({2, 4, 12, 8});
  const TensorType angles = f32({12, 4});
  const TensorType images = f32({2, 3, 8, 8});
  switch (op) {
#define HR_FORM(enumerator, ...) \
  case Op::enumerator:           \
    return make_spec(op, __VA_ARGS__);
#define HR_UNARY(enumerator, ...) HR_FORM(enumerator, {tokens})
#define HR_SCALAR(enumerator, ...) HR_FORM(enumerator, {tokens}, {{"value", 0.5}})
#define HR_BINARY(enumerator, ...) HR_FORM(enumerator, {tokens, f32({2, 1, 32})})
#define HR_REAL_BINARY HR_BINARY
#define HR_COMPARISON HR_BINARY
#define HR_RANGE(enumerator, ...) HR_FORM(enumerator, {tokens}, {{"low", -1.0}, {"high", 2.0}})
#define HR_TERNARY(enumerator, ...) HR_FORM(enumerator, {tokens, f32({2, 1, 32}), tokens})
#include "ir/elementwise.def"
#undef HR_FORM
    case Op::kSelect:
      return make_spec(op, {{DType::kBool, {2, 12, 1}}, tokens, tokens});
    case Op::kCast:
      return make_spec(op, {tokens}, {{"dtype", DType::kBF16}});
    case Op::kQuantize:
      return make_spec(op, {tokens});
    case Op::kLinear:
      return make_spec(op, {tokens, f32({64, 32}), f32({64})}, {}, {false, true, true});
    case Op::kMatmul:
      return make_spec(op, {heads, heads}, {{"transpose_b", std::int64_t{1}}});
    case Op::kSoftmax:
      return make_spec(op, {f32({2, 4, 12, 12})});
    case Op::kCumsum:
      return make_spec(op, {tokens});
    case Op::kLayerNorm:
      return make_spec(op, {tokens}, {{"eps", 1e-6}});
    case Op::kGroupNorm:
      return make_spec(op, {images, f32({3}), f32({3})}, {{"groups", std::int64_t{3}}, {"eps", 1e-6}});
    case Op::kRmsNorm:
      return make_spec(op, {heads, f32({8})}, {{"eps", 1e-6}}, {false, true});
    case Op::kRopeTable:
      return make_spec(op, {f32({12, 2})}, {{"axes", Ints{4, 4}}});
    case Op::kRope:
      return make_spec(op, {heads, angles, angles});
    case Op::kTimestepEmbedding:
      return make_spec(op, {f32({2})}, {{"dim", std::int64_t{32}}, {"scale", 1000.0}});
    case Op::kReshape:
      return make_spec(op, {tokens}, {{"shape", Ints{2, 12, 4, 8}}});
    case Op::kTranspose:
      return make_spec(op, {heads}, {{"perm", Ints{0, 2, 1, 3}}});
    case Op::kConcat:
      return make_spec(op, {tokens, f32({2, 5, 32})}, {{"axis", std::int64_t{1}}});
    case Op::kSlice:
      return make_spec(op, {tokens},
                       {{"axis", std::int64_t{1}}, {"start", std::int64_t{3}}, {"size", std::int64_t{5}}});
    case Op::kRow:
      return make_spec(op, {f32({28, 32}), {DType::kI32, Shape{}}});
    case Op::kConstant:
      return make_spec(op, {}, {{"values", std::vector<double>{1, 2, 3}}, {"shape", Ints{3}}});
    case Op::kRandom:
      return make_spec(op, {{DType::kI64, {2}}, {DType::kI32, {}}}, {{"shape", Ints{16, 8, 8}}});
    case Op::kGather:
      return make_spec(op, {f32({28, 32}), {DType::kI32, {2, 12}}});
    case Op::kScatterAdd:
      return make_spec(op, {f32({28, 32}), {DType::kI32, {12}}, f32({12, 32})});
    case Op::kPad:
      return make_spec(op, {images}, {{"before", Ints{0, 0, 1, 1}}, {"after", Ints{0, 0, 1, 1}}});
    case Op::kBroadcast:
      return make_spec(op, {f32({2, 1, 32})}, {{"shape", Ints{2, 12, 32}}});
    case Op::kResize2d:
      return make_spec(op, {images}, {{"size", Ints{16, 16}}});
    case Op::kAvgPool2d:
      return make_spec(op, {images}, {{"window", std::int64_t{2}}});
    case Op::kConv2d:
      return make_spec(op, {images, f32({8, 3, 3, 3}), f32({8})}, {}, {false, true, true});
    case Op::kConvTranspose2d:
      return make_spec(op, {images, f32({3, 8, 2, 2}), f32({8})}, {{"stride", Ints{2, 2}}}, {false, true, true});
    case Op::kMaxPool2d:
      return make_spec(op, {images}, {{"window", std::int64_t{2}}});
    case Op::kSum:
    case Op::kMean:
    case Op::kAmax:
    case Op::kAmin:
      return make_spec(op, {images}, {{"axes", Ints{2, 3}}});
    case Op::kArgmax:
      return make_spec(op, {tokens}, {{"axis", std::int64_t{2}}});
    case Op::kTopk:
      return make_spec(op, {tokens}, {{"k", std::int64_t{5}}});
    default:
      return std::nullopt;
  }
}

TEST(CpuKernels, EveryPlainOpHasAKernelInF32) {
  const DeviceTarget target = make_backend(DeviceKind::kCpu)->properties().target;
  int plain_ops = 0;
  for (const OpSchema& schema : all_ops()) {
    if (schema.fused) continue;
    ++plain_ops;
    const std::optional<OpSpec> spec = typical_spec(schema.op);
    ASSERT_TRUE(spec.has_value()) << "this test has no typical spec for " << schema.name;
    std::string reasons;
    bool supported = false;
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) {
      const Support rejection = kernel->supports(*spec, target);
      supported = supported || !rejection;
      if (rejection) reasons += fmt::format("\n  {}: {}", kernel->name(), rejection->reason);
    }
    EXPECT_TRUE(supported) << "no CPU kernel runs " << schema.name << ":" << reasons;
  }
  EXPECT_GE(plain_ops, 20);
}

TEST(CpuKernels, NamesAreUniqueAndQualified) {
  std::set<std::string_view> names;
  for (const Kernel* kernel : kernels_of(DeviceKind::kCpu)) {
    EXPECT_TRUE(names.insert(kernel->name()).second) << kernel->name() << " is listed twice";
    EXPECT_NE(kernel->name().find('.'), std::string_view::npos) << kernel->name();
  }
}

// Whatever the order in which the linker puts the files that they are listed in.
TEST(CpuKernels, ThoseOfOneOpAreTriedInTheOrderThatTheySay) {
  const auto names_of = [](Op op) {
    std::vector<std::string_view> names;
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
      if (kernel->op() == op) names.push_back(kernel->name());
    return names;
  };
  EXPECT_EQ(names_of(Op::kLinear), (std::vector<std::string_view>{"amx.linear", "onednn.linear"}));
  EXPECT_EQ(names_of(Op::kScaledLinear),
            (std::vector<std::string_view>{"amx.scaled_linear", "onednn.scaled_linear", "plain.scaled_linear"}));
  EXPECT_EQ(names_of(Op::kAttention), (std::vector<std::string_view>{"amx.attention", "highway.attention"}));
}

TEST(CpuKernels, NoKernelTakesAnotherDevice) {
  const Target cuda{.device = DeviceKind::kCuda};
  for (const OpSchema& schema : all_ops()) {
    const std::optional<OpSpec> spec = typical_spec(schema.op);
    if (!spec) continue;
    for (const Kernel* kernel : kernels_of(DeviceKind::kCpu))
      EXPECT_TRUE(kernel->supports(*spec, cuda).has_value()) << kernel->name();
  }
}

}  // namespace
}  // namespace headroom
