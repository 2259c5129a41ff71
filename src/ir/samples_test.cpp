#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "ir/op_definition.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing_tools::ramp;
using testing_tools::reals;

constexpr std::int64_t kSamples = 3;

struct Case {
  const char* name;
  Op op;
  NamedAttributes attributes;
  std::vector<Shape> inputs;
  std::vector<bool> by_sample;  // as expected; empty if samples mix
};

Attribute ints(std::vector<std::int64_t> values) { return values; }
Attribute integer(std::int64_t value) { return value; }

std::vector<Case> cases() {
  return {
      {"add_one_shape", Op::kAdd, {}, {{3, 2, 4}, {3, 2, 4}}, {true, true}},
      {"mul_by_a_row", Op::kMul, {}, {{3, 2, 4}, {2, 4}}, {true, false}},
      {"sub_shared_sample", Op::kSub, {}, {{1, 2, 4}, {3, 1, 4}}, {false, true}},
      {"add_looks_aligned", Op::kAdd, {}, {{3, 3}, {3}}, {true, false}},
      {"mod_by_a_row", Op::kMod, {}, {{3, 2, 4}, {2, 4}}, {true, false}},
      {"clamp", Op::kClamp, {{"low", -1.0}, {"high", 1.0}}, {{3, 5}}, {true}},
      {"silu", Op::kSilu, {}, {{3, 5}}, {true}},
      {"relu", Op::kRelu, {}, {{3, 5}}, {true}},
      {"add_scalar", Op::kAddScalar, {{"value", 3.0}}, {{3, 5}}, {true}},
      {"cast", Op::kCast, {{"dtype", DType::kBF16}}, {{3, 5}}, {true}},
      {"gelu_vector", Op::kGeluTanh, {}, {{3}}, {true}},
      {"mul_scalar", Op::kMulScalar, {{"value", 3.0}}, {{3, 5}}, {true}},
      {"linear", Op::kLinear, {}, {{3, 2, 4}, {3, 4}, {3}}, {true, false, false}},
      {"linear_with_epilogue",
       Op::kLinear,
       {{attr::kEpilogue, Epilogue::parse("add(e0, mul(e1, sum))")}},
       {{3, 2, 4}, {5, 4}, {3, 2, 5}, {5}},
       {true, false, true, false}},
      {"linear_of_a_vector", Op::kLinear, {}, {{4}, {3, 4}}, {}},
      {"matmul", Op::kMatmul, {}, {{3, 2, 4}, {3, 4, 3}}, {true, true}},
      {"matmul_with_epilogue",
       Op::kMatmul,
       {{attr::kEpilogue, Epilogue::parse("add(e0, mul(e1, sum))")}},
       {{3, 2, 4}, {3, 4, 3}, {3, 2, 3}, {3}},  // [3] are columns, not samples
       {true, true, true, false}},
      {"matmul_of_matrices", Op::kMatmul, {}, {{3, 4}, {4, 3}}, {}},
      {"softmax", Op::kSoftmax, {}, {{3, 4}}, {true}},
      {"softmax_over_samples", Op::kSoftmax, {}, {{3}}, {}},
      {"layer_norm", Op::kLayerNorm, {{"eps", 1e-6}}, {{3, 4}}, {true}},
      {"rms_norm", Op::kRmsNorm, {{"eps", 1e-6}}, {{3, 3}, {3}}, {true, false}},
      {"layer_norm_with_bias", Op::kLayerNorm, {{"eps", 1e-6}}, {{3, 3}, {3}, {3}}, {true, false, false}},
      {"group_norm",
       Op::kGroupNorm,
       {{"groups", integer(1)}, {"eps", 1e-6}},
       {{3, 3, 2}, {3}, {3}},
       {true, false, false}},
      {"cumsum", Op::kCumsum, {}, {{3, 4}}, {true}},
      {"cumsum_over_samples", Op::kCumsum, {}, {{3}}, {}},
      {"rope", Op::kRope, {}, {{3, 2, 3, 4}, {3, 2}, {3, 2}}, {true, false, false}},
      {"rope_of_positions", Op::kRope, {}, {{3, 4}, {3, 2}, {3, 2}}, {}},
      {"timestep_embedding", Op::kTimestepEmbedding, {{"dim", integer(4)}}, {{3}}, {true}},
      {"transpose_inside", Op::kTranspose, {{"perm", ints({0, 2, 1})}}, {{3, 2, 4}}, {true}},
      {"transpose_samples", Op::kTranspose, {{"perm", ints({1, 0, 2})}}, {{3, 3, 4}}, {}},
      {"concat_inside", Op::kConcat, {{"axis", integer(1)}}, {{3, 2}, {3, 4}}, {true, true}},
      {"concat_samples", Op::kConcat, {{"axis", integer(0)}}, {{1, 2}, {2, 2}}, {}},
      {"slice_inside",
       Op::kSlice,
       {{"axis", integer(1)}, {"start", integer(1)}, {"size", integer(2)}},
       {{3, 4}},
       {true}},
      {"slice_samples", Op::kSlice, {{"axis", integer(0)}, {"start", integer(1)}, {"size", integer(3)}}, {{5, 4}}, {}},
      {"reshape", Op::kReshape, {{"shape", ints({3, 8})}}, {{3, 2, 4}}, {}},
      {"conv2d",
       Op::kConv2d,
       {{"padding", ints({1, 1, 1, 1})}, {attr::kEpilogue, Epilogue::parse("add(sum, e0)")}},
       {{3, 2, 4, 4}, {3, 2, 3, 3}, {3}, {3, 3, 4, 4}},
       {true, false, false, true}},
      {"conv2d_shortcut",
       Op::kConv2dShortcut,
       {{"padding", ints({1, 1, 1, 1})}},
       {{3, 2, 4, 4}, {3, 2, 3, 3}, {3}, {3, 5, 4, 4}, {3, 5, 1, 1}},
       {true, false, false, true, false}},
      {"conv_transpose2d",
       Op::kConvTranspose2d,
       {{attr::kEpilogue, Epilogue::parse("add(sum, e0)")}},
       {{3, 2, 4, 4}, {2, 3, 3, 3}, {3}, {3, 3, 6, 6}},
       {true, false, false, true}},
      {"max_pool2d", Op::kMaxPool2d, {{"window", integer(2)}}, {{3, 2, 4, 4}}, {true}},
      {"mean_inside", Op::kMean, {{"axes", ints({1})}}, {{3, 2, 4}}, {true}},
      {"amax_inside", Op::kAmax, {{"axes", ints({1, 2})}}, {{3, 2, 4}}, {true}},
      {"mean_of_samples", Op::kMean, {{"axes", ints({0})}}, {{3, 3}}, {}},
      {"argmax_inside", Op::kArgmax, {{"axis", integer(1)}}, {{3, 4}}, {true}},
      {"argmax_of_samples", Op::kArgmax, {{"axis", integer(0)}}, {{3, 3}}, {}},
      {"topk", Op::kTopk, {{"k", integer(2)}}, {{3, 4}}, {true}},
      {"attention", Op::kAttention, {}, {{3, 2, 4, 2}, {3, 2, 5, 2}, {3, 2, 5, 2}}, {true, true, true}},
      {"attention_backward",
       Op::kAttentionBackward,
       {},
       {{3, 2, 4, 2}, {3, 2, 5, 2}, {3, 2, 5, 2}, {3, 2, 4, 2}, {3, 2, 4}, {3, 2, 4}},
       {true, true, true, true, true, true}},
      {"merge_attention_inside", Op::kMergeAttention, {{"axis", integer(1)}}, {{3, 4, 2, 5}, {3, 4, 2}}, {true, true}},
      {"merge_attention_of_samples", Op::kMergeAttention, {}, {{3, 3, 2, 5}, {3, 3, 2}}, {}},
      {"norm_modulate", Op::kNormModulate, {{"eps", 1e-6}}, {{3, 2, 4}, {3, 1, 4}, {3, 1, 4}}, {true, true, true}},
      {"rope_table", Op::kRopeTable, {{"axes", ints({4})}}, {{3, 1}}, {}},
      {"gate_residual", Op::kGateResidual, {}, {{3, 2, 4}, {3, 1, 4}, {3, 2, 4}}, {true, true, true}},
      {"qk_norm_rope",
       Op::kQkNormRope,
       {{"heads", integer(2)}, {"eps", 1e-6}},
       {{3, 3, 8}, {4}, {3, 2}, {3, 2}},
       {true, false, false, false}},
  };
}

