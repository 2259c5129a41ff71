#include <cmath>

#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

using CudaNorm = cuda::KernelTest;
using CudaSoftmax = cuda::KernelTest;

// One pack, several, a warp, several warps, a whole block, and (the last) more than registers hold.
const std::vector<Shape> kNormShapes = {{1, 1, 4},    {2, 3, 7},    {2, 3, 8},    {2, 3, 9},   {2, 1, 16},
                                        {3, 5, 17},   {2, 9, 64},   {2, 5, 768},  {2, 4, 513}, {1, 7, 3072},
                                        {1, 3, 4100}, {1, 2, 9216}, {1, 2, 40000}};

TEST_F(CudaNorm, LayerNormMatchesTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape : kNormShapes)
      expect_matches_oracle("cuda.layer_norm", make_spec(Op::kLayerNorm, {{dtype, shape}}, {{"eps", 1e-6}}));
}

TEST_F(CudaNorm, LayerNormTakesWeightAndBias) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Shape& shape : kNormShapes) {
      const TensorType x{types.x, shape}, side{types.side, {shape[-1]}};
      expect_matches_oracle("cuda.layer_norm", make_spec(Op::kLayerNorm, {x, side}, {{"eps", 1e-6}}));
      expect_matches_oracle("cuda.layer_norm", make_spec(Op::kLayerNorm, {x, side, side}, {{"eps", 1e-6}}));
    }
}

TEST_F(CudaNorm, RmsNormNeedsNoWeight) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape : kNormShapes)
      expect_matches_oracle("cuda.rms_norm", make_spec(Op::kRmsNorm, {{dtype, shape}}, {{"eps", 1e-6}}));
}

TEST_F(CudaNorm, RmsNormMatchesTheOracle) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Shape& shape : kNormShapes)
      expect_matches_oracle("cuda.rms_norm",
                            make_spec(Op::kRmsNorm, {{types.x, shape}, {types.side, {shape[-1]}}}, {{"eps", 1e-6}}));
}

TEST_F(CudaNorm, NormModulateMatchesTheOracle) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Shape& shape : kNormShapes) {
      const TensorType side{types.side, {shape[0], 1, shape[2]}};
      expect_matches_oracle("cuda.norm_modulate",
                            make_spec(Op::kNormModulate, {{types.x, shape}, side, side}, {{"eps", 1e-6}}));
    }
}

TEST_F(CudaSoftmax, MatchesTheOracle) {
  for (const DType dtype : cuda::kDTypes) {
    for (const Shape& shape : kNormShapes)
      expect_matches_oracle("cuda.softmax", make_spec(Op::kSoftmax, {{dtype, shape}}));
    expect_matches_oracle("cuda.softmax", make_spec(Op::kSoftmax, {{dtype, {2, 3, 5, 33}}}));
    expect_matches_oracle("cuda.softmax", make_spec(Op::kSoftmax, {{dtype, {1}}}));
  }
}

}  // namespace
}  // namespace headroom
