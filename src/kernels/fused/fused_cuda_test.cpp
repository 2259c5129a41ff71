#include <algorithm>
#include <memory>
#include <utility>
#include <variant>

#include "ir/expand.hpp"
#include "ir/test_cases/fused_cases.hpp"
#include "kernels/core/cuda/tuner_of.hpp"
#include "kernels/fused/cuda_source.hpp"
#include "kernels/vendor/nvrtc/compile_to_cubin.hpp"
#include "kernels/vendor/nvrtc/compiler_threads.hpp"
#include "testing/gpu_check.hpp"
#include "testing/own_cache.hpp"

namespace headroom {
namespace {

using CudaFused = cuda::KernelTest;

class CudaFusedRows : public cuda::KernelTest, public testing::WithParamInterface<std::int64_t> {};

// Each body in another of the dtypes for each number of columns.
TEST_P(CudaFusedRows, MatchTheOracle) {
  const std::int64_t columns = GetParam();
  auto turn = static_cast<std::size_t>(columns);
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
// A pair, less than a pack, a part of a warp, several warps, a whole block, and more than registers hold.
INSTANTIATE_TEST_SUITE_P(Columns, CudaFusedRows, testing::Values(2, 7, 64, 1000, 3072, 40000));

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

/// The sum of an image enlarged by these factors (nearest neighbours) and one of that size, or the softmax of its rows.
OpSpec stretched_sum(cuda::Types types, Layout layout, std::int64_t down, std::int64_t across, bool has_rows) {
  const TensorType small{types.x, {2, 16, 3, 4}, layout}, large{types.side, {2, 16, 3 * down, 4 * across}, layout};
  Graph body("body");
  Builder b(body);
  const ValueId x = b.cast(body.add_input("x", small), DType::kF32),
                skip = b.cast(body.add_input("skip", large), DType::kF32);
  const ValueId sum = b.add(b.resize2d(x, {3 * down, 4 * across}), skip);
  body.add_output("y", b.cast(has_rows ? b.softmax(sum) : sum, types.x));
  return make_spec(Op::kFused, {small, large}, {{"body", canonical_text(body)}});
}

/// Two sets of `rows` rows, in bf16.
FusedCase softmax_of(std::int64_t rows, std::int64_t columns) {
  return FusedCases(DType::kBF16, DType::kBF16, rows, columns).named("softmax of masked scores");
}

/// A body large enough for several shapes is compiled for only one if nothing is to be timed.
TEST_F(CudaFused, IsCompiledInOneAlgorithmWhereNothingIsTimed) {
  const cuda::OwnCache cache;
  const auto compiled_for = [&](std::int64_t columns, NewWork new_work) {
    const auto compiler = backend().context<nvrtc::Compiler>();
    const std::size_t before = compiler->compiled();
    DeviceTarget target = this->target();
    target.new_work = new_work;
    static_cast<void>(prepare_dense("cuda.fused", softmax_of(400, columns).spec, target));
    return compiler->compiled() - before;
  };
  EXPECT_EQ(compiled_for(2048, NewWork::kTakeOver), 1U);
  EXPECT_GT(compiled_for(3072, NewWork::kMeasure), 1U);
}

/// The shape that was the fastest for another number of rows, which is not the best guess, is compiled in advance,
/// and no other.
TEST_F(CudaFused, TakesOverWhatIsFastestForOtherRows) {
  const cuda::OwnCache cache;
  const auto bound_of = [](const OpSpec& spec) { return densely_bound_program(spec, cuda::kCacheBytes); };
  const FusedCase few = softmax_of(771, 2048);
  const BoundProgram bound = bound_of(few.spec);
  const std::vector<cuda::RowShape> shapes = cuda::row_shapes(bound, target().multiprocessors);
  ASSERT_GT(shapes.size(), 1U);
  const auto has_short_name = [](const cuda::RowShape& shape) {
    return shape.staying == 0 && shape.rows_of_thread == 1 && shape.blocks == 0;
  };
  const auto shape = std::ranges::find_if(shapes.begin() + 1, shapes.end(), has_short_name);
  ASSERT_NE(shape, shapes.end());
  const auto compiler = backend().context<nvrtc::Compiler>();
  compiler->begin(cuda_source_of(bound, *shape).text)->wait();
  ASSERT_EQ(compiler->compiled(), 1U);
  backend().context<cuda::TunerOf<nvrtc::version_text>>()->keep(
      {.text = "of many rows", .operands = {}, .size_key = cuda::size_key_of(bound_of(softmax_of(1024, 2048).spec))},
      fmt::format("{} columns, {} threads, {} packs", shape->width, shape->threads, shape->packs), 1);
  static_cast<void>(take_over("cuda.fused", few.spec, tolerance_of(few, default_tolerance(few.spec.outputs[0].dtype))));
  EXPECT_EQ(compiler->compiled(), 1U);
}

TEST_F(CudaFused, ImagesAreStretchedOnTheAlgorithm) {
  std::size_t turn = 0;
  for (const auto& [down, across] :
       {std::pair(2, 2), std::pair(1, 4), std::pair(3, 1), std::pair(2, 3), std::pair(5, 16)})
    for (const int step : {0, 1}) {
      const cuda::Types types = cuda::kTypes[(turn++ + static_cast<std::size_t>(step)) % std::size(cuda::kTypes)];
      for (const Layout layout : {Layout::kRowMajor, Layout::kChannelsLast})
        expect_matches_oracle("cuda.fused", stretched_sum(types, layout, down, across, false));
      expect_matches_oracle("cuda.fused", stretched_sum(types, Layout::kRowMajor, down, across, true));
    }
}

TEST_F(CudaFused, AnElementIsGatheredForEachRow) {
  for (const DType ids : {DType::kI32, DType::kI64})
    for (const std::int64_t columns : {7, 3072, 40000})
      for (const DType dtype : {DType::kF32, DType::kBF16}) {
        const TensorType rows{dtype, {2, 9, columns}}, table{dtype, {130}}, places{ids, {9, 1}};
        Graph body("body");
        Builder b(body);
        const ValueId x = b.cast(body.add_input("x", rows), DType::kF32);
        const ValueId t = body.add_input("t", table), i = body.add_input("i", places);
        const ValueId label = b.cast(b.gather(t, i), DType::kF32);
        const ValueId largest = b.reshape(b.amax(x, {2}), {2, 9, 1});
        body.add_output("y", b.sub(b.log(b.reshape(b.sum(b.exp(b.sub(x, largest)), {2}), {2, 9, 1})), label));
        expect_matches_oracle("cuda.fused",
                              make_spec(Op::kFused, {rows, table, places}, {{"body", canonical_text(body)}}));
      }
}

TEST_F(CudaFused, LargeWorkIsMeasured) {
  for (const FusedCase& body : FusedCases(DType::kBF16, DType::kBF16, 70, 3072).list(true)) {
    SCOPED_TRACE(body.name);
    expect_matches_oracle("cuda.fused", body.spec, tolerance_of(body, default_tolerance(body.spec.outputs[0].dtype)));
  }
}

/// One candidate kernel of a body, by its number.
class OneAlgorithm : public Kernel {
 public:
  OneAlgorithm(Backend& backend, std::size_t number) : backend_(backend), number_(number) {}

  [[nodiscard]] std::string_view name() const override { return "test.fused"; }
  [[nodiscard]] Op op() const override { return Op::kFused; }
  [[nodiscard]] DeviceKind device() const override { return DeviceKind::kCuda; }
  [[nodiscard]] Support supports(const OpSpec&, const Target&) const override { return std::nullopt; }
  [[nodiscard]] StrideRule input_strides(const OpSpec& spec, int input) const override {
    return kernel_named("cuda.fused").input_strides(spec, input);
  }
  [[nodiscard]] StrideRule output_strides(const OpSpec& spec, int output) const override {
    return kernel_named("cuda.fused").output_strides(spec, output);
  }
  [[nodiscard]] bool may_overwrite(const OpSpec& spec, int input, int output) const override {
    return kernel_named("cuda.fused").may_overwrite(spec, input, output);
  }
  [[nodiscard]] DType compute_type(const OpSpec&) const override { return DType::kF32; }

  static std::vector<cuda::KernelSource> sources_of(const OpSpec& spec, std::span<const Operand> inputs,
                                                    std::span<const Operand> outputs) {
    const BoundProgram bound = bound_program(spec, inputs, outputs, cuda::kCacheBytes);
    std::vector<cuda::KernelSource> sources;
    for (const cuda::RowShape& shape : cuda::row_shapes(bound, 1))
      sources.push_back(cuda::cuda_source_of(bound, shape));
    return sources;
  }

  [[nodiscard]] std::unique_ptr<PreparedKernel> prepare(const OpSpec& spec, std::span<const Operand> inputs,
                                                        std::span<const Operand> outputs,
                                                        const DeviceTarget&) const override {
    std::vector<cuda::KernelSource> sources = sources_of(spec, inputs, outputs);
    cuda::KernelSource source = std::move(sources[std::min(number_, sources.size() - 1)]);
    const auto kernel = backend_.context<nvrtc::Compiler>()->begin(std::move(source.text));
    const RowProgram program = std::get<RowProgram>(row_program_of(body_of(spec.attributes)));
    return std::make_unique<PreparedKernel>(KernelPlan{[=](const LaunchArguments& arguments) {
      std::vector<void*> addresses, places;
      for (const RowAccess& load : program.loads)
        addresses.push_back(arguments.inputs[static_cast<std::size_t>(load.operand)].address<void>());
      for (std::size_t i = 0; i < program.results.size(); ++i) addresses.push_back(arguments.output(i));
      for (void*& address : addresses) places.push_back(&address);
      kernel->get().launch(arguments.stream.native_handle(), static_cast<unsigned>(source.blocks), source.threads, 1,
                           places);
    }});
  }

 private:
  Backend& backend_;
  std::size_t number_;
};

// Whichever is fastest, all must be right: also with rows that are no multiple of a block's.
TEST_F(CudaFused, EveryAlgorithmMatchesTheOracle) {
  std::size_t turn = 0;
  for (const auto& [rows, columns] : {std::pair(399, 72), std::pair(404, 1000)})
    for (std::size_t k = 0; k < FusedCases(DType::kBF16, DType::kBF16, rows, columns).list(true).size(); ++k) {
      const cuda::Types types = cuda::kTypes[turn++ % std::size(cuda::kTypes)];
      const std::vector<FusedCase> cases = FusedCases(types.x, types.side, rows, columns).list(true);
      if (k >= cases.size()) continue;
      std::vector<Operand> inputs, outputs;
      for (const TensorType& type : cases[k].spec.inputs) inputs.push_back(dense_operand(type));
      for (const TensorType& type : cases[k].spec.outputs) outputs.push_back(dense_operand(type));
      std::vector<cuda::KernelSource> sources = OneAlgorithm::sources_of(cases[k].spec, inputs, outputs);
      for (cuda::KernelSource& source : sources)  // several at once
        static_cast<void>(backend().context<nvrtc::Compiler>()->begin(std::move(source.text)));
      for (std::size_t algorithm = 0; algorithm < sources.size(); ++algorithm) {
        const Comparison result = compare(OneAlgorithm(backend(), algorithm), cases[k].spec, turn,
                                          tolerance_of(cases[k], default_tolerance(cases[k].spec.outputs[0].dtype)));
        EXPECT_TRUE(result.passed) << cases[k].name << ", " << columns << " columns, algorithm " << algorithm << ": "
                                   << result.message;
      }
    }
}

/// A weight with momentum: weight, gradient, mean, square and a rate -> the next weight, mean and square.
OpSpec update_spec(const Shape& shape) {
  Graph body("update");
  Builder b(body);
  const TensorType state{DType::kF32, shape}, gradient{DType::kBF16, shape}, rate{DType::kF32, {1}};
  const ValueId weight = body.add_input("weight", state), g = b.cast(body.add_input("g", gradient), DType::kF32);
  const ValueId mean = body.add_input("mean", state), square = body.add_input("square", state);
  const ValueId by = body.add_input("rate", rate);
  const ValueId next_mean = b.add(b.mul_scalar(mean, 0.9), b.mul_scalar(g, 0.1));
  const ValueId next_square = b.add(b.mul_scalar(square, 0.99), b.mul_scalar(b.mul(g, g), 0.01));
  body.add_output("weight", b.sub(weight, b.mul(next_mean, by)));
  body.add_output("mean", next_mean);
  body.add_output("square", next_square);
  return make_spec(Op::kFused, {state, gradient, state, state, rate}, {{attr::kBody, canonical_text(body)}});
}

/// compare() also runs it in place, each result alone and all together.
TEST_F(CudaFused, AnUpdateMayWriteAllItsResultsInPlace) {
  for (const Shape& shape : {Shape{37, 96}, Shape{1000}, Shape{50, 770}, Shape{3, 5, 7}, Shape{1 << 20}})
    expect_matches_oracle("cuda.fused", update_spec(shape), {.relative_l2 = 1e-6});
}

TEST(FusedInPlace, IsOverTheInputThatIsReadWhereTheResultIsWritten) {
  const OpSpec spec = update_spec({37, 96});
  const Kernel& kernel = kernel_named("cuda.fused");
  for (int output = 0; output < 3; ++output)
    for (int input = 0; input < 5; ++input)
      EXPECT_EQ(kernel.may_overwrite(spec, input, output), input == 0 || input == 2 || input == 3) << input << output;
}

TEST(FusedCost, CountsOfATableWhatIsGathered) {
  Graph body("body");
  Builder b(body);
  const TensorType x{DType::kF32, {4, 6}}, table{DType::kBF16, {1000}}, places{DType::kI32, {4, 1}};
  const ValueId rows = body.add_input("x", x), from = body.add_input("t", table), at = body.add_input("i", places);
  body.add_output("y", b.mul(b.softmax(rows), b.cast(b.gather(from, at), DType::kF32)));
  const OpSpec spec = make_spec(Op::kFused, {x, table, places}, {{"body", canonical_text(body)}});
  EXPECT_EQ(kernel_named("cuda.fused").cost(spec).bytes, 2 * 4 * 6 * 4 + 4 * 2 + 4 * 4);
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
