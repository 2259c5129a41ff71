#include "ir/op.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

#include "base/error.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::Property;
using testing::Throws;

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
    EXPECT_LE(schema.min_inputs, schema.max_inputs) << schema.name;
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
  EXPECT_EQ(Attributes(Op::kLinear, {}).get_text("activation"), "none");
  EXPECT_EQ(Attributes(Op::kConv2d, {}).get_ints("stride"), (std::vector<std::int64_t>{1, 1}));
  EXPECT_EQ(Attributes(Op::kConv2d, {}).get_int("groups"), 1);
  const Attributes embedding(Op::kTimestepEmbedding, {{"dim", std::int64_t{8}}});
  EXPECT_EQ(embedding.get_float("max_period"), 10000.0);
  EXPECT_EQ(embedding.get_float("scale"), 1.0);
}

TEST(AttributesTest, KeepSchemaOrderWhateverTheOrderGiven) {
  const Attributes a(Op::kSlice, {{"size", std::int64_t{3}}, {"axis", std::int64_t{1}}, {"start", std::int64_t{2}}});
  const Attributes b(Op::kSlice, {{"axis", std::int64_t{1}}, {"start", std::int64_t{2}}, {"size", std::int64_t{3}}});
  EXPECT_EQ(a, b);
  EXPECT_EQ(a.all()[0].first, "axis");
  EXPECT_EQ(a.all()[2].first, "size");
  EXPECT_EQ(a.get_int("start"), 2);
}

TEST(AttributesTest, NamesOutliveTheTextTheyWereGivenAs) {
  Attributes attributes;
  {
    const std::string name = "dtype";
    attributes = Attributes(Op::kCast, {{name, DType::kBF16}});
    EXPECT_NE(attributes.all()[0].first.data(), name.data());
  }
  EXPECT_EQ(attributes.get_dtype("dtype"), DType::kBF16);
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

TEST(AttributesTest, AskingForAnUnknownOneIsABug) {
  EXPECT_FALSE(Attributes(Op::kAdd, {}).has("axis"));
  EXPECT_THROW((void)Attributes(Op::kAdd, {}).get_int("axis"), std::logic_error);
  EXPECT_THROW((void)Attributes(Op::kAdd, {}).with("axis", std::int64_t{1}), std::logic_error);
}

TEST(AttributesTest, WithChangesOneAndKeepsTheOthers) {
  const Attributes linear(Op::kLinear, {{"activation", std::string("silu")}, {"tf32", std::int64_t{1}}});
  const Attributes plain = linear.with("activation", std::string("none"));
  EXPECT_EQ(plain, Attributes(Op::kLinear, {{"tf32", std::int64_t{1}}}));
  EXPECT_EQ(linear.get_text("activation"), "silu");
  EXPECT_THROW((void)linear.with("activation", 1.0), std::logic_error);
}

}  // namespace
}  // namespace headroom
