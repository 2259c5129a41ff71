#include "ir/epilogue.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "ir/op.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

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
  EXPECT_EQ(form("add(e0, relu(sum))")->activation, Activation::kRelu);
  for (const char* const other :
       {"mul(e0, sum)", "relu(add(e0, sum))", "add(sum, sum)", "add(e0, add(e1, sum))", "exp(sum)", "silu(silu(sum))"})
    EXPECT_FALSE(form(other)) << other;
}

}  // namespace
}  // namespace headroom
