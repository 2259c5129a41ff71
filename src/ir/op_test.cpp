#include "ir/op.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "base/error.hpp"
#include "ir/builder.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;
using testing::ThrowsMessage;

template <typename Call>
void expect_error(Call call, const std::string& part) {
  EXPECT_THAT(call, Throws<Error>(Property(&Error::what, HasSubstr(part))));
}

TEST(OpTable, RowsStandInEnumOrderWithUniqueNames) {
  std::set<std::string_view> names;
  for (const OpSchema& schema : all_ops()) {
    EXPECT_EQ(&schema_of(schema.op), &schema);
    EXPECT_EQ(parse_op(schema.name), schema.op);
    EXPECT_EQ(name_of(schema.op), schema.name);
    EXPECT_LE(schema.operands.least(), schema.operands.most()) << schema.name;
    EXPECT_GE(schema.results, 1) << schema.name;
    names.insert(schema.name);
  }
  EXPECT_EQ(names.size(), all_ops().size());
  EXPECT_FALSE(parse_op("no_such_op"));
}

TEST(OpTable, DefaultsAreOfTheirKind) {
  for (const OpSchema& schema : all_ops())
    for (const AttributeSchema& attribute : schema.attributes) {
      const std::size_t kind = static_cast<std::size_t>(attribute.kind);
      EXPECT_EQ(attribute.fallback ? attribute.fallback->index() : kind, kind) << schema.name << " " << attribute.name;
    }
  EXPECT_EQ(Attributes(Op::kLinear, {})[attr::kEpilogue], Epilogue());
  EXPECT_EQ(Attributes(Op::kConv2d, {})[attr::kStride], (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(Attributes(Op::kConv2d, {})[attr::kGroups], 1);
  const Attributes embedding(Op::kTimestepEmbedding, {{"dim", std::int64_t{8}}});
  EXPECT_EQ(embedding[attr::kMaxPeriod], 10000.0);
  EXPECT_EQ(embedding[attr::kScale], 1.0);
}

TEST(AttributesTest, KeepSchemaOrderWhateverTheOrderGiven) {
  const Attributes a(Op::kSlice, {{"size", std::int64_t{3}}, {"axis", std::int64_t{1}}, {"start", std::int64_t{2}}});
  const Attributes b(Op::kSlice, {{"axis", std::int64_t{1}}, {"start", std::int64_t{2}}, {"size", std::int64_t{3}}});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.all()[0].name, "axis");
  EXPECT_EQ(a.all()[2].name, "size");
  EXPECT_EQ(a[attr::kStart], 2);
}

TEST(AttributesTest, NamesOutliveTheTextTheyWereGivenAs) {
  Attributes attributes;
  {
    const std::string name = "dtype";
    attributes = Attributes(Op::kCast, {{name, DType::kBF16}});
    EXPECT_NE(attributes.all()[0].name.data(), name.data());
  }
  EXPECT_EQ(attributes[attr::kDType], DType::kBF16);
}

TEST(AttributesTest, RefuseMissingUnknownRepeatedAndMistypedOnes) {
  expect_error([] { Attributes(Op::kLayerNorm, {}); }, "layer_norm needs the attribute eps");
  expect_error([] { Attributes(Op::kAdd, {{"eps", 1.0}}); }, "add has no attribute called \"eps\"");
  expect_error([] { Attributes(Op::kLayerNorm, {{"eps", 1.0}, {"eps", 2.0}}); }, "eps twice");
  expect_error(
      [] {
        Attributes(Op::kLayerNorm, {{"eps", std::int64_t{1}}});
      },
      "attribute eps of layer_norm must be a number, but was given an integer");
  expect_error([] { Attributes(Op::kCast, {{"dtype", std::string("f32")}}); }, "must be a dtype");
}

TEST(AttributesTest, FlagsAndEnumsMayBeGivenAsInText) {
  EXPECT_EQ(Attributes(Op::kMatmul, {{"tf32", std::int64_t{1}}}), Attributes(Op::kMatmul, {{attr::kTf32, true}}));
  EXPECT_EQ(Attributes(Op::kLinear, {{"epilogue", std::string("gelu_erf(sum)")}}),
            Attributes(Op::kLinear, {{attr::kEpilogue, Epilogue(Activation::kGeluErf)}}));
  const NamedAttribute size{attr::kImageSize, Ints{4, 4}};
  EXPECT_EQ(Attributes(Op::kResize2d, {size, {"mode", std::string("bilinear")}}),
            Attributes(Op::kResize2d, {size, {attr::kMode, ResizeMode::kBilinear}}));
  expect_error(
      [] {
        Attributes(Op::kMatmul, {{"tf32", std::int64_t{2}}});
      },
      "matmul: tf32 must be 0 or 1, but was given 2");
  expect_error(
      [&] {
        Attributes(Op::kResize2d, {size, {"mode", std::string("cubic")}});
      },
      "resize2d: mode must be one of nearest, bilinear, but was given \"cubic\"");
}

TEST(AttributesTest, AskingForAnUnknownOneIsABug) {
  EXPECT_FALSE(Attributes(Op::kAdd, {}).has(attr::kAxis));
  EXPECT_THROW((void)Attributes(Op::kAdd, {})[attr::kAxis], std::logic_error);
  EXPECT_THROW((void)Attributes(Op::kAdd, {}).with(attr::kAxis, 1), std::logic_error);
  const Attributes resize(Op::kResize2d, {{attr::kImageSize, {4, 4}}});
  EXPECT_FALSE(resize.has(attr::kExtent)) << "a slice's, of the same name";
  EXPECT_THROW((void)resize.with(attr::kExtent, 3), std::logic_error);
}

TEST(AttributesTest, WithChangesOneAndKeepsTheOthers) {
  const Attributes linear(Op::kLinear, {{"epilogue", std::string("silu(sum)")}, {"tf32", std::int64_t{1}}});
  const Attributes plain = linear.with(attr::kEpilogue, Epilogue());
  EXPECT_EQ(plain, Attributes(Op::kLinear, {{"tf32", std::int64_t{1}}}));
  EXPECT_EQ(linear[attr::kEpilogue], Epilogue(Activation::kSilu));
}

TEST(OperandsTest, OptionalOnesFollowAndRolesAreNamedOnce) {
  for (const OpSchema& schema : all_ops()) {
    std::set<Role> roles;
    bool optional = false;
    for (const OperandSchema& operand : schema.operands) {
      EXPECT_TRUE(roles.insert(operand.role).second) << schema.name;
      EXPECT_TRUE(operand.optional || !optional) << schema.name;
      EXPECT_TRUE(!operand.many || &operand + 1 == schema.operands.end()) << schema.name;
      optional = operand.optional;
    }
    EXPECT_EQ(operands_of(schema.op).most(), schema.operands.most()) << schema.name;
  }
}

TEST(OperandsTest, AreFoundByRole) {
  static_assert(position_of(Op::kConv2dShortcut, Role::kShortcut) == 4);
  EXPECT_EQ(position_of(Op::kScaledLinear, Role::kWeight), 2U);
  EXPECT_THROW((void)position_of(Op::kMatmul, Role::kWeight), std::logic_error);
  EXPECT_EQ(operands_of(Op::kLinear).least(), 2U);
  EXPECT_EQ(operands_of(Op::kLinear).most(), 3U);
  EXPECT_EQ(operands_of(Op::kConcat).at(7).role, Role::kPart);
  EXPECT_EQ(operands_of(Op::kConcat).most(), OperandList::kMost);
  EXPECT_EQ(operands_of(Op::kConstant).most(), 0U);
}

TEST(OperandsTest, ANodeGivesThemByRole) {
  Graph graph;
  Builder b(graph);
  const ValueId x = graph.add_input("x", {DType::kF32, Shape{2, 3}});
  const ValueId weight = graph.add_param("weight", {DType::kF32, Shape{4, 3}});
  b.linear(x, weight);
  const Node& linear = graph.nodes()[0];
  EXPECT_EQ(linear.input(Role::kX), x);
  EXPECT_EQ(linear.input(Role::kWeight), weight);
  EXPECT_EQ(linear.input(Role::kBias), kNoValue);
  EXPECT_THROW((void)linear.input(Role::kResidual), std::logic_error);
}

TEST(EpilogueTest, IsWrittenAndReadAsText) {
  for (const char* const text : {"sum", "gelu_tanh(sum)", "add(e0, sum)", "add(sum, e0)", "add(e0, mul(e1, sum))",
                                 "mul(e0, silu(add(sum, e1)))", "mul(sum, sum)"}) {
    EXPECT_EQ(Epilogue::parse(text).to_text(), text);
  }
  EXPECT_EQ(Epilogue::parse("sum"), Epilogue());
  EXPECT_TRUE(Epilogue::parse("sum").is_empty());
  EXPECT_EQ(Epilogue::parse(" add( e0 ,sum )").to_text(), "add(e0, sum)");
}

TEST(EpilogueTest, GrowsByOneOpOnItsResult) {
  const Epilogue gelu(Activation::kGeluErf);
  EXPECT_EQ(gelu.to_text(), "gelu_erf(sum)");
  EXPECT_EQ(gelu.then(Op::kMul, 1).to_text(), "mul(e0, gelu_erf(sum))");
  EXPECT_EQ(gelu.then(Op::kMul, 1).then(Op::kAdd).to_text(), "add(mul(e0, gelu_erf(sum)), e1)");
  EXPECT_EQ(Epilogue(Activation::kNone), Epilogue());
}

TEST(EpilogueTest, CountsItsOperands) {
  EXPECT_EQ(Epilogue(Activation::kSilu).operand_count(), 0U);
  EXPECT_EQ(Epilogue::parse("add(e0, mul(e1, sum))").operand_count(), 2U);
  EXPECT_EQ(Epilogue::parse("add(e0, mul(e0, sum))").operand_count(), 1U);
}

TEST(EpilogueTest, IsEvaluatedInTheOrderOfItsOperands) {
  const std::vector<double> operands = {10, 3};
  const double value = Epilogue::parse("sub(e0, div(sum, e1))")
                           .evaluate(6.0, std::span<const double>(operands), [](Op op, std::span<const double> args) {
                             return op == Op::kSub ? args[0] - args[1] : args[0] / args[1];
                           });
  EXPECT_EQ(value, 10 - 6.0 / 3);
}

TEST(EpilogueTest, RefusesOtherTexts) {
  const auto reading = [](const char* text) { return [text] { (void)Epilogue::parse(text); }; };
  EXPECT_THAT(reading("softmax(sum)"), ThrowsMessage<Error>(HasSubstr("\"softmax\", which is neither")));
  EXPECT_THAT(reading("mul_scalar(sum)"), ThrowsMessage<Error>(HasSubstr("without attributes")));
  EXPECT_THAT(reading("gate_residual(e0, e1, sum)"), ThrowsMessage<Error>(HasSubstr("which is neither")));
  EXPECT_THAT(reading("less(sum, e0)"), ThrowsMessage<Error>(HasSubstr("which is neither"))) << "of bool";
  EXPECT_THAT(reading("select(e0, e1, sum)"), ThrowsMessage<Error>(HasSubstr("which is neither")));
  EXPECT_THAT(reading("add(sum)"), ThrowsMessage<Error>(HasSubstr("no ','")));
  EXPECT_THAT(reading("add(e1, sum)"), ThrowsMessage<Error>(HasSubstr("leaves out e0")));
  EXPECT_THAT(reading("add(e0, e1)"), ThrowsMessage<Error>(HasSubstr("has no sum")));
  EXPECT_THAT(reading("silu(sum) x"), ThrowsMessage<Error>(HasSubstr("more after its end")));
  std::string deep = "sum";
  for (int i = 0; i < 1000; ++i) deep = "silu(" + deep + ")";
  EXPECT_THAT(reading(deep.c_str()), ThrowsMessage<Error>(HasSubstr("nested more than")));
}

TEST(EpilogueTest, TellsTheFormsOfLibraries) {
  const auto form = [](const char* text) { return form_of(Epilogue::parse(text)); };
  EXPECT_EQ(form("sum")->activation, Activation::kNone);
  EXPECT_EQ(form("silu(sum)")->activation, Activation::kSilu);
  for (const char* const text : {"add(e0, sum)", "add(sum, e0)"}) {
    EXPECT_EQ(form(text)->activation, Activation::kNone);
    EXPECT_TRUE(form(text)->adds_operand);
  }
  for (const char* const text : {"relu(add(e0, sum))", "relu(add(sum, e0))"}) {
    EXPECT_EQ(form(text)->activation, Activation::kRelu);
    EXPECT_TRUE(form(text)->adds_operand);
  }
  for (const char* const other :
       {"mul(e0, sum)", "add(e0, relu(sum))", "add(sum, sum)", "add(e0, add(e1, sum))", "exp(sum)", "silu(silu(sum))"})
    EXPECT_FALSE(form(other)) << other;
}

}  // namespace
}  // namespace headroom
