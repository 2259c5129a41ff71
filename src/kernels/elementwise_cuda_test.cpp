#include "kernels/cuda/gpu_check.hpp"

namespace headroom {
namespace {

class CudaElementwise : public cuda::KernelTest {
 protected:
  void matches(Op op, std::vector<TensorType> inputs,
               std::vector<std::pair<std::string_view, Attribute>> attributes = {}) {
    expect_matches_oracle(fmt::format("cuda.{}", name_of(op)), make_spec(op, std::move(inputs), std::move(attributes)));
  }
};

TEST_F(CudaElementwise, UnaryFormsMatchTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape : {Shape{1}, Shape{7}, Shape{2, 3, 8}, Shape{3, 5, 17}, Shape{2, 9, 64}, Shape{5, 4099}}) {
#define HR_UNARY(enumerator, ...) matches(Op::enumerator, {{dtype, shape}});
#define HR_SCALAR(enumerator, ...) matches(Op::enumerator, {{dtype, shape}}, {{"value", -1.75}});
#define HR_BINARY(...)
#define HR_TERNARY(...)
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
      for (const Op op : {Op::kAdd, Op::kSub, Op::kMul}) matches(op, {{dtype, a}, {dtype, b}});
}

TEST_F(CudaElementwise, GateResidualMatchesTheOracle) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Shape& shape : {Shape{1, 1, 1}, Shape{2, 3, 7}, Shape{2, 9, 64}, Shape{1, 40, 513}, Shape{3, 1, 24}})
      matches(Op::kGateResidual, {{types.x, shape}, {types.side, {shape[0], 1, shape[2]}}, {types.x, shape}});
}

}  // namespace
}  // namespace headroom
