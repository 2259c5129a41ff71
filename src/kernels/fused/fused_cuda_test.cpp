#include "kernels/cuda/gpu_check.hpp"
#include "kernels/fused/fused_cases.hpp"

namespace headroom {
namespace {

using CudaFused = cuda::KernelTest;

// A pair, less than a pack, a part of a warp, several warps, a whole block, and more than registers hold; each body in
// another of the dtypes for each of them.
TEST_F(CudaFused, RowsMatchTheOracle) {
  std::size_t turn = 0;
  for (const std::int64_t columns : {2, 7, 64, 1000, 3072, 40000}) {
    SCOPED_TRACE(columns);
    const std::size_t bodies = FusedCases(DType::kBF16, DType::kBF16, 5, columns).list(true).size();
    for (std::size_t k = 0; k < bodies; ++k) {
      const cuda::Types types = cuda::kTypes[turn++ % std::size(cuda::kTypes)];
      const std::vector<FusedCase> cases = FusedCases(types.x, types.side, 5, columns).list(true);
      if (k >= cases.size()) continue;
      SCOPED_TRACE(cases[k].name);
      expect_matches_oracle("cuda.fused", cases[k].spec,
                            tolerance_of(cases[k], default_tolerance(cases[k].spec.outputs[0].dtype)));
    }
  }
}

TEST_F(CudaFused, ImagesAreWalkedAsTheyLie) {
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    Graph body("body");
    Builder b(body);
    const TensorType image{DType::kBF16, {2, 16, 9, 5}, layout}, vector{DType::kBF16, {1, 16, 1, 1}};
    const ValueId x = b.cast(body.add_input("x", image), DType::kF32),
                  y = b.cast(body.add_input("y", image), DType::kF32);
    body.add_output("z",
                    b.cast(b.silu(b.add(b.mul(x, b.cast(body.add_input("v", vector), DType::kF32)), y)), DType::kBF16));
    expect_matches_oracle("cuda.fused",
                          make_spec(Op::kFused, {image, image, vector}, {{"body", canonical_text(body)}}));
  }
}

TEST_F(CudaFused, LargeWorkIsMeasured) {
  for (const FusedCase& body : FusedCases(DType::kBF16, DType::kBF16, 70, 3072).list(true)) {
    SCOPED_TRACE(body.name);
    expect_matches_oracle("cuda.fused", body.spec, tolerance_of(body, default_tolerance(body.spec.outputs[0].dtype)));
  }
}

TEST_F(CudaFused, RefusesABodyWithoutRows) {
  Graph body("body");
  Builder b(body);
  const TensorType x{DType::kF32, {4, 6}};
  body.add_output("y", b.sum(body.add_input("x", x), {0}));
  const Support support =
      kernel_named("cuda.fused").supports(make_spec(Op::kFused, {x}, {{"body", canonical_text(body)}}), target());
  ASSERT_TRUE(support.has_value());
  EXPECT_THAT(support->reason, testing::HasSubstr("other axes"));
}

}  // namespace
}  // namespace headroom
