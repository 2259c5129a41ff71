#include <algorithm>
#include <string>
#include <vector>

#include "ir/test_cases/convolution_cases.hpp"
#include "kernels/conv/convolution.hpp"
#include "kernels/conv/hopper.hpp"
#include "kernels/conv/pointwise.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "testing/gpu_check.hpp"
#include "testing/own_cache.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

constexpr Layout kLayouts[] = {Layout::kRowMajor, Layout::kChannelsLast};

/// Large enough for engines to be timed: channels in whole vectors, 3x3, a downsampling with padding on one side only,
/// as an autoencoder has it, groups, and rows of channels that are no whole vectors.
std::vector<ConvolutionCase> large_cases() {
  return {{{2, 64, 40, 36}, {64, 64, 3, 3}, Builder::evenly(1, 1)},
          {{1, 64, 65, 64}, {128, 64, 3, 3}, {.stride = {2, 2}, .padding = {0, 0, 1, 1}}},
          {{2, 64, 48, 48}, {128, 32, 3, 3}, {.padding = {1, 1, 1, 1}, .groups = 2}},
          {{1, 60, 50, 50}, {83, 60, 3, 3}, {.padding = {2, 2, 2, 2}, .dilation = {2, 2}}}};
}

class CudaConvolution : public cuda::KernelTest {
 protected:
  /// The first kernel of the op that takes it, as a plan chooses it.
  void expect_chosen_agrees(const OpSpec& spec, Tolerance tolerance) {
    std::string reasons;
    for (const Kernel* kernel : kernels_of(DeviceKind::kCuda)) {
      if (kernel->op() != spec.op || kernel->supports(spec, target())) continue;
      try {
        const Comparison result = compare(*kernel, spec, 1, tolerance);
        EXPECT_TRUE(result.passed) << kernel->name() << ": " << result.message;
        return;
      } catch (const CannotPrepare& error) {
        reasons += fmt::format("; {}: {}", kernel->name(), error.what());
      }
    }
    FAIL() << "no kernel takes it" << reasons;
  }
  void expect_chosen_agrees(const OpSpec& spec) {
    expect_chosen_agrees(spec, default_tolerance(spec.outputs[0].dtype));
  }

  [[nodiscard]] std::string implementation(std::string_view kernel, const OpSpec& spec) {
    std::vector<Operand> inputs, outputs;
    for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
    for (const TensorType& type : spec.outputs) outputs.push_back(dense_operand(type));
    return kernel_named(kernel).prepare(spec, inputs, outputs, target())->implementation();
  }
};

TEST_F(CudaConvolution, AgreesForEveryShapeLayoutAndDtype) {
  for (const ConvolutionCase& c : convolution_cases())
    for (const DType dtype : cuda::kDTypes)
      for (const Layout layout : kLayouts)
        for (const bool is_weight : {false, true}) {
          SCOPED_TRACE(c.text(dtype, layout) + (is_weight ? " weight" : ""));
          expect_chosen_agrees(c.conv2d(dtype, layout, {.bias = dtype}, is_weight));
        }
}

TEST_F(CudaConvolution, AddsBiasAndResidualAndThenActivates) {
  const std::vector<ConvolutionCase> cases = {{{2, 33, 6, 5}, {19, 33, 1, 1}},
                                              {{2, 64, 6, 6}, {128, 64, 1, 1}},
                                              {{2, 16, 9, 7}, {24, 16, 3, 3}, Builder::evenly(2, 1)}};
  for (const ConvolutionCase& c : cases)
    for (const DType dtype : cuda::kDTypes)
      for (const Layout layout : kLayouts)
        for (const ConvolutionEnd& end : convolution_ends(dtype)) {
          SCOPED_TRACE(c.text(dtype, layout) + " " + end.text());
          expect_chosen_agrees(c.conv2d(dtype, layout, end));
        }
}

// Each compiles several engines, of which one can take a second, so not every combination is here.
TEST_F(CudaConvolution, AgreesWithEnginesThatWereTimed) {
  const auto expect_agrees = [&](const ConvolutionCase& c, DType dtype, Layout layout, bool has_residual) {
    const ConvolutionEnd end{.bias = dtype, .has_residual = has_residual, .activation = Activation::kSilu};
    SCOPED_TRACE(c.text(dtype, layout) + " " + end.text());
    expect_chosen_agrees(c.conv2d(dtype, layout, end));
  };
  const std::vector<ConvolutionCase> cases = large_cases();
  for (const DType dtype : cuda::kDTypes) {
    for (const ConvolutionCase& c : cases) expect_agrees(c, dtype, Layout::kChannelsLast, true);
    expect_agrees(cases.front(), dtype, Layout::kRowMajor, true);
    expect_agrees(cases.front(), dtype, Layout::kChannelsLast, false);
  }
}

