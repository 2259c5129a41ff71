#include "ir/infer.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "ir/test_util.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing_tools::integer;
using testing_tools::ints;
using testing_tools::kBF16;
using testing_tools::kF32;
using testing_tools::kI32;
using Given = NamedAttributes;

TensorType f32(Shape shape) { return {kF32, shape}; }
TensorType bf16(Shape shape) { return {kBF16, shape}; }
TensorType i32(Shape shape) { return {kI32, shape}; }

std::vector<TensorType> infer_all(Op op, const std::vector<TensorType>& inputs, Given attributes = {}) {
  return infer(op, Attributes(op, std::move(attributes)), inputs);
}

TensorType infer_one(Op op, const std::vector<TensorType>& inputs, Given attributes = {}) {
  const auto results = infer_all(op, inputs, std::move(attributes));
  HR_CHECK_EQ(results.size(), std::size_t{1});
  return results[0];
}

void expect_refused(Op op, const std::vector<TensorType>& inputs, Given attributes = {}, const std::string& part = "") {
  try {
    (void)infer_all(op, inputs, std::move(attributes));
    ADD_FAILURE() << name_of(op) << " accepted what it must refuse (" << part << ")";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr(part.empty() ? std::string(name_of(op)) : part));
  }
}

TEST(BroadcastShapes, FollowNumPy) {
  EXPECT_EQ(broadcast_shapes({2, 3}, {2, 3}), (Shape{2, 3}));
  EXPECT_EQ(broadcast_shapes({2, 1, 4}, {3, 1}), (Shape{2, 3, 4}));
  EXPECT_EQ(broadcast_shapes({}, {5}), (Shape{5}));
  EXPECT_EQ(broadcast_shapes({1, 1}, {7}), (Shape{1, 7}));
  EXPECT_THROW((void)broadcast_shapes({2, 3}, {2}), Error);
  EXPECT_THROW((void)broadcast_shapes({4, 3}, {2, 3}), Error);
}

TEST(Infer, UnpackedBlocks) {
  const std::string q4k = "Q4_K";
  const TensorType blocks{DType::kU8, {5, 3, 144}};
  EXPECT_EQ(infer_one(Op::kUnpackBlocks, {blocks}, {{"format", q4k}}), f32({5, 768}));
  EXPECT_EQ(infer_one(Op::kUnpackBlocks, {blocks}, {{"format", q4k}, {"dtype", DType::kBF16}}), bf16({5, 768}));
  const Given f8 = {{"format", q4k}, {"dtype", DType::kF8E4M3}};
  EXPECT_EQ(infer_one(Op::kUnpackBlocks, {blocks, f32({5})}, f8), (TensorType{DType::kF8E4M3, {5, 768}}));
  expect_refused(Op::kUnpackBlocks, {blocks}, f8, "expected f32, bf16 or f16 without a scale");
  expect_refused(Op::kUnpackBlocks, {blocks, f32({5})}, {{"format", q4k}}, "expected f8e4m3 with a scale");
  expect_refused(Op::kUnpackBlocks, {blocks, f32({4})}, f8, "scale[n] in f32");
  expect_refused(Op::kUnpackBlocks, {{DType::kU8, {5, 3, 143}}}, {{"format", q4k}}, "blocks[n, b, 144] of Q4_K in u8");
  expect_refused(Op::kUnpackBlocks, {blocks}, {{"format", std::string("Q4_k")}}, "did you mean 'Q4_K'");
  expect_refused(Op::kUnpackBlocks, {blocks}, {{"format", std::string("Q8_K")}}, "no block format that is read");
}

TEST(Infer, ComparisonsAndSelect) {
  const TensorType bools{DType::kBool, {2, 3}};
  EXPECT_EQ(infer_one(Op::kLess, {bf16({2, 1}), bf16({3})}), bools);
  EXPECT_EQ(infer_one(Op::kEqual, {bools, bools}), bools);
  expect_refused(Op::kEqual, {f32({2}), i32({2})}, {}, "one dtype");
  EXPECT_EQ(infer_one(Op::kSelect, {{DType::kBool, {2, 1}}, i32({3}), i32({})}), i32({2, 3}));
  expect_refused(Op::kSelect, {i32({2}), f32({2}), f32({2})}, {}, "bool condition");
  expect_refused(Op::kSelect, {bools, f32({2, 3}), bf16({2, 3})}, {}, "one dtype");
  expect_refused(Op::kSelect, {bools, f32({2, 3}), f32({4})}, {}, "do not broadcast");
}

TEST(Infer, RealsAndRanges) {
  EXPECT_EQ(infer_one(Op::kDiv, {bf16({2, 1}), bf16({3})}), bf16({2, 3}));
  EXPECT_EQ(infer_one(Op::kMod, {i32({2, 1}), i32({3})}), i32({2, 3}));
  expect_refused(Op::kDiv, {i32({2}), i32({2})}, {}, "floating-point");
  expect_refused(Op::kPow, {f32({2}), bf16({2})}, {}, "one floating-point dtype");
  EXPECT_EQ(infer_one(Op::kClamp, {f32({2})}, {{"low", -0.5}, {"high", 0.5}}), f32({2}));
  EXPECT_EQ(infer_one(Op::kClamp, {i32({2})}, {{"low", -5.0}, {"high", 5.0}}), i32({2}));
  expect_refused(Op::kClamp, {i32({2})}, {{"low", -0.5}, {"high", 5.0}}, "integral");
}

