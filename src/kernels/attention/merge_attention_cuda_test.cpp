#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

class CudaMergeAttention : public cuda::KernelTest {};

/// Whole packs and single elements; as many parts as are read at once, fewer and more; parts first, inside and last.
TEST_F(CudaMergeAttention, MatchesTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& x : {Shape{1, 1}, Shape{3, 7}, Shape{2, 3, 5, 64}, Shape{5, 2, 3, 9, 40}, Shape{9, 4, 2, 5, 17},
                           Shape{4, 2, 200, 128}})
      for (std::int64_t axis = 0; axis + 1 < x.rank(); ++axis)
        for (const bool logsumexp : {false, true}) {
          Shape rows;
          for (int k = 0; k + 1 < x.rank(); ++k) rows.push_back(x[k]);
          expect_matches_oracle("cuda.merge_attention",
                                make_spec(Op::kMergeAttention, {{dtype, x}, {DType::kF32, rows}},
                                          {{attr::kAxis, axis}, {attr::kLogsumexp, logsumexp}}),
                                {.relative_l2 = dtype == DType::kF32    ? 1e-6
                                                : dtype == DType::kBF16 ? 4e-3
                                                                        : 5e-4});
        }
}

}  // namespace
}  // namespace headroom
