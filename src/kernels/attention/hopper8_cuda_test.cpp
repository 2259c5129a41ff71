#include <cmath>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/tensors/divide_up.hpp"
#include "base/tensors/random.hpp"
#include "kernels/attention/hopper8.hpp"
#include "kernels/core/library_kernel.hpp"
#include "testing/gpu_check.hpp"
#include "testing/test_tensor.hpp"

namespace headroom::attentions {
namespace {

struct ScaledCase {
  std::int64_t batch, heads, queries, keys, dim;
  std::int64_t kv_heads = heads;
  double scale = 0.3;
};

OpSpec scaled_spec(DType scores, DType made, const ScaledCase& c) {
  const std::int64_t padded = round_up(c.keys, kKeysOf8);
  return make_spec(Op::kScaledAttention,
                   {{scores, {c.batch, c.heads, c.queries, c.dim}},
                    {DType::kF32, {c.batch, c.heads, c.queries}},
                    {scores, {c.batch, c.kv_heads, c.keys, c.dim}},
                    {DType::kF32, {c.batch, c.kv_heads, c.keys}},
                    {DType::kF8E4M3, {c.batch, c.kv_heads, c.dim, padded}},
                    {DType::kF32, {c.batch, c.kv_heads, c.dim}}},
                   {{attr::kScale, c.scale}, {attr::kDType, made}});
}

ScaledAttentionProblem problem_of(const OpSpec& spec) {
  std::vector<Operand> inputs, outputs;
  for (const TensorType& type : spec.inputs) inputs.push_back(dense_operand(type));
  for (const TensorType& type : spec.outputs) outputs.push_back(dense_operand(type));
  return scaled_attention_problem(spec, inputs, outputs);
}

/// Probabilities are rounded to e4m3.
constexpr Tolerance kOfE4m3{.relative_l2 = 0.03, .max_ulps_of_peak = 64};

/// The kernel with one tile.
LibraryKernel kernel_of(const Hopper8Tile& tile) {
  return LibraryKernel({.name = "tile",
                        .op = Op::kScaledAttention,
                        .device = DeviceKind::kCuda,
                        .supports = why_not_hopper8,
                        .strided = kAllStrided,
                        .plan = [tile](const KernelBinding& b) {
                          return plan_hopper8(scaled_attention_problem(b.spec, b.inputs, b.outputs), tile);
                        }});
}

class Hopper8Attention : public cuda::KernelTest {
 protected:
  void SetUp() override {
    KernelTest::SetUp();
    if (!IsSkipped() && target().compute_capability != 90) GTEST_SKIP() << "the kernel is for Hopper";
  }

  void expect_agrees(const Hopper8Tile& tile, const OpSpec& spec, TestStrides strides = TestStrides::kDense) {
    Comparison result;
    try {
      result = compare(kernel_of(tile), spec, 1, kOfE4m3, strides);
    } catch (const Error& error) {  // with the case that it came from
      result.message = error.what();
    }
    EXPECT_TRUE(result.passed) << name_of(tile) << ", " << name_of(spec.inputs[0].dtype) << " "
                               << spec.inputs[0].shape.to_string() << " and " << spec.inputs[2].shape.to_string()
                               << ", strides " << static_cast<int>(strides) << ": " << result.message;
  }