TEST(Infer, Elementwise) {
  EXPECT_EQ(infer_one(Op::kAdd, {bf16({2, 1, 4}), bf16({3, 1})}), bf16({2, 3, 4}));
  EXPECT_EQ(infer_one(Op::kMul, {i32({2}), i32({})}), i32({2}));
  expect_refused(Op::kAdd, {f32({2}), bf16({2})}, {}, "one dtype");
  expect_refused(Op::kSub, {TensorType{DType::kBool, {2}}, TensorType{DType::kBool, {2}}});
  EXPECT_EQ(infer_one(Op::kAddScalar, {i32({2})}, {{"value", 3.0}}), i32({2}));
  expect_refused(Op::kMulScalar, {i32({2})}, {{"value", 0.5}}, "integral");
  EXPECT_EQ(infer_one(Op::kGeluErf, {bf16({2, 2})}), bf16({2, 2}));
  for (const Op op : {Op::kRelu, Op::kSilu, Op::kGeluErf}) expect_refused(op, {i32({2})});
  EXPECT_EQ(infer_one(Op::kCast, {i32({2, 3})}, {{"dtype", DType::kF8E4M3}}), (TensorType{DType::kF8E4M3, {2, 3}}));
}

TEST(Infer, ArityIsChecked) {
  expect_refused(Op::kAdd, {f32({2})}, {}, "expected 2 to 2 operands, but was given 1");
  expect_refused(Op::kLinear, {f32({2}), f32({2, 2}), f32({2}), f32({2})}, {}, "2 to 3");
  expect_refused(Op::kConcat, {}, {{"axis", integer(0)}});
}

TEST(Infer, Linear) {
  EXPECT_EQ(infer_one(Op::kLinear, {bf16({2, 5, 3}), bf16({7, 3})}), bf16({2, 5, 7}));
  EXPECT_EQ(infer_one(Op::kLinear, {f32({3}), f32({7, 3}), f32({7})}), f32({7}));
  EXPECT_EQ(infer_one(Op::kLinear, {bf16({5, 3}), bf16({7, 3}), f32({7})}), bf16({5, 7}));
  for (const char* activation : {"gelu_tanh(sum)", "gelu_erf(sum)", "silu(sum)", "relu(sum)"}) {
    EXPECT_EQ(infer_one(Op::kLinear, {f32({5, 3}), f32({7, 3})}, {{"epilogue", std::string(activation)}}), f32({5, 7}));
  }
  expect_refused(Op::kLinear, {f32({5, 3}), f32({7, 3})}, {{"epilogue", std::string("elu(sum)")}}, "\"elu\"");
  const NamedAttributes gated = {{"epilogue", std::string("add(e0, mul(e1, sum))")}};
  EXPECT_EQ(infer_one(Op::kLinear, {bf16({5, 3}), bf16({7, 3}), bf16({5, 7}), bf16({7})}, gated), bf16({5, 7}));
  EXPECT_EQ(infer_one(Op::kLinear, {bf16({5, 3}), bf16({7, 3}), f32({7}), bf16({5, 7}), bf16({7})}, gated),
            bf16({5, 7}));
  expect_refused(Op::kLinear, {bf16({5, 3}), bf16({7, 3}), bf16({5, 7})}, gated, "expected 4 to 5 operands");
  expect_refused(Op::kLinear, {bf16({5, 3}), bf16({7, 3}), bf16({5, 7}), f32({7})}, gated, "operands of the epilogue");
  expect_refused(Op::kLinear, {bf16({5, 3}), bf16({7, 3}), bf16({5, 1}), bf16({7})}, gated, "operands of the epilogue");
  expect_refused(Op::kLinear, {f32({5, 3}), f32({3, 7})});
  expect_refused(Op::kLinear, {f32({5, 3}), f32({7, 3}), f32({3})}, {}, "bias[n]");
  expect_refused(Op::kLinear, {bf16({5, 3}), f32({7, 3})}, {}, "one floating-point dtype");
  expect_refused(Op::kLinear, {f32({5, 3}), f32({7, 3}), bf16({7})}, {}, "bias in the dtype of x or f32");
  expect_refused(Op::kLinear, {i32({5, 3}), i32({7, 3})});
  expect_refused(Op::kLinear, {f32({}), f32({7, 3})});
}