TEST_F(CudaConvolution, TimesItsAlgorithmsOnceAndFindsTheFastestAgain) {
  const OpSpec spec = large_cases()[0].conv2d(DType::kBF16, Layout::kChannelsLast, {.bias = DType::kBF16});
  const std::string first = implementation("fastest.conv2d", spec), again = implementation("fastest.conv2d", spec);
  EXPECT_THAT(first, HasSubstr(", fastest as measured"));
  EXPECT_EQ(first, again);
}

/// The problem that choices are kept for: a GEMM's pixels in lines, as the shape of the image does not matter.
convolutions::Problem as_kept(const OpSpec& spec) {
  const convolutions::Problem problem = convolutions::problem_of(spec);
  return is_pointwise(problem) ? in_lines(problem) : problem;
}
/// For images of any size, or for any rows of a GEMM.
tune::SizeKey size_key_of(const OpSpec& spec) {
  convolutions::Problem problem = as_kept(spec);
  const bool is_rows = is_pointwise(problem);
  const Shape x = problem.x;
  for (Shape* const shape : {&problem.x, &problem.y}) *shape = {1, (*shape)[1], 1, is_rows ? (*shape)[3] : 1};
  return {.family = to_text(problem), .size = is_rows ? std::vector{x[2] * x[3]} : std::vector{x[0], x[2], x[3]}};
}

/// The nearest that is not far from the guess.
TEST_F(CudaConvolution, TakesOverWhatIsFastestForOtherImages) {
  if (target().compute_capability != 90) GTEST_SKIP() << "what is taken over is our own kernel for Hopper";
  const cuda::OwnCache cache;
  tune::Tuner search(backend(), cuda::driver_version(), convolutions::versions(), cuda::fill_random);
  struct ImageCase {
    Shape from, to, weight;
    Builder::Convolution how;
    std::string size;
  };
  for (const ImageCase& c :
       {ImageCase{{1, 64, 64, 64}, {2, 64, 40, 36}, {64, 64, 3, 3}, Builder::evenly(1, 1), "1x64x64"},
        ImageCase{{1, 320, 32, 32}, {3, 320, 20, 20}, {320, 320, 3, 3}, Builder::evenly(2, 1), "1x32x32"},
        ImageCase{{1, 320, 64, 64}, {1, 320, 40, 40}, {640, 320, 1, 1}, {}, "4096"}}) {
    SCOPED_TRACE(c.to.to_string());
    const auto spec_of = [&](const Shape& x) {
      return ConvolutionCase{x, c.weight, c.how}.conv2d(DType::kF16, Layout::kChannelsLast,
                                                        {.bias = DType::kF16, .activation = Activation::kSilu});
    };
    const auto keep = [&](const std::string& fastest, const Shape& x) {
      search.keep({.text = c.weight.to_string() + x.to_string(), .operands = {}, .size_key = size_key_of(spec_of(x))},
                  fastest, 1);
    };
    const OpSpec spec = spec_of(c.to);
    const convolutions::Problem problem = as_kept(spec);
    const auto is_good = [&](const std::string& name) { return find_good_hopper_algorithm(problem, name).has_value(); };
    const std::vector<convolutions::Algorithm> algorithms = make_hopper_algorithms(problem);
    const std::vector<convolutions::HopperTile> tiles = hopper_tiles(problem);
    const auto good = std::ranges::find_if(algorithms, is_good, &convolutions::Algorithm::name);
    const auto poor =
        std::ranges::find_if_not(tiles, is_good, [](const convolutions::HopperTile& tile) { return name_of(tile); });
    ASSERT_TRUE(good != algorithms.end() && poor != tiles.end());
    keep(good->name, c.from);
    keep(name_of(*poor), {c.to[0], c.to[1], c.to[2] + 1, c.to[3]});
    EXPECT_EQ(take_over("fastest.conv2d", spec, default_tolerance(DType::kF16)),
              good->name + ", taken over from size " + c.size);
  }
}