  /// The first result of a kernel, prepared as if it were planned, on these operands.
  std::vector<double> run(const std::string& kernel, const OpSpec& spec, const std::vector<OracleTensor>& operands) {
    std::vector<std::unique_ptr<TestTensor>> inputs, outputs;
    std::vector<DevicePointer> from, to;
    const auto stream = backend().make_stream();
    const auto prepared = prepare_dense(kernel, spec, target());
    for (std::size_t i = 0; i < operands.size(); ++i) {
      inputs.push_back(
          std::make_unique<TestTensor>(backend(), dense_operand(spec.inputs[i]), TestTensor::Role::kInput));
      inputs.back()->store(operands[i]);
      inputs.back()->upload(*stream);
      from.push_back(inputs.back()->device());
    }
    for (const TensorType& type : spec.outputs) {
      outputs.push_back(std::make_unique<TestTensor>(backend(), dense_operand(type), TestTensor::Role::kOutput));
      outputs.back()->upload(*stream);
      to.push_back(outputs.back()->device());
    }
    const TestTensor scratch(backend(), std::max<std::size_t>(16, prepared->scratch_bytes()));
    prepared->launch({.stream = *stream, .inputs = from, .outputs = to, .scratch = scratch.device()});
    EXPECT_EQ(outputs[0]->download_and_check(*stream, true), "");
    std::vector<double> made;
    for (std::int64_t i = 0; i < spec.outputs[0].shape.numel(); ++i) made.push_back(outputs[0]->real(i));
    return made;
  }
};

TEST_F(Hopper8Attention, AgreesForEveryShape) {
  for (const ScaledCase& c :
       {ScaledCase{1, 1, 1, 1, 128}, ScaledCase{2, 3, 17, 17, 64}, ScaledCase{1, 2, 130, 65, 128},
        ScaledCase{1, 2, 272, 272, 64}, ScaledCase{2, 2, 200, 129, 128, 1}, ScaledCase{1, 4, 64, 700, 64, 2},
        ScaledCase{1, 1, 385, 600, 128}, ScaledCase{1, 2, 193, 256, 64}})
    for (const DType scores : {DType::kI8, DType::kF8E4M3})
      for (const DType made : {DType::kBF16, DType::kF16}) {
        const OpSpec spec = scaled_spec(scores, made, c);
        for (const Hopper8Tile& tile : hopper8_tiles(problem_of(spec))) expect_agrees(tile, spec);
      }
}

TEST_F(Hopper8Attention, AgreesWhereKeysAreSpreadOverBlocks) {
  for (const ScaledCase& c :
       {ScaledCase{1, 2, 385, 8500, 64}, ScaledCase{1, 2, 300, 9000, 128, 1}, ScaledCase{2, 24, 520, 300, 128}}) {
    const OpSpec spec = scaled_spec(c.heads == 2 ? DType::kI8 : DType::kF8E4M3, DType::kBF16, c);
    int spread = 0;
    for (const Hopper8Tile& tile : hopper8_tiles(problem_of(spec)))
      if (tile.spread > 0) {
        ++spread;
        expect_agrees(tile, spec);
      }
    EXPECT_GT(spread, 0) << c.queries << " x " << c.keys;
  }
}

TEST_F(Hopper8Attention, AgreesWhereTwoBlocksShareATile) {
  for (const ScaledCase& c : {ScaledCase{1, 2, 385, 1000, 64}, ScaledCase{1, 24, 700, 257, 128, 8},
                              ScaledCase{2, 24, 530, 300, 128}, ScaledCase{1, 23, 1530, 129, 64}}) {
    const OpSpec spec = scaled_spec(c.heads == 2 ? DType::kI8 : DType::kF8E4M3, DType::kF16, c);
    int shared = 0;
    for (const Hopper8Tile& tile : hopper8_tiles(problem_of(spec)))
      if (tile.split > 1) {
        ++shared;
        expect_agrees(tile, spec);
      }
    EXPECT_GT(shared, 0) << c.heads << " heads, " << c.queries << " x " << c.keys;
  }
}

TEST_F(Hopper8Attention, TakesStridedOperands) {
  const OpSpec spec = scaled_spec(DType::kI8, DType::kBF16, {2, 4, 100, 144, 128, 2});
  for (const Hopper8Tile& tile : hopper8_tiles(problem_of(spec)))
    for (const TestStrides strides : {TestStrides::kPadded, TestStrides::kPermuted}) expect_agrees(tile, spec, strides);
}

/// Others with another --gtest_random_seed.
TEST_F(Hopper8Attention, AgreesForRandomProblems) {
  std::mt19937 random(1 + static_cast<unsigned>(GTEST_FLAG_GET(random_seed)));
  const auto up_to = [&](std::int64_t most) { return std::uniform_int_distribution<std::int64_t>(1, most)(random); };
  for (int i = 0; i < 200; ++i) {
    const std::int64_t kv_heads = up_to(3);
    const ScaledCase c{.batch = up_to(2),
                       .heads = kv_heads * up_to(3),
                       .queries = up_to(i % 4 == 0 ? 700 : 150),
                       .keys = up_to(i % 3 == 0 ? 700 : 150),
                       .dim = i % 2 == 0 ? 128 : 64,
                       .kv_heads = kv_heads,
                       .scale = i % 5 == 0 ? 2.0 : 0.3};
    const OpSpec spec =
        scaled_spec(up_to(2) == 1 ? DType::kI8 : DType::kF8E4M3, up_to(2) == 1 ? DType::kBF16 : DType::kF16, c);
    const std::vector<Hopper8Tile> tiles = hopper8_tiles(problem_of(spec));
    ASSERT_FALSE(tiles.empty());
    expect_agrees(tiles[static_cast<std::size_t>(up_to(static_cast<std::int64_t>(tiles.size())) - 1)], spec,
                  i % 7 == 0 ? TestStrides::kPermuted : TestStrides::kDense);
  }
}

TEST_F(Hopper8Attention, QuantizesValuesAsTheOracleDoes) {
  for (const DType from : {DType::kBF16, DType::kF16})
    for (const Shape& shape : {Shape{1, 1, 1, 16}, Shape{2, 3, 130, 64}, Shape{1, 2, 1000, 128}, Shape{1, 1, 4608, 40},
                               Shape{1, 1, 8192, 32}, Shape{1, 1, 20000, 8}})
      expect_matches_oracle("cuda.quantize_values", make_spec(Op::kQuantizeValues, {{from, shape}}),
                            {.relative_l2 = 1e-7, .max_ulps_of_peak = 1e-6});
}

/// Elements of a tensor [1, 1, rows, columns] in bf16 that `value` gives.
OracleTensor filled(std::int64_t rows, std::int64_t columns,
                    const std::function<double(std::int64_t row, float normal)>& value, std::uint64_t seed) {
  OracleTensor tensor{.type = {DType::kBF16, {1, 1, rows, columns}}, .reals = {}, .integers = {}};
  std::vector<float> normals(static_cast<std::size_t>(rows * columns));
  fill_normal(normals, seed, 0);
  for (std::size_t i = 0; i < normals.size(); ++i) {
    const auto row = static_cast<std::int64_t>(i) / columns;
    tensor.reals.push_back(
        static_cast<double>(bf16_to_float(float_to_bf16(static_cast<float>(value(row, normals[i]))))));
  }
  return tensor;
}

class Hopper8Accuracy : public Hopper8Attention {
 protected:
  /// Attention of q, k and v in bf16, quantized by the oracle, and attended to by the kernel.
  std::vector<double> attend(const OracleTensor& q, const OracleTensor& k, const OracleTensor& v, DType scores,
                             double scale) {
    const auto quantized = [&](const OracleTensor& x, Op op, NamedAttributes attributes) {
      return interpret_node(op, Attributes(op, std::move(attributes)), {x});
    };
    std::vector<OracleTensor> operands;
    for (const OracleTensor* x : {&q, &k})
      for (OracleTensor& made : quantized(*x, Op::kQuantize, {{attr::kDType, scores}}))
        operands.push_back(std::move(made));
    for (OracleTensor& made : quantized(v, Op::kQuantizeValues, {})) operands.push_back(std::move(made));
    const Shape& shape = q.type.shape;
    const OpSpec spec = scaled_spec(scores, DType::kBF16, {1, 1, shape[2], k.type.shape[2], shape[3], 1, scale});
    return run("cuda.scaled_attention", spec, operands);
  }
};

/// The error of all that is rounded, from attention in double precision.
TEST_F(Hopper8Accuracy, IsWithinFourPercentOfNormalNumbers) {
  const auto normal = [](std::int64_t /*row*/, float number) { return static_cast<double>(number); };
  for (const std::int64_t dim : {64, 128})
    for (const DType scores : {DType::kI8, DType::kF8E4M3}) {
      const OracleTensor q = filled(200, dim, normal, 1), k = filled(3000, dim, normal, 2),
                         v = filled(3000, dim, normal, 3);
      const double scale = 1 / std::sqrt(static_cast<double>(dim));
      const std::vector<double> made = attend(q, k, v, scores, scale);
      const std::vector<OracleTensor> exact =
          interpret_node(Op::kAttention, Attributes(Op::kAttention, {{attr::kScale, scale}}), {q, k, v});
      double error = 0, norm = 0;
      for (std::size_t i = 0; i < made.size(); ++i) {
        error += (made[i] - exact[0].reals[i]) * (made[i] - exact[0].reals[i]);
        norm += exact[0].reals[i] * exact[0].reals[i];
      }
      const double relative = std::sqrt(error / norm);
      RecordProperty(fmt::format("relative_l2_{}_{}", name_of(scores), dim), std::to_string(relative));
      std::printf("relative L2, %s in heads of %d: %.4f\n", std::string(name_of(scores)).c_str(), static_cast<int>(dim),
                  relative);
      EXPECT_LE(relative, scores == DType::kI8 ? 0.045 : 0.06) << name_of(scores) << " in heads of " << dim;
    }
}

/// Values of 1 have to give 1, whatever the scores are: probabilities that are lost or saturate would show.
TEST_F(Hopper8Accuracy, GivesOnesForOnes) {
  constexpr std::int64_t kDim = 128, kQueries = 130;
  const auto ones = [](std::int64_t, float) { return 1.0; };
  double worst_of_all = 0;
  for (const std::int64_t keys : {4095, 4097, 16384, 32769})
    for (const double deviation : {0.25, 1.0, 8.0})
      for (const std::int64_t peak :
           {std::int64_t{-1}, std::int64_t{0}, keys / 2, keys - 1}) {  // a key far above others
        const OracleTensor q = filled(
            kQueries, kDim, [](std::int64_t, float normal) { return static_cast<double>(normal) + 0.25; }, 4);
        const OracleTensor k = filled(
            keys, kDim,
            [&](std::int64_t key, float normal) {
              return key == peak || (peak > 0 && key == peak - 1) ? 12.0 : static_cast<double>(normal) * deviation;
            },
            5);
        const std::vector<double> made = attend(q, k, filled(keys, kDim, ones, 6), DType::kI8, 0.088);
        double worst = 0;
        for (const double one : made) worst = std::isnan(one) ? one : std::max(worst, std::fabs(one - 1));
        EXPECT_LE(worst, 0.003) << keys << " keys, deviation " << deviation << ", peak at " << peak;
        worst_of_all = std::max(worst_of_all, worst);
      }
  std::printf("values of 1: off by at most %.4f\n", worst_of_all);
}

TEST_F(Hopper8Attention, SaysWhatItTakes) {
  const auto reason = [&](const OpSpec& spec, int capability) {
    Target gpu = target();
    gpu.compute_capability = capability;
    const Support rejection = kernel_named("cuda.scaled_attention").supports(spec, gpu);
    return rejection ? rejection->reason : "supported";
  };
  EXPECT_EQ(reason(scaled_spec(DType::kI8, DType::kBF16, {1, 1, 8, 8, 64}), 90), "supported");
  EXPECT_EQ(reason(scaled_spec(DType::kI8, DType::kBF16, {1, 1, 8, 8, 64}), 89),
            "is for GPUs of compute capability 9.0");
  EXPECT_EQ(reason(scaled_spec(DType::kI8, DType::kF32, {1, 1, 8, 8, 64}), 90), "makes bf16 or f16, not f32");
  EXPECT_EQ(reason(scaled_spec(DType::kI8, DType::kBF16, {1, 1, 8, 8, 80}), 90),
            "takes heads of 64 or 128, not 80 and 80");
}

}  // namespace
}  // namespace headroom::attentions