TEST(Infer, QuantizedMatmuls) {
  const auto i8 = [](Shape shape) { return TensorType{DType::kI8, shape}; };
  const auto f8 = [](Shape shape) { return TensorType{DType::kF8E4M3, shape}; };
  EXPECT_EQ(infer_all(Op::kQuantize, {bf16({2, 5, 3})}), (std::vector{i8({2, 5, 3}), f32({2, 5})}));
  EXPECT_EQ(infer_all(Op::kQuantize, {f32({3})}, {{"dtype", DType::kF8E4M3}}), (std::vector{f8({3}), f32({})}));
  expect_refused(Op::kQuantize, {f32({3})}, {{"dtype", DType::kI32}}, "i8 or f8e4m3");
  expect_refused(Op::kQuantize, {i32({3})});
  expect_refused(Op::kQuantize, {f32({})});

  const std::vector<TensorType> good = {i8({2, 5, 3}), f32({2, 5}), i8({7, 3}), f32({7}), f32({7})};
  const auto with = [&](std::size_t index, TensorType type) {
    std::vector<TensorType> changed = good;
    changed[index] = type;
    return changed;
  };
  EXPECT_EQ(infer_one(Op::kScaledLinear, good), f32({2, 5, 7}));
  EXPECT_EQ(infer_one(Op::kScaledLinear, with(4, bf16({7})), {{"dtype", kBF16}}), bf16({2, 5, 7}));
  EXPECT_EQ(infer_one(Op::kScaledLinear, {f8({3}), f32({}), f8({7, 3}), f32({7})}), f32({7}));
  expect_refused(Op::kScaledLinear, good, {{"dtype", DType::kI8}}, "floating-point");
  expect_refused(Op::kScaledLinear, good, {{"epilogue", std::string("elu(sum)")}}, "\"elu\"");
  const NamedAttributes adds = {{attr::kEpilogue, Epilogue().then(Op::kAdd)}, {attr::kDType, kBF16}};
  const std::vector<TensorType> bare(good.begin(), good.begin() + 4);
  const auto ended = [](std::vector<TensorType> operands, TensorType last) {
    operands.push_back(last);
    return operands;
  };
  EXPECT_EQ(infer_one(Op::kScaledLinear, ended(good, bf16({2, 5, 7})), adds), bf16({2, 5, 7}));
  EXPECT_EQ(infer_one(Op::kScaledLinear, ended(bare, bf16({7})), adds), bf16({2, 5, 7})) << "no bias";
  expect_refused(Op::kScaledLinear, good, {{attr::kEpilogue, Epilogue().then(Op::kAdd).then(Op::kAdd)}}, "6 to 7");
  for (const TensorType& other : {f32({2, 5, 7}), bf16({1}), bf16({1, 7}), bf16({2, 5, 1}), bf16({2, 1, 7})})
    expect_refused(Op::kScaledLinear, ended(good, other), adds, "operands of the epilogue");
  expect_refused(Op::kScaledLinear, with(0, f8({2, 5, 3})), {},
                 "both in i8, or xq in f8e4m3 and wq in f8e4m3 or f8e5m2");
  expect_refused(Op::kScaledLinear, with(0, i8({2, 5, 4})));
  expect_refused(Op::kScaledLinear, with(1, f32({2, 5, 1})), {}, "scales in f32");
  expect_refused(Op::kScaledLinear, with(3, bf16({7})), {}, "scales in f32");
  expect_refused(Op::kScaledLinear, with(4, bf16({7})), {}, "bias[n]");
}

TEST(Infer, GradientsOfAttention) {
  const TensorType q = bf16({2, 6, 5, 8}), k = bf16({2, 3, 7, 8}), v = bf16({2, 3, 7, 4}), made = bf16({2, 6, 5, 4});
  const TensorType rows = f32({2, 6, 5});
  EXPECT_EQ(infer_all(Op::kAttentionBackward, {q, k, v, made, rows, rows}), (std::vector<TensorType>{q, k, v}));
  expect_refused(Op::kAttentionBackward, {q, k, v, q, rows, rows}, {}, "d_out");
  expect_refused(Op::kAttentionBackward, {q, k, v, made, rows, f32({2, 6, 7})}, {}, "delta");
}

TEST(Infer, CrossEntropy) {
  const TensorType ids{DType::kI32, {5}};
  EXPECT_EQ(infer_all(Op::kCrossEntropy, {bf16({5, 9}), ids}), (std::vector<TensorType>{f32({5}), f32({5})}));
  expect_refused(Op::kCrossEntropy, {f32({4, 9}), ids}, {}, "ids[rows]");
  expect_refused(Op::kCrossEntropy, {f32({5, 9}), f32({5})}, {}, "ids[rows]");
}

