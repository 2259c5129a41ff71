#include <string>
#include <vector>

#include "testing/gpu_check.hpp"

namespace headroom {
namespace {

constexpr std::string_view kTogether = "cuda.group_norm_together";

class CudaGroupNormTogether : public cuda::KernelTest {
 protected:
  static OpSpec spec_of(const Shape& shape, std::int64_t groups, cuda::Types types, std::size_t vectors,
                        Activation activation) {
    std::vector<TensorType> inputs = {{types.x, shape, Layout::kChannelsLast}};
    inputs.resize(1 + vectors, {types.side, Shape{shape[1]}});
    return make_spec(Op::kGroupNorm, std::move(inputs),
                     {{"groups", groups}, {"eps", 1e-5}, {attr::kEpilogue, Epilogue(activation)}});
  }
  /// Three launches of one prepared kernel, over its operand the last.
  void matches(const OpSpec& spec) {
    const Comparison result =
        compare(kernel_named(kTogether), spec, next_seed_++, default_tolerance(spec.outputs[0].dtype));
    EXPECT_TRUE(result.passed) << name_of(spec.inputs[0].dtype) << spec.inputs[0].shape.to_string() << ": "
                               << result.message;
  }

 private:
  std::uint64_t next_seed_ = 1;
};

struct TogetherCase {
  Shape shape;
  std::int64_t groups;
};
// Groups of 4, 10, 8, 64 and 2 channels; pixels of 3 to 512 packs, also such that threads have none. Blocks whose
// pixels the ring keeps all of, one with fewer pixels, one with none, and blocks that read some again; several
// images.
const std::vector<TogetherCase> kTogetherCases = {{{1, 128, 224, 224}, 32}, {{2, 320, 105, 100}, 32},
                                                  {{1, 24, 512, 523}, 3},   {{1, 2048, 57, 57}, 32},
                                                  {{1, 64, 480, 470}, 32},  {{16, 128, 64, 65}, 8}};

TEST_F(CudaGroupNormTogether, MatchesTheOracle) {  // which takes its time for images of this size
  for (const TogetherCase& item : kTogetherCases)
    matches(spec_of(item.shape, item.groups, cuda::kTypes[1], 2, Activation::kSilu));
  for (const cuda::Types types : cuda::kTypes) matches(spec_of({1, 128, 184, 184}, 32, types, 2, Activation::kSilu));
  matches(spec_of({1, 64, 330, 331}, 32, cuda::kTypes[0], 2, Activation::kSilu));
}

TEST_F(CudaGroupNormTogether, NeedsNeitherWeightNorBias) {
  for (const std::size_t vectors : {0, 1})
    matches(spec_of({1, 64, 256, 257}, 32, cuda::kTypes[1], vectors, Activation::kNone));
}

TEST_F(CudaGroupNormTogether, AppliesItsActivation) {
  for (const Activation activation : {Activation::kGeluTanh, Activation::kGeluErf, Activation::kRelu})
    matches(spec_of({1, 64, 200, 200}, 32, cuda::kTypes[0], 2, activation));
}

TEST_F(CudaGroupNormTogether, SendsNaNAndInfinitiesWhereTheInterpreterSays) {
  const Comparison result = compare_special_values(
      kernel_named(kTogether), spec_of({1, 64, 200, 200}, 32, cuda::kTypes[0], 0, Activation::kNone), target(), 1,
      kSpecialTolerance);
  EXPECT_TRUE(result.passed) << result.message;
}

TEST_F(CudaGroupNormTogether, LeavesWhatIsSmallOrManyOrOdd) {
  const auto is_taken = [&](const Shape& shape, std::int64_t groups) {
    return !kernel_named(kTogether).supports(spec_of(shape, groups, cuda::kTypes[0], 2, Activation::kSilu), target());
  };
  EXPECT_TRUE(is_taken({1, 128, 256, 256}, 32));
  EXPECT_FALSE(is_taken({1, 128, 32, 32}, 32));
  EXPECT_FALSE(is_taken({64, 128, 256, 256}, 32));
  EXPECT_FALSE(is_taken({1, 160, 256, 256}, 32));  // groups of 5
  EXPECT_FALSE(is_taken({1, 4096, 64, 64}, 32));   // pixels of more packs than a block has threads
}

}  // namespace
}  // namespace headroom
