#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

class CudaCumsum : public cuda::KernelTest {};

// Part of a warp, a warp, several, several rows a block, and several tiles of packs and of single elements.
TEST_F(CudaCumsum, MatchesTheOracle) {
  for (const DType dtype : cuda::kDTypes)
    for (const Shape& shape :
         {Shape{1}, Shape{3, 7}, Shape{2, 8}, Shape{2, 3, 31}, Shape{9, 32}, Shape{2, 2, 33}, Shape{5, 256},
          Shape{3, 257}, Shape{7, 1000}, Shape{3, 4096}, Shape{2, 4099}, Shape{2, 40000}, Shape{1, 65537}})
      expect_matches_oracle("cuda.cumsum", make_spec(Op::kCumsum, {{dtype, shape}}));
}

}  // namespace
}  // namespace headroom