TEST(Infer, Matmul) {
  EXPECT_EQ(infer_one(Op::kMatmul, {f32({2, 4, 5, 3}), f32({2, 4, 3, 7})}), f32({2, 4, 5, 7}));
  EXPECT_EQ(infer_one(Op::kMatmul, {f32({5, 3}), f32({7, 3})}, {{"transpose_b", integer(1)}}), f32({5, 7}));
  EXPECT_EQ(infer_one(Op::kMatmul, {f32({2, 3, 5}), f32({2, 3, 7})}, {{"transpose_a", integer(1)}}), f32({2, 5, 7}));
  EXPECT_EQ(
      infer_one(Op::kMatmul, {f32({3, 5}), f32({7, 3})}, {{"transpose_a", integer(1)}, {"transpose_b", integer(1)}}),
      f32({5, 7}));
  expect_refused(Op::kMatmul, {f32({5, 3}), f32({3, 7})}, {{"transpose_a", integer(1)}}, "k, m");
  expect_refused(Op::kMatmul, {f32({5, 3}), f32({7, 3})});
  const Given adds = {{attr::kEpilogue, Epilogue().then(Op::kAdd)}};
  for (const TensorType& operand : {f32({2, 5, 7}), f32({7})})
    EXPECT_EQ(infer_one(Op::kMatmul, {f32({2, 5, 3}), f32({2, 3, 7}), operand}, adds), f32({2, 5, 7}));
  for (const TensorType& operand : {f32({1, 5, 7}), f32({5, 7}), f32({1}), f32({5}), bf16({2, 5, 7})})
    expect_refused(Op::kMatmul, {f32({2, 5, 3}), f32({2, 3, 7}), operand}, adds, "operands of the epilogue");
  expect_refused(Op::kMatmul, {f32({2, 5, 3}), f32({1, 3, 7})}, {}, "batch");
  expect_refused(Op::kMatmul, {f32({2, 5, 3}), f32({3, 7})});
  expect_refused(Op::kMatmul, {f32({5, 3}), bf16({3, 7})});
  expect_refused(Op::kMatmul, {f32({3}), f32({3})});
  expect_refused(Op::kMatmul, {f32({5, 3}), f32({3, 7})}, {{"transpose_b", integer(2)}}, "0 or 1");
}

TEST(Infer, Norms) {
  EXPECT_EQ(infer_one(Op::kSoftmax, {bf16({2, 5})}), bf16({2, 5}));
  EXPECT_EQ(infer_one(Op::kLayerNorm, {bf16({2, 5})}, {{"eps", 1e-6}}), bf16({2, 5}));
  EXPECT_EQ(infer_one(Op::kRmsNorm, {bf16({2, 5}), f32({5})}, {{"eps", 1e-6}}), bf16({2, 5}));
  EXPECT_EQ(infer_one(Op::kCumsum, {bf16({2, 5})}), bf16({2, 5}));
  expect_refused(Op::kCumsum, {f32({})});
  expect_refused(Op::kCumsum, {i32({4})});
  expect_refused(Op::kSoftmax, {f32({})});
  expect_refused(Op::kSoftmax, {i32({4})});
  expect_refused(Op::kRmsNorm, {f32({2, 5}), f32({2})}, {{"eps", 1e-6}});
  expect_refused(Op::kRmsNorm, {f32({2, 5}), bf16({5})}, {{"eps", 1e-6}}, "that of x or f32");
  EXPECT_EQ(infer_one(Op::kRmsNorm, {bf16({2, 5})}, {{"eps", 1e-6}}), bf16({2, 5}));
  EXPECT_EQ(infer_one(Op::kLayerNorm, {bf16({2, 5}), f32({5})}, {{"eps", 1e-6}}), bf16({2, 5}));
  EXPECT_EQ(infer_one(Op::kLayerNorm, {bf16({2, 5}), bf16({5}), bf16({5})}, {{"eps", 1e-6}}), bf16({2, 5}));
  expect_refused(Op::kLayerNorm, {bf16({2, 5}), bf16({5}), f32({5})}, {{"eps", 1e-6}}, "of one dtype");
  expect_refused(Op::kLayerNorm, {f32({2, 5}), f32({5}), f32({2})}, {{"eps", 1e-6}}, "bias[d]");
}

TEST(Infer, GroupNorm) {
  const auto with = [](std::int64_t groups, std::int64_t channels = 0, std::string epilogue = "sum") {
    return NamedAttributes{
        {"groups", groups}, {"eps", 1e-6}, {"channels", channels}, {"epilogue", std::move(epilogue)}};
  };
  const TensorType image{kF32, {2, 6, 4, 4}, Layout::kChannelsLast};
  EXPECT_EQ(infer_one(Op::kGroupNorm, {image}, with(3)), image);
  EXPECT_EQ(infer_one(Op::kGroupNorm, {bf16({2, 6}), f32({6}), f32({6})}, with(2, 4, "silu(sum)")), bf16({2, 6}));
  expect_refused(Op::kGroupNorm, {f32({6})}, with(3), "x[b, c, ...]");
  expect_refused(Op::kGroupNorm, {i32({2, 6})}, with(3), "floating-point");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4}), f32({4})}, with(3), "weight[c]");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4}), bf16({6})}, with(3), "of x or f32");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4})}, with(4), "must divide the 6 channels");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4})}, with(0), "must divide");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4})}, with(3, 5), "must divide the 5 channels");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4})}, with(3, 9), "channels must be in 1..6");
  expect_refused(Op::kGroupNorm, {f32({2, 6, 4})}, with(3, 0, "elu"), "\"elu\"");
}