class SamplesTest : public testing::TestWithParam<Case> {
 protected:
  Graph graph() const {
    Graph graph;
    std::vector<ValueId> inputs;
    for (const Shape& shape : GetParam().inputs)
      inputs.push_back(graph.add_input("x" + std::to_string(inputs.size()), {DType::kF32, shape}));
    graph.append(GetParam().op, inputs, Attributes(GetParam().op, GetParam().attributes), "", kTopRegion);
    return graph;
  }
};

TEST_P(SamplesTest, SaysWhichOperandsEachSampleReadsOneOf) {
  const Graph made = graph();
  const auto by_sample = operands_by_sample(made, made.nodes()[0], kSamples);
  ASSERT_EQ(by_sample.has_value(), !GetParam().by_sample.empty());
  if (by_sample) {
    EXPECT_EQ(*by_sample, GetParam().by_sample);
  }
  EXPECT_FALSE(operands_by_sample(made, made.nodes()[0], kSamples + 1).has_value());
}

TEST_P(SamplesTest, ASampleIsMadeOfThoseAlone) {
  if (GetParam().by_sample.empty()) GTEST_SKIP() << "its samples depend on each other";
  std::vector<OracleTensor> inputs;
  for (std::size_t k = 0; k < GetParam().inputs.size(); ++k)
    inputs.push_back(
        reals(GetParam().inputs[k], ramp(GetParam().inputs[k].numel(), 0.1 + 0.01 * static_cast<double>(k))));
  const Attributes attributes(GetParam().op, GetParam().attributes);
  const std::vector<OracleTensor> whole = interpret_node(GetParam().op, attributes, inputs);
  for (std::int64_t sample = 0; sample < kSamples; ++sample) {
    std::vector<OracleTensor> of_sample = inputs;
    for (std::size_t k = 0; k < inputs.size(); ++k) {
      if (!GetParam().by_sample[k]) continue;
      const std::int64_t count = inputs[k].type.shape.numel() / kSamples;
      of_sample[k].type.shape.set(0, 1);
      of_sample[k].reals.assign(inputs[k].reals.begin() + sample * count,
                                inputs[k].reals.begin() + (sample + 1) * count);
    }
    const std::vector<OracleTensor> part = interpret_node(GetParam().op, attributes, of_sample);
    for (std::size_t r = 0; r < whole.size(); ++r) {
      const std::size_t count = part[r].reals.size();
      ASSERT_EQ(count * kSamples, whole[r].reals.size());
      for (std::size_t i = 0; i < count; ++i)
        EXPECT_EQ(part[r].reals[i], whole[r].reals[static_cast<std::size_t>(sample) * count + i]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, SamplesTest, testing::ValuesIn(cases()),
                         [](const auto& parameter) { return std::string(parameter.param.name); });

TEST(Samples, ARowOfATableIsNoSample) {
  Graph graph;
  const ValueId table = graph.add_input("table", {DType::kF32, {3, 3, 4}});
  const ValueId index = graph.add_input("index", {DType::kI32, Shape{}});
  EXPECT_FALSE(operands_by_sample(
      graph, graph.make_node(Op::kRow, {table, index}, Attributes(Op::kRow, {}), "", kTopRegion), 3));
}

TEST(Samples, OfQuantizedMatmulsTokensAndTheirScalesAreCut) {
  Graph graph;
  const ValueId x = graph.add_input("x", {DType::kF32, {3, 2, 4}});
  const ValueId w = graph.add_input("w", {DType::kI8, {3, 4}});
  const ValueId scale = graph.add_input("scale", {DType::kF32, {3}});
  Node quantize = graph.make_node(Op::kQuantize, {x}, Attributes(Op::kQuantize, {}), "", kTopRegion);
  const Node matmul = graph.make_node(Op::kScaledLinear, {quantize.results[0], quantize.results[1], w, scale},
                                      Attributes(Op::kScaledLinear, {}), "", kTopRegion);
  EXPECT_EQ(operands_by_sample(graph, quantize, 3), std::vector{true});
  EXPECT_EQ(operands_by_sample(graph, matmul, 3), (std::vector{true, true, false, false}));
  const ValueId residual = graph.add_input("residual", {DType::kF32, {3, 2, 3}});
  const Node ended = graph.make_node(
      Op::kScaledLinear, {quantize.results[0], quantize.results[1], w, scale, residual, scale},
      Attributes(Op::kScaledLinear, {{"epilogue", std::string("add(e0, mul(e1, sum))")}}), "", kTopRegion);
  EXPECT_EQ(operands_by_sample(graph, ended, 3), (std::vector{true, true, false, false, true, false}));
}

}  // namespace
}  // namespace headroom