TEST_F(CudaConvolution, RoundsToTf32WhereThatIsAllowed) {
  Tolerance tolerance = default_tolerance(DType::kF32);
  tolerance.relative_l2 = 1e-3;
  tolerance.max_ulps_of_peak = 1 << 14;
  for (const Layout layout : kLayouts) {
    const OpSpec spec = large_cases()[0].conv2d(DType::kF32, layout, {.bias = DType::kF32, .allows_tf32 = true});
    EXPECT_EQ(kernel_named("fastest.conv2d").compute_name(spec), "tf32");
    expect_chosen_agrees(spec, tolerance);
  }
}

TEST_F(CudaConvolution, TakesPixelsAsAGemmWhereChannelsAreLast) {
  const ConvolutionCase c{{2, 64, 6, 6}, {128, 64, 1, 1}};
  const auto by = [&](Layout layout, const ConvolutionEnd& end) {
    return implementation("fastest.conv2d", c.conv2d(DType::kBF16, layout, end));
  };
  EXPECT_THAT(by(Layout::kChannelsLast, {}), StartsWith("cuBLASLt algorithm"));
  EXPECT_THAT(by(Layout::kRowMajor, {}), Not(HasSubstr("cuBLASLt")));
  const ConvolutionEnd added{.bias = DType::kBF16, .has_residual = true};
  EXPECT_THAT(by(Layout::kChannelsLast, added), Not(HasSubstr("cuda"))) << "the residual is in the product";
  EXPECT_THAT(by(Layout::kChannelsLast, {.bias = DType::kF32}), HasSubstr("+ cuda"));
}

// Whatever the library takes today, the kernel after it must run all of it.
TEST_F(CudaConvolution, TheLastKernelAgreesOnAnyStrides) {
  for (const ConvolutionCase& c : convolution_cases())
    for (const DType dtype : cuda::kDTypes) {
      SCOPED_TRACE(c.text(dtype, Layout::kRowMajor));
      expect_matches_oracle("cuda.conv2d", c.conv2d(dtype, Layout::kRowMajor, {.bias = DType::kF32}));
      expect_matches_oracle("cuda.conv2d",
                            c.conv2d(dtype, Layout::kChannelsLast,
                                     {.bias = dtype, .has_residual = true, .activation = Activation::kGeluTanh}));
    }
  for (const ConvolutionCase& c : transposed_cases())
    for (const DType dtype : cuda::kDTypes) {
      SCOPED_TRACE(c.text(dtype, Layout::kRowMajor));
      expect_matches_oracle("cuda.conv_transpose2d", c.conv_transpose2d(dtype, Layout::kRowMajor, DType::kF32));
    }
}

TEST_F(CudaConvolution, TransposedOnesAgreeForEveryShapeLayoutAndDtype) {
  std::vector<ConvolutionCase> cases = transposed_cases();
  cases.push_back({{1, 64, 40, 40}, {64, 64, 4, 4}, Builder::evenly(2, 1)});
  for (const ConvolutionCase& c : cases)
    for (const DType dtype : cuda::kDTypes)
      for (const Layout layout : kLayouts)
        for (const std::optional<DType> bias :
             {std::optional<DType>(), std::optional(dtype), std::optional(DType::kF32)}) {
          SCOPED_TRACE(c.text(dtype, layout) + (bias ? " bias" : ""));
          expect_chosen_agrees(c.conv_transpose2d(dtype, layout, bias));
        }
}

// No library has an algorithm for row-major images of 16 bits.
TEST_F(CudaConvolution, ATransposedOneOnRowMajorImagesRunsChannelsLastBetweenCopies) {
  const ConvolutionCase c{{2, 96, 24, 20}, {96, 160, 4, 4}, Builder::evenly(2, 1)};
  for (const DType dtype : {DType::kF16, DType::kBF16})
    for (const bool is_weight : {false, true}) {
      const auto spec_of = [&](Layout layout) { return c.conv_transpose2d(dtype, layout, DType::kF32, is_weight); };
      const OpSpec spec = spec_of(Layout::kRowMajor);
      SCOPED_TRACE(c.text(dtype, Layout::kRowMajor) + (is_weight ? " weight" : ""));
      EXPECT_EQ(implementation("fastest.conv_transpose2d", spec),
                "channels last: " + implementation("fastest.conv_transpose2d", spec_of(Layout::kChannelsLast)));
      expect_matches_oracle("fastest.conv_transpose2d", spec);
    }
}

}  // namespace
}  // namespace headroom
