#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "ir/test_cases/convolution_cases.hpp"
#include "kernels/vendor/cudnn/convolution.hpp"
#include "kernels/vendor/cudnn/convolution_trial.hpp"
#include "testing/gpu_check.hpp"

namespace headroom::cudnn {
namespace {

using convolutions::Algorithm;
using convolutions::Operands;
using convolutions::Problem;

class CudnnConvolution : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (IsSkipped()) return;
    if (const std::optional<std::string> reason = why_not_installed()) GTEST_SKIP() << *reason;
  }
};

/// Plain, with the epilogue fused or in a kernel of Headroom, and in f32, where many engines are not faithful.
TEST_F(CudnnConvolution, FindsEachOfItsAlgorithmsByName) {
  const ConvolutionCase c{{1, 64, 32, 32}, {96, 64, 3, 3}, Builder::evenly(1, 1)};
  for (const OpSpec& spec : {c.conv2d(DType::kF16, Layout::kChannelsLast, {}),
                             c.conv2d(DType::kF16, Layout::kChannelsLast,
                                      {.bias = DType::kF16, .has_residual = true, .activation = Activation::kSilu}),
                             c.conv2d(DType::kF32, Layout::kRowMajor, {.bias = DType::kF32})}) {
    const Problem problem = convolutions::problem_of(spec);
    const std::vector<Algorithm> algorithms = make_algorithms(problem, backend(), /*is_large=*/true);
    ASSERT_FALSE(algorithms.empty());
    for (const Algorithm& algorithm : algorithms) {
      const std::optional<Algorithm> found = find_algorithm(problem, backend(), algorithm.name);
      ASSERT_TRUE(found) << algorithm.name;
      EXPECT_EQ(found->name, algorithm.name);
      EXPECT_EQ(found->workspace_bytes, algorithm.workspace_bytes) << algorithm.name;
    }
  }
}

/// One allocation for the operands of all trials, and one each time that an engine needs more workspace.
TEST_F(CudnnConvolution, TrialsShareTheirMemory) {
  const ConvolutionCase c{{1, 64, 32, 32}, {96, 64, 3, 3}, Builder::evenly(1, 1)};
  const Problem problem = convolutions::problem_of(c.conv2d(DType::kF16, Layout::kChannelsLast, {}));
  ConvolutionTrial trial(problem, backend());
  const std::uint64_t before = backend().memory_use().allocations;
  void* const large = trial.workspace(1 << 20);
  EXPECT_EQ(trial.workspace(1), large);
  EXPECT_EQ(trial.workspace(1 << 20), large);
  EXPECT_EQ(backend().memory_use().allocations, before + 1);
  const std::size_t used = backend().memory_use().total;
  ASSERT_GT(make_algorithms(problem, backend(), /*is_large=*/true).size(), 0U);
  EXPECT_EQ(backend().memory_use().total, used);
}

TEST_F(CudnnConvolution, FindsNothingByOtherNames) {
  const ConvolutionCase c{{1, 64, 32, 32}, {96, 64, 3, 3}, Builder::evenly(1, 1)};
  const Problem problem = convolutions::problem_of(c.conv2d(DType::kF16, Layout::kChannelsLast, {}));
  const std::string name = make_algorithms(problem, backend(), /*is_large=*/false).front().name;
  const std::string version = name.substr(0, name.find(" engine"));
  for (const std::string& other :
       {std::string("narrow 32 pixels"), version, version + " engine", version + " engine 1 (2=3",
        version + " engine 100000 ()", "cuDNN 1.2.3" + name.substr(version.size()), name + " and more"})
    EXPECT_FALSE(find_algorithm(problem, backend(), other)) << other;
}

std::vector<Algorithm> algorithms_of(const Problem& problem, Backend& backend, bool is_large) {
  try {
    return make_algorithms(problem, backend, is_large);
  } catch (const Error&) {  // none of the library's: cuda.conv2d runs it
    return {};
  }
}

