#include "kernels/cpu_kernels.hpp"
#include "kernels/highway_check.hpp"

namespace headroom {
namespace {

TEST(GateResidual, MatchesTheOracle) {
  const std::vector<Shape> shapes = {{1, 1, 1}, {2, 3, 7}, {2, 3, 8}, {3, 1, 17}, {2, 5, 33}, {1, 9, 64}, {1, 65, 513}};
  for (const Shape& shape : shapes) {
    const Shape gate{shape[0], 1, shape[2]};
    for (const auto& [dtype, gate_dtype] : {std::pair(DType::kF32, DType::kF32), std::pair(DType::kBF16, DType::kBF16),
                                            std::pair(DType::kBF16, DType::kF32)}) {
      expect_matches_oracle(highway_gate_residual(),
                            make_spec(Op::kGateResidual, {{dtype, shape}, {gate_dtype, gate}, {dtype, shape}}));
    }
  }
}

}  // namespace
}  // namespace headroom
