#include "ir/op_definition.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "ir/expand.hpp"

namespace headroom {
namespace {

std::string names_of_all(bool (*holds)(Op op)) {
  std::string names;
  for (const OpSchema& schema : all_ops())
    if (holds(schema.op)) names += (names.empty() ? "" : " ") + std::string(schema.name);
  return names;
}

TEST(OpDefinitions, SayWhatEachOpIs) {
  for (const OpSchema& schema : all_ops()) {
    const OpDefinition& definition = definition_of(schema.op);
    EXPECT_EQ(definition.op, schema.op);
    EXPECT_NE(definition.infer, nullptr) << schema.name;
    EXPECT_EQ(definition.evaluate == nullptr, schema.fused) << schema.name;
    const bool may_be_fused = schema.fused || schema.has(attr::kEpilogue);
    EXPECT_EQ(definition.expand != nullptr, may_be_fused) << schema.name;
  }
}

TEST(OpDefinitions, SortOpsByTheirKind) {
  std::string rows;
#define HR_TERNARY(...)
#define HR_ANY(enumerator, name, ...) rows += #name " ";
#include "ir/elementwise.def"
  EXPECT_EQ(names_of_all(is_elementwise), rows + "select cast");
  EXPECT_EQ(names_of_all(is_view), "reshape transpose slice");
  EXPECT_EQ(names_of_all(is_contraction),
            "linear matmul scaled_linear conv2d conv2d_shortcut conv_transpose2d attention scaled_attention "
            "attention_backward");
  EXPECT_EQ(names_of_all(is_matmul), "linear scaled_linear");
}

double flops(Op op, NamedAttributes given, const std::vector<TensorType>& in) {
  const Attributes attributes(op, std::move(given));
  return definition_of(op).flops.count(attributes, in, definition_of(op).infer({op, attributes, in}));
}

TEST(OpDefinitions, CountArithmetic) {
  const TensorType x{DType::kF32, {2, 3, 4}};
  const TensorType vector{DType::kF32, {2, 1, 4}};
  const TensorType weight{DType::kF32, {5, 4}};
  EXPECT_EQ(flops(Op::kAdd, {}, {x, vector}), 24);
  EXPECT_EQ(flops(Op::kReshape, {{"shape", std::vector<std::int64_t>{24}}}, {x}), 0);
  EXPECT_EQ(flops(Op::kLinear, {}, {x, weight}), 2 * 3 * 5 * (2 * 4));
  EXPECT_EQ(flops(Op::kLinear, {{attr::kEpilogue, Epilogue(Activation::kSilu)}}, {x, weight, {DType::kF32, {5}}}),
            2 * 3 * 5 * (2 * 4 + 1 + 4));
  const TensorType xq{DType::kI8, {2, 3, 4}}, wq{DType::kI8, {5, 4}}, scales{DType::kF32, {5}};
  EXPECT_EQ(flops(Op::kScaledLinear, {{attr::kEpilogue, Epilogue().then(Op::kAdd)}},
                  {xq, {DType::kF32, {2, 3}}, wq, scales, scales, {DType::kF32, {2, 3, 5}}}),
            2 * 3 * 5 * (2 * 4 + 2 + 1 + 1));
  const TensorType image{DType::kF32, {1, 2, 4, 4}}, filter{DType::kF32, {3, 2, 1, 1}}, made{DType::kF32, {1, 3, 4, 4}};
  EXPECT_EQ(flops(Op::kConv2d, {{attr::kEpilogue, Epilogue().then(Op::kAdd).then(Op::kSilu)}}, {image, filter, made}),
            3 * 16 * (2 * 2 + 1 + 4));
  EXPECT_EQ(flops(Op::kConv2dShortcut, {}, {image, filter, {DType::kF32, {3}}, image, filter}),
            3 * 16 * (2 * 2 + 1 + 1 + 2 * 2));
  EXPECT_EQ(flops(Op::kQuantize, {}, {x}), 24 * 3);
  EXPECT_EQ(flops(Op::kNormModulate, {{"eps", 1e-6}}, {x, vector, vector}), 24 * 8);
}

TEST(OpDefinitions, SayWhatTakesExponentials) {
  EXPECT_EQ(names_of_all([](Op op) { return definition_of(op).exponentials == 1; }),
            "silu gelu_tanh quick_gelu gelu_erf exp tanh sigmoid softmax");
  EXPECT_EQ(names_of_all([](Op op) { return definition_of(op).exponentials > 1; }), "");
}

}  // namespace
}  // namespace headroom