TEST(Infer, PositionsAndTime) {
  const auto tables = infer_all(Op::kRopeTable, {i32({9, 3})}, {{"axes", ints({4, 6, 6})}});
  ASSERT_EQ(tables.size(), 2U);
  EXPECT_EQ(tables[0], f32({9, 8}));
  EXPECT_EQ(tables[1], f32({9, 8}));
  expect_refused(Op::kRopeTable, {f32({9, 2})}, {{"axes", ints({4, 6, 6})}});
  expect_refused(Op::kRopeTable, {f32({9, 1})}, {{"axes", ints({3})}}, "even");
  expect_refused(Op::kRopeTable, {f32({9, 1})}, {{"axes", ints({4})}, {"theta", 0.0}}, "theta");

  EXPECT_EQ(infer_one(Op::kRope, {bf16({2, 4, 9, 16}), f32({9, 8}), f32({9, 8})}), bf16({2, 4, 9, 16}));
  expect_refused(Op::kRope, {f32({4, 9, 16}), f32({9, 16}), f32({9, 16})});
  expect_refused(Op::kRope, {bf16({4, 9, 16}), bf16({9, 8}), bf16({9, 8})}, {}, "f32 cos");
  expect_refused(Op::kRope, {f32({4, 9, 15}), f32({9, 7}), f32({9, 7})});

  EXPECT_EQ(infer_one(Op::kTimestepEmbedding, {bf16({3})}, {{"dim", integer(8)}}), f32({3, 8}));
  EXPECT_EQ(infer_one(Op::kTimestepEmbedding, {i32({3})}, {{"dim", integer(8)}}), f32({3, 8}));
  expect_refused(Op::kTimestepEmbedding, {f32({3})}, {{"dim", integer(7)}}, "even");
  expect_refused(Op::kTimestepEmbedding, {f32({3, 1})}, {{"dim", integer(8)}});
}

TEST(Infer, Movement) {
  EXPECT_EQ(infer_one(Op::kReshape, {bf16({4, 6})}, {{"shape", ints({2, 12})}}), bf16({2, 12}));
  expect_refused(Op::kReshape, {f32({4, 6})}, {{"shape", ints({-1, 6})}}, "positive");
  expect_refused(Op::kReshape, {f32({4, 6})}, {{"shape", ints({5, 5})}}, "24 elements");
  EXPECT_EQ(infer_one(Op::kReshape, {f32({1, 1})}, {{"shape", ints({})}}), f32({}));

  EXPECT_EQ(infer_one(Op::kTranspose, {i32({2, 3, 4})}, {{"perm", ints({2, 0, 1})}}), i32({4, 2, 3}));
  expect_refused(Op::kTranspose, {f32({2, 3})}, {{"perm", ints({0, 0})}});
  expect_refused(Op::kTranspose, {f32({2, 3})}, {{"perm", ints({0})}});
  expect_refused(Op::kTranspose, {f32({2, 3})}, {{"perm", ints({0, -1})}});

  EXPECT_EQ(infer_one(Op::kConcat, {f32({2, 3}), f32({2, 1}), f32({2, 5})}, {{"axis", integer(1)}}), f32({2, 9}));
  expect_refused(Op::kConcat, {f32({2, 3}), f32({3, 3})}, {{"axis", integer(1)}}, "axis 1");
  expect_refused(Op::kConcat, {f32({2, 3}), bf16({2, 3})}, {{"axis", integer(1)}});
  expect_refused(Op::kConcat, {f32({2, 3}), f32({3})}, {{"axis", integer(0)}});
  expect_refused(Op::kConcat, {f32({2, 3})}, {{"axis", integer(2)}}, "0..1");

  const auto range = [](std::int64_t axis, std::int64_t start, std::int64_t size) {
    return Given{{"axis", axis}, {"start", start}, {"size", size}};
  };
  EXPECT_EQ(infer_one(Op::kSlice, {f32({2, 5})}, range(1, 3, 2)), f32({2, 2}));
  expect_refused(Op::kSlice, {f32({2, 5})}, range(1, 3, 3));
  expect_refused(Op::kSlice, {f32({2, 5})}, range(1, 5, 1));
  expect_refused(Op::kSlice, {f32({2, 5})}, range(1, -1, 2));
  expect_refused(Op::kSlice, {f32({2, 5})}, range(1, 0, 0));
  expect_refused(Op::kSlice, {f32({2, 5})}, range(-1, 0, 1), "axis");

  EXPECT_EQ(infer_one(Op::kRow, {bf16({7, 2, 3}), i32({})}), bf16({2, 3}));
  EXPECT_EQ(infer_one(Op::kRow, {f32({7}), i32({})}), f32({}));
  expect_refused(Op::kRow, {f32({7}), f32({})});
  expect_refused(Op::kRow, {f32({7}), i32({1})});
  expect_refused(Op::kRow, {f32({}), i32({})});
}

