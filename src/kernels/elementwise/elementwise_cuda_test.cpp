#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

class CudaElementwise : public cuda::KernelTest {
 protected:
  void matches(Op op, std::vector<TensorType> inputs, NamedAttributes attributes = {}) {
    expect_matches_oracle(fmt::format("cuda.{}", name_of(op)), make_spec(op, std::move(inputs), std::move(attributes)));
  }
};

TEST_F(CudaElementwise, UnaryFormsMatchTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{2, 3, 8}, Shape{3, 5, 17}, Shape{2, 9, 64}, Shape{5, 4099}}) {
#define HR_UNARY(enumerator, ...) matches(Op::enumerator, {{dtype, shape}});
#define HR_SCALAR(enumerator, ...) matches(Op::enumerator, {{dtype, shape}}, {{"value", -1.75}});
#define HR_RANGE(enumerator, ...) matches(Op::enumerator, {{dtype, shape}}, {{"low", -0.75}, {"high", 1.25}});
#define HR_ANY(...)
#include "ir/elementwise.def"
    }
}

TEST_F(CudaElementwise, BinaryFormsBroadcastLikeTheOracle) {
  const std::vector<std::pair<Shape, Shape>> cases = {{{7}, {7}},
                                                      {{2, 3, 8}, {2, 3, 8}},
                                                      {{2, 5, 33}, {2, 1, 33}},
                                                      {{2, 5, 32}, {2, 1, 32}},
                                                      {{2, 1, 64}, {2, 7, 64}},
                                                      {{3, 4, 6}, {1}},
                                                      {{3, 4, 16}, {4, 1}},
                                                      {{1, 1, 1}, {2, 5, 40}},
                                                      {{4, 1}, {1, 24}},
                                                      {{}, {}}};
  for (const DType dtype : cuda::kDTypes)
    for (const auto& [a, b] : cases)
      for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kDiv, Op::kPow, Op::kMin, Op::kMax, Op::kMod, Op::kLess,
                          Op::kLessEqual, Op::kEqual})
        matches(op, {{dtype, a}, {dtype, b}});
}

TEST_F(CudaElementwise, IntegersMatchTheOracle) {
  for (const DType dtype : {DType::kI32, DType::kI64})
    for (const auto& [a, b] :
         {std::pair<Shape, Shape>{{2, 5, 33}, {2, 1, 33}}, {{7}, {7}}, {{4, 1}, {1, 24}}, {{}, {}}}) {
      for (const Op op : {Op::kAdd, Op::kSub, Op::kMul, Op::kMin, Op::kMax, Op::kMod}) {
        SCOPED_TRACE(name_of(op));
        expect_matches_oracle(fmt::format("cuda.{}_integers", name_of(op)), make_spec(op, {{dtype, a}, {dtype, b}}));
      }
      for (const Op op : {Op::kLess, Op::kLessEqual, Op::kEqual}) matches(op, {{dtype, a}, {dtype, b}});
      expect_matches_oracle("cuda.add_scalar_integers", make_spec(Op::kAddScalar, {{dtype, a}}, {{"value", -7.0}}));
      expect_matches_oracle("cuda.clamp_integers",
                            make_spec(Op::kClamp, {{dtype, a}}, {{"low", -20.0}, {"high", 30.0}}));
    }
}

TEST_F(CudaElementwise, SelectTakesAnyDType) {
  for (const DType dtype : {DType::kF32, DType::kF64, DType::kBF16, DType::kF16, DType::kF8E4M3, DType::kI8, DType::kU8,
                            DType::kBool, DType::kI32, DType::kI64}) {
    const TensorType x{dtype, {3, 5, 17}};
    matches(Op::kSelect, {{DType::kBool, {3, 1, 17}}, x, x});
    matches(Op::kSelect, {{DType::kBool, {3, 5, 1}}, {dtype, {17}}, x});
    matches(Op::kSelect, {{DType::kBool, {}}, x, {dtype, {}}});
  }
}

TEST_F(CudaElementwise, GateResidualMatchesTheOracle) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 7}, Shape{2, 9, 64}, Shape{1, 40, 513}, Shape{3, 1, 24}})
      matches(Op::kGateResidual, {{types.x, shape}, {types.side, {shape[0], 1, shape[2]}}, {types.x, shape}});
}

}  // namespace
}  // namespace headroom