/// Among them a grouped convolution and one of a single channel, for which cuDNN 9.19 proposes engines that cannot be
/// recorded and that make 0 of -infinity.
TEST_F(CudnnConvolution, AllAlgorithmsKeepSpecialValuesInRecordings) {
  const ConvolutionCase grouped{{2, 6, 6, 6}, {2, 3, 1, 1}, {.stride = {2, 2}, .groups = 2}},
      single{{2, 1, 28, 28}, {8, 1, 3, 3}, Builder::evenly(1, 1)},
      many{{1, 64, 32, 32}, {96, 64, 3, 3}, Builder::evenly(1, 1)};
  std::vector<OpSpec> specs = {
      many.conv2d(DType::kF16, Layout::kChannelsLast, {.bias = DType::kF16, .has_residual = true}),
      many.conv2d(DType::kBF16, Layout::kChannelsLast, {.bias = DType::kBF16, .activation = Activation::kSilu})};
  for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
    specs.push_back(grouped.conv2d(DType::kF32, layout, {}));
    specs.push_back(grouped.conv2d(DType::kF32, layout, {.bias = DType::kF32}));
    specs.push_back(single.conv2d(DType::kF16, layout, {.bias = DType::kF16}));
    specs.push_back(single.conv2d(DType::kF16, layout, {.bias = DType::kF32}));
  }
  int tried = 0;
  for (const OpSpec& spec : specs)
    for (const bool is_large : {false, true}) {
      const Problem problem = convolutions::problem_of(spec);
      for (const Algorithm& algorithm : algorithms_of(problem, backend(), is_large)) {
        SCOPED_TRACE(to_text(problem) + " by " + algorithm.name);
        ConvolutionTrial trial(problem, backend());
        const auto record = [&](void* native, const Operands& operands, void* workspace) {
          const std::unique_ptr<Stream> stream = backend().adopt_stream(native);
          const std::unique_ptr<Recording> recording =
              backend().record(*stream, [&] { algorithm.run(native, operands, workspace); });
          recording->replay(*stream);
          stream->synchronize();
        };
        ++tried;
        EXPECT_TRUE(trial.keeps_special_values(record, algorithm.workspace_bytes));
      }
    }
  EXPECT_GT(tried, 0);
}

class CudnnTrial : public CudnnConvolution {
 protected:
  /// Whether the kernel for `made`, one of Headroom's own, passes the trial of a convolution.
  bool passes(std::string_view kernel, const OpSpec& spec, const OpSpec& made) {
    const std::shared_ptr<const PreparedKernel> prepared = prepare_dense(kernel, made, target());
    const Problem problem = convolutions::problem_of(spec);
    ConvolutionTrial trial(problem, backend());
    const auto launch = [&](void* native, const Operands& operands, void* workspace) {
      const std::unique_ptr<Stream> stream = backend().adopt_stream(native);
      const auto at = [](const void* address) { return DevicePointer{.buffer = const_cast<void*>(address)}; };
      const std::array<DevicePointer, 3> inputs{at(operands.x), at(operands.weight), at(operands.bias)};
      const std::array<DevicePointer, 1> outputs{at(operands.y)};
      prepared->launch({.stream = *stream,
                        .inputs = std::span(inputs).first(spec.inputs.size()),
                        .outputs = outputs,
                        .scratch = at(workspace)});
    };
    return trial.keeps_special_values(launch, prepared->scratch_bytes());
  }
};

/// Its rule for results that read padding alone holds for every shape.
TEST_F(CudnnTrial, AcceptsPlainSumsOfEveryShape) {
  for (const DType dtype : cuda::kDTypes)
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      for (const ConvolutionCase& c : convolution_cases())
        for (const Activation activation : {Activation::kNone, Activation::kRelu, Activation::kSilu}) {
          SCOPED_TRACE(fmt::format("{} {}", c.text(dtype, layout), name_of(activation)));
          const OpSpec spec = c.conv2d(dtype, layout, {.bias = DType::kF32, .activation = activation});
          EXPECT_TRUE(passes("cuda.conv2d", spec, spec));
        }
      for (const ConvolutionCase& c : transposed_cases()) {
        SCOPED_TRACE(c.text(dtype, layout));
        const OpSpec spec = c.conv_transpose2d(dtype, layout, dtype);
        EXPECT_TRUE(passes("cuda.conv_transpose2d", spec, spec));
      }
    }
}

TEST_F(CudnnTrial, RefusesZerosInPlaceOfInfinities) {
  const ConvolutionCase c{{2, 1, 28, 28}, {8, 1, 3, 3}, Builder::evenly(1, 1)};
  for (const DType dtype : cuda::kDTypes)
    for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast}) {
      const OpSpec spec = c.conv2d(dtype, layout, {.bias = dtype});
      EXPECT_FALSE(
          passes("cuda.conv2d", spec, c.conv2d(dtype, layout, {.bias = dtype, .activation = Activation::kRelu})));
    }
}

}  // namespace
}  // namespace headroom::cudnn