TEST(Infer, Convolutions) {
  const std::vector<TensorType> plain = {f32({2, 3, 8, 9}), f32({5, 3, 3, 3}), f32({5})};
  const Given evenly = {{"stride", ints({2, 2})}, {"padding", ints({1, 1, 1, 1})}};
  EXPECT_EQ(infer_one(Op::kConv2d, plain, evenly), f32({2, 5, 4, 5}));
  const auto adding = [&](std::vector<TensorType> operands, const TensorType& last, Given given) {
    operands.push_back(last);
    given.emplace_back(attr::kEpilogue, Epilogue(Activation::kNone).then(Op::kAdd).then(Op::kSilu));
    return std::pair(operands, given);
  };
  for (const bool has_bias : {false, true}) {
    const auto [operands, given] =
        adding({plain.begin(), plain.begin() + (has_bias ? 3 : 2)}, f32({2, 5, 4, 5}), evenly);
    EXPECT_EQ(infer_one(Op::kConv2d, operands, given), f32({2, 5, 4, 5}));
  }
  for (const TensorType& other : {f32({2, 5, 6, 8}), f32({5}), f32({1}), f32({5, 1, 1}), bf16({2, 5, 4, 5})}) {
    const auto [operands, given] = adding(plain, other, evenly);
    expect_refused(Op::kConv2d, operands, given, "operands of the epilogue");
  }
  EXPECT_EQ(infer_one(Op::kConv2d, {plain[0], plain[1]}, {{"padding", ints({0, 1, 3, 2})}}), f32({2, 5, 9, 10}));
  EXPECT_EQ(infer_one(Op::kConv2d, {plain[0], plain[1]}, {{"dilation", ints({2, 4})}}), f32({2, 5, 4, 1}));
  EXPECT_EQ(infer_one(Op::kConv2d, {bf16({2, 6, 8, 8}), bf16({4, 3, 1, 1}), f32({4})}, {{"groups", integer(2)}}),
            bf16({2, 4, 8, 8}));
  expect_refused(Op::kConv2d, {f32({2, 6, 8, 8}), f32({5, 3, 1, 1})}, {{"groups", integer(2)}}, "groups dividing");
  expect_refused(Op::kConv2d, {f32({2, 3, 8, 8}), f32({5, 4, 3, 3}), f32({5})});
  expect_refused(Op::kConv2d, {f32({2, 3, 8, 8}), f32({5, 3, 3, 3}), f32({3})}, {}, "each channel");
  expect_refused(Op::kConv2d, {f32({2, 3, 2, 2}), f32({5, 3, 3, 3})}, {}, "no larger");
  expect_refused(Op::kConv2d, plain, {{"stride", ints({0, 1})}}, "positive stride");
  expect_refused(Op::kConv2d, plain, {{"padding", ints({1, 1})}}, "4 integers");
  const TensorType upscaled = f32({2, 4, 16, 18});
  const Given twice = {
      {"stride", ints({2, 2})}, {"padding", ints({1, 1, 1, 1})}, {attr::kEpilogue, Epilogue().then(Op::kAdd)}};
  EXPECT_EQ(infer_one(Op::kConvTranspose2d, {plain[0], f32({3, 4, 4, 4}), upscaled}, twice), upscaled);
  expect_refused(Op::kConvTranspose2d, {plain[0], f32({3, 4, 4, 4}), f32({4})}, twice, "operands of the epilogue");
  expect_refused(Op::kConv2d, plain, {{"epilogue", std::string("sine(sum)")}}, "\"sine\"");
  expect_refused(Op::kConv2d, {plain[0], bf16({5, 3, 3, 3}), plain[2]});
  expect_refused(Op::kConv2d, {plain[0], plain[1], plain[2], f32({2, 5, 4, 5})}, evenly, "2 to 3");

  const std::vector<TensorType> shortcut = {plain[0], plain[1], f32({5}), f32({2, 7, 4, 5}), f32({5, 7, 1, 1})};
  const auto with = [&](std::size_t operand, const TensorType& type) {
    std::vector<TensorType> given = shortcut;
    given[operand] = type;
    return given;
  };
  EXPECT_EQ(infer_one(Op::kConv2dShortcut, shortcut, evenly), f32({2, 5, 4, 5}));
  expect_refused(Op::kConv2dShortcut, with(3, f32({2, 7, 8, 9})), evenly, "other[b, d, oh, ow]");
  expect_refused(Op::kConv2dShortcut, with(3, f32({2, 6, 4, 5})), evenly, "other[b, d, oh, ow]");
  expect_refused(Op::kConv2dShortcut, with(3, bf16({2, 7, 4, 5})), evenly, "other[b, d, oh, ow]");
  expect_refused(Op::kConv2dShortcut, with(4, f32({5, 7, 3, 3})), evenly, "shortcut[o, d, 1, 1]");
  expect_refused(Op::kConv2dShortcut, with(4, f32({4, 7, 1, 1})), evenly, "shortcut[o, d, 1, 1]");
  expect_refused(Op::kConv2dShortcut, with(2, f32({4})), evenly, "each channel");

  const std::vector<TensorType> back = {bf16({2, 6, 4, 5}), bf16({6, 2, 3, 2}), f32({4})};
  const Given doubled = {{"stride", ints({2, 3})}, {"padding", ints({1, 0, 2, 1})}, {"groups", integer(2)}};
  EXPECT_EQ(infer_one(Op::kConvTranspose2d, back, doubled), bf16({2, 4, 6, 13}));
  Given longer = doubled;
  longer.emplace_back("output_padding", ints({1, 2}));
  EXPECT_EQ(infer_one(Op::kConvTranspose2d, back, longer), bf16({2, 4, 7, 15}));
  expect_refused(Op::kConvTranspose2d, {back[0], back[1]}, {{"output_padding", ints({1, 0})}}, "less than the stride");
  expect_refused(Op::kConvTranspose2d, {back[0], bf16({4, 2, 3, 2})}, doubled, "groups dividing c");
  expect_refused(Op::kConvTranspose2d, {back[0], back[1], f32({2})}, doubled, "each channel");
  expect_refused(Op::kConvTranspose2d, back, {{"groups", integer(2)}, {"padding", ints({3, 0, 3, 0})}}, "leaves some");
}

