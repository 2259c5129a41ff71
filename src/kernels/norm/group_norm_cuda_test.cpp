#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

struct Case {
  Shape shape;
  std::int64_t groups;
  std::int64_t channels = 0;
};

// One element a group and one group in all; single elements and packs; columns of less than a tile, a tile, and
// several; several chunks of a line; channels after those that count.
const std::vector<Case> kCases = {
    {{1, 4, 1, 1}, 2},       {{2, 6, 3, 5}, 3},   {{2, 6, 3, 5}, 1},     {{3, 32, 4, 4}, 8},    {{1, 37, 5, 7}, 37},
    {{2, 40, 4, 10}, 4, 36}, {{1, 8, 50, 64}, 2}, {{2, 64, 20, 19}, 32}, {{1, 320, 9, 11}, 32}, {{1, 2560, 3, 8}, 32},
    {{1, 24, 16, 16}, 3, 3}, {{1, 300, 3, 3}, 4}, {{1, 3, 300, 301}, 3}};

class CudaGroupNorm : public cuda::KernelTest {
 protected:
  void matches(const Case& item, cuda::Types types, Layout layout, std::size_t vectors, Activation activation) {
    std::vector<TensorType> inputs = {{types.x, item.shape, layout}};
    inputs.resize(1 + vectors, {types.side, Shape{item.shape[1]}});
    expect_matches_oracle("cuda.group_norm", make_spec(Op::kGroupNorm, std::move(inputs),
                                                       {{"groups", item.groups},
                                                        {"eps", 1e-5},
                                                        {"channels", item.channels},
                                                        {attr::kEpilogue, Epilogue(activation)}}));
  }
};

TEST_F(CudaGroupNorm, MatchesTheOracle) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      for (const Case& item : kCases) matches(item, types, layout, 2, Activation::kNone);
}

TEST_F(CudaGroupNorm, NeedsNeitherWeightNorBias) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      for (const std::size_t vectors : {0, 1})
        matches({{2, 40, 4, 10}, 4, 36}, types, layout, vectors, Activation::kSilu);
}

TEST_F(CudaGroupNorm, AppliesItsActivation) {
  for (const cuda::Types types : cuda::kTypes)
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
      for (const Activation activation :
           {Activation::kSilu, Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu})
        matches({{1, 64, 20, 18}, 32}, types, layout, 2, activation);
}

}  // namespace
}  // namespace headroom
