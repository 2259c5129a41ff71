#include <string>
#include <vector>

#include "ir/builder.hpp"
#include "ir/text/text.hpp"
#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

class CudaGroupNormOnce : public cuda::KernelTest {
 protected:
  void matches(const Shape& shape, std::int64_t groups, cuda::Types types, std::size_t vectors, Activation activation) {
    std::vector<TensorType> inputs = {{types.x, shape, Layout::kChannelsLast}};
    inputs.resize(1 + vectors, {types.side, Shape{shape[1]}});
    const OpSpec spec = make_spec(Op::kGroupNorm, std::move(inputs),
                                  {{"groups", groups}, {"eps", 1e-5}, {attr::kEpilogue, Epilogue(activation)}});
    ASSERT_FALSE(kernel_named("cuda.group_norm_once").supports(spec, target())) << shape.to_string();
    expect_matches_oracle("cuda.group_norm_once", spec);
  }
};

struct OnceCase {
  Shape shape;
  std::int64_t groups;
};
// Groups of 10, 20, 40, 60, 30, 80, 6, 4 and 2 channels; one block a bundle and clusters of up to 16; numbers of
// pixels that are no multiple of a block's or a thread's share, smaller than the number of blocks, and larger than
// shared memory keeps.
const std::vector<OnceCase> kOnceCases = {{{1, 320, 64, 64}, 32},  {{2, 640, 16, 16}, 32}, {{1, 1280, 8, 8}, 32},
                                          {{1, 1920, 16, 16}, 32}, {{2, 960, 19, 17}, 32}, {{1, 2560, 8, 8}, 32},
                                          {{3, 192, 13, 29}, 32},  {{1, 128, 65, 64}, 32}, {{1, 64, 1, 1}, 4},
                                          {{1, 320, 96, 97}, 32},  {{1, 8, 50, 64}, 2},    {{5, 40, 3, 1}, 1},
                                          {{2, 64, 21, 21}, 32},   {{1, 1280, 7, 7}, 2},   {{1, 40, 205, 206}, 1}};

TEST_F(CudaGroupNormOnce, MatchesTheOracle) {
  for (const cuda::Types types : cuda::kTypes)
    for (const OnceCase& item : kOnceCases) matches(item.shape, item.groups, types, 2, Activation::kSilu);
}

TEST_F(CudaGroupNormOnce, NeedsNeitherWeightNorBias) {
  for (const cuda::Types types : cuda::kTypes)
    for (const std::size_t vectors : {0, 1}) matches({2, 80, 9, 7}, 4, types, vectors, Activation::kNone);
}

TEST_F(CudaGroupNormOnce, AppliesItsActivation) {
  for (const Activation activation : {Activation::kNone, Activation::kGeluTanh, Activation::kGeluErf})
    matches({1, 64, 20, 18}, 4, cuda::kTypes[3], 2, activation);
}

/// a and b joined, and a number for each channel of each image, or of all images, added.
OpSpec joined(cuda::Types types, std::int64_t first, std::int64_t second, std::int64_t side, std::int64_t groups,
              std::int64_t shifts, bool is_affine, bool makes_whole = false) {
  constexpr std::int64_t kImages = 2;
  const std::int64_t channels = first + second;
  Graph body("body");
  Builder b(body);
  std::vector<TensorType> inputs;
  const auto input = [&](const TensorType& type) {
    inputs.push_back(type);
    return b.cast(body.add_input(fmt::format("x{}", inputs.size()), type), DType::kF32);
  };
  ValueId x = input({types.x, {kImages, first, side, side}, Layout::kChannelsLast});
  if (second > 0) x = b.concat({x, input({types.x, {kImages, second, side, side}, Layout::kChannelsLast})}, 1);
  const ValueId whole = x;
  if (shifts > 0) x = b.add(x, input({types.side, {shifts, channels, 1, 1}}));
  std::vector<ValueId> operands = {x};
  if (is_affine)
    for (int k = 0; k < 2; ++k) operands.push_back(input({types.side, {channels}}));
  const ValueId made = b.emit(Op::kGroupNorm, operands,
                              {{"groups", groups}, {"eps", 1e-5}, {attr::kEpilogue, Epilogue(Activation::kSilu)}})[0];
  body.add_output("y", b.cast(made, types.x));
  if (makes_whole) body.add_output("whole", b.cast(whole, types.x));
  return make_spec(Op::kFused, std::move(inputs), {{"body", canonical_text(body)}});
}

TEST_F(CudaGroupNormOnce, TakesInAConcatenationAndANumberForEachChannel) {
  for (const cuda::Types types : cuda::kTypes)
    for (const bool is_affine : {true, false}) {
      expect_matches_oracle("cuda.fused_group_norm", joined(types, 640, 320, 20, 32, 0, is_affine));
      expect_matches_oracle("cuda.fused_group_norm", joined(types, 320, 640, 12, 32, 0, is_affine, true));
      expect_matches_oracle("cuda.fused_group_norm", joined(types, 160, 160, 65, 32, 0, is_affine, true));
      expect_matches_oracle("cuda.fused_group_norm", joined(types, 320, 0, 33, 32, 2, is_affine));
      expect_matches_oracle("cuda.fused_group_norm", joined(types, 40, 80, 7, 3, 1, is_affine));
      expect_matches_oracle("cuda.fused_group_norm", joined(types, 8, 72, 90, 2, 2, is_affine));
    }
}

/// silu(group_norm(x) * (scale + 1) + offset)
OpSpec modulated_norm(cuda::Types types, const Shape& image, std::int64_t groups, std::int64_t vectors) {
  Graph body("body");
  Builder b(body);
  const TensorType pixels{types.x, image, Layout::kChannelsLast}, vector{types.side, {vectors, image[1], 1, 1}};
  const auto input = [&](const char* name, const TensorType& type) {
    return b.cast(body.add_input(name, type), DType::kF32);
  };
  const ValueId normed = b.group_norm(input("x", pixels), groups, 1e-5);
  const ValueId scaled = b.mul(normed, b.add_scalar(input("scale", vector), 1));
  body.add_output("y", b.cast(b.silu(b.add(scaled, input("offset", vector))), types.x));
  return make_spec(Op::kFused, {pixels, vector, vector}, {{"body", canonical_text(body)}});
}

TEST_F(CudaGroupNormOnce, TakesInWhatScalesAndOffsetsEachChannel) {
  for (const cuda::Types types : cuda::kTypes) {
    expect_matches_oracle("cuda.fused_group_norm", modulated_norm(types, {2, 192, 16, 16}, 32, 2));
    expect_matches_oracle("cuda.fused_group_norm", modulated_norm(types, {2, 40, 33, 9}, 4, 1));
  }
}

TEST_F(CudaGroupNormOnce, LeavesOtherBodies) {
  Graph body("body");
  const TensorType image{DType::kF32, {1, 8, 2, 2}, Layout::kChannelsLast};
  Builder b(body);
  body.add_output("y", b.silu(body.add_input("x", image)));
  const OpSpec spec = make_spec(Op::kFused, {image}, {{"body", canonical_text(body)}});
  EXPECT_TRUE(kernel_named("cuda.fused_group_norm").supports(spec, target()));
}

}  // namespace
}  // namespace headroom