TEST(Infer, Images) {
  EXPECT_EQ(infer_one(Op::kMaxPool2d, {f32({2, 3, 9, 8})}, {{"window", integer(2)}}), f32({2, 3, 4, 4}));
  expect_refused(Op::kMaxPool2d, {f32({2, 3, 9, 8})}, {{"window", integer(9)}}, "1..8");
}

TEST(Infer, Reductions) {
  for (const Op op : {Op::kSum, Op::kMean, Op::kAmax, Op::kAmin}) {
    EXPECT_EQ(infer_one(op, {f32({2, 3, 9, 8})}, {{"axes", ints({2, 3})}}), f32({2, 3}));
    EXPECT_EQ(infer_one(op, {bf16({2, 3, 9})}, {{"axes", ints({0, 2})}}), bf16({3}));
    EXPECT_EQ(infer_one(op, {f32({2, 3})}, {{"axes", ints({0, 1})}}), f32({}));
    expect_refused(op, {i32({2, 3})}, {{"axes", ints({0})}}, "floating-point");
    for (const auto& axes : {ints({}), ints({1, 0}), ints({1, 1}), ints({-1}), ints({2})})
      expect_refused(op, {f32({2, 3})}, {{"axes", axes}}, "one or more of 0..1");
  }
}

TEST(Infer, TheLargest) {
  EXPECT_EQ(infer_one(Op::kArgmax, {bf16({2, 3, 4})}, {{"axis", integer(1)}}), i32({2, 4}));
  expect_refused(Op::kArgmax, {f32({2, 3})}, {{"axis", integer(2)}}, "0..1");
  expect_refused(Op::kArgmax, {i32({2, 3})}, {{"axis", integer(0)}}, "floating-point");
  const auto both = infer_all(Op::kTopk, {bf16({2, 5})}, {{"k", integer(3)}});
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0], bf16({2, 3}));
  EXPECT_EQ(both[1], i32({2, 3}));
  expect_refused(Op::kTopk, {f32({2, 5})}, {{"k", integer(6)}}, "1..5");
  expect_refused(Op::kTopk, {f32({2, 5})}, {{"k", integer(0)}}, "1..5");
  expect_refused(Op::kTopk, {f32({})}, {{"k", integer(1)}}, "x[..., d]");
}

TEST(Infer, FusedOps) {
  const Given eps = {{"eps", 1e-6}};
  EXPECT_EQ(infer_one(Op::kNormModulate, {bf16({2, 5, 8}), bf16({2, 1, 8}), bf16({2, 1, 8})}, eps), bf16({2, 5, 8}));
  EXPECT_EQ(infer_one(Op::kNormModulate, {bf16({2, 5, 8}), f32({2, 1, 8}), f32({2, 1, 8})}, eps), bf16({2, 5, 8}));
  expect_refused(Op::kNormModulate, {bf16({2, 5, 8}), bf16({2, 1, 8}), f32({2, 1, 8})}, eps);
  expect_refused(Op::kNormModulate, {f32({2, 5, 8}), f32({2, 5, 8}), f32({2, 5, 8})}, eps);
  expect_refused(Op::kNormModulate, {f32({2, 5, 8}), f32({1, 1, 8}), f32({1, 1, 8})}, eps);
  expect_refused(Op::kNormModulate, {f32({5, 8}), f32({1, 8}), f32({1, 8})}, eps);

  EXPECT_EQ(infer_one(Op::kGateResidual, {bf16({2, 5, 8}), f32({2, 1, 8}), bf16({2, 5, 8})}), bf16({2, 5, 8}));
  expect_refused(Op::kGateResidual, {bf16({2, 5, 8}), bf16({2, 1, 8}), f32({2, 5, 8})});
  expect_refused(Op::kGateResidual, {f32({2, 5, 8}), f32({2, 1, 8}), f32({2, 4, 8})});
  expect_refused(Op::kGateResidual, {f32({2, 5, 8}), bf16({2, 1, 8}), f32({2, 5, 8})});

  EXPECT_EQ(infer_one(Op::kAttention, {bf16({2, 3, 5, 8}), bf16({2, 3, 7, 8}), bf16({2, 3, 7, 4})}),
            bf16({2, 3, 5, 4}));
  expect_refused(Op::kAttention, {f32({2, 3, 5, 8}), f32({2, 3, 7, 9}), f32({2, 3, 7, 4})});
  expect_refused(Op::kAttention, {f32({2, 3, 5, 8}), f32({2, 3, 7, 8}), f32({2, 3, 6, 4})});
  expect_refused(Op::kAttention, {f32({2, 3, 5, 8}), f32({1, 3, 7, 8}), f32({1, 3, 7, 4})});
  expect_refused(Op::kAttention, {f32({3, 5, 8}), f32({3, 7, 8}), f32({3, 7, 4})});
  expect_refused(Op::kAttention, {bf16({2, 3, 5, 8}), bf16({2, 3, 7, 8}), f32({2, 3, 7, 4})});

  const Given heads = {{"heads", integer(2)}, {"eps", 1e-6}};
  EXPECT_EQ(infer_one(Op::kQkNormRope, {bf16({3, 5, 16}), f32({8}), f32({5, 4}), f32({5, 4})}, heads),
            bf16({3, 2, 5, 8}));
  expect_refused(Op::kQkNormRope, {f32({3, 5, 16}), f32({16}), f32({5, 4}), f32({5, 4})}, heads);
  expect_refused(Op::kQkNormRope, {f32({3, 5, 15}), f32({8}), f32({5, 4}), f32({5, 4})}, heads);
  expect_refused(Op::kQkNormRope, {bf16({3, 5, 16}), bf16({8}), bf16({5, 4}), bf16({5, 4})}, heads);
}

TEST(Infer, OpsOfImagesKeepTheLayoutOthersDropIt) {
  const TensorType image{kF32, {1, 2, 4, 4}, Layout::kChannelsLast};
  EXPECT_EQ(infer_one(Op::kSilu, {image}).layout, Layout::kChannelsLast);
  EXPECT_EQ(infer_one(Op::kAdd, {image, f32({1})}).layout, Layout::kChannelsLast);
  EXPECT_EQ(infer_one(Op::kAdd, {f32({1}), image}).layout, Layout::kChannelsLast);
  EXPECT_EQ(infer_one(Op::kConv2d, {image, f32({3, 2, 1, 1}), f32({3})}).layout, Layout::kChannelsLast);
  EXPECT_EQ(infer_one(Op::kConvTranspose2d, {image, f32({2, 3, 1, 1})}).layout, Layout::kChannelsLast);
  expect_refused(Op::kConv2d, {image, f32({2, 2, 1, 1}), f32({2}), f32({1, 2, 4, 4})},
                 {{attr::kEpilogue, Epilogue().then(Op::kAdd)}}, "layout");
  EXPECT_EQ(infer_one(Op::kConcat, {image, image}, {{"axis", integer(1)}}).layout, Layout::kChannelsLast);
  EXPECT_EQ(infer_one(Op::kReshape, {image}, {{"shape", ints({32})}}).layout, Layout::kRowMajor);
}

TEST(Infer, AMismatchNamesTheOpAndAllOperands) {
  expect_refused(Op::kLinear, {f32({5, 3}), f32({7, 4})}, {},
                 "linear: expected x[..., k] and weight[n, k], but was given f32[5, 3], f32[7, 4]");
}

TEST(InferFused, HoldsTheBodyToItsRules) {
  const auto body = [](const std::string& lines) { return NamedAttributes{{"body", "graph g {\n" + lines + "\n}\n"}}; };
  const std::string relu = "input %x: f32[2]\n%1: f32[2] = relu(%x)\noutput y = %1";
  EXPECT_EQ(infer_one(Op::kFused, {f32({2})}, body(relu)), f32({2}));
  expect_refused(Op::kFused, {f32({3})}, body(relu), "f32[2] as operand 0");
  expect_refused(Op::kFused, {f32({2}), f32({2})}, body(relu), "1 operands");
  expect_refused(Op::kFused, {f32({2})}, body("input %x: f32[2]"), "must be inputs, nodes and outputs");
  expect_refused(Op::kFused, {f32({2})}, body("param %w: f32[2]\n" + relu), "without params");
  expect_refused(Op::kFused, {f32({2})}, body("input %x: f32[2]\nloop 2 %i {\n}\noutput y = %x"), "regions");
  expect_refused(Op::kFused, {f32({2})}, body("input %x: f32[2]\n%1: f32[3] = relu(%x)"), "relu makes f32[2]");
}

}  // namespace
}  // namespace headroom
