#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "base/error.hpp"
#include "base/tensors/random.hpp"
#include "ir/builder.hpp"
#include "ir/infer.hpp"
#include "ir/test_util.hpp"
#include "ir/text/text.hpp"

namespace headroom {
namespace {

using testing::ElementsAre;
using testing_tools::evaluate;
using testing_tools::integers;
using Doubles = std::vector<double>;
using Given = NamedAttributes;

TEST(Constant, HasOneValueForAllOrOneForEach) {
  EXPECT_EQ(evaluate(Op::kConstant, {}, {{"values", Doubles{2}}, {"shape", Ints{2, 2}}}).reals, Doubles(4, 2));
  EXPECT_EQ(evaluate(Op::kConstant, {}, {{"values", Doubles{0.1}}}).reals, Doubles{0.1F});
  const OracleTensor each =
      evaluate(Op::kConstant, {}, {{"values", Doubles{1, -2, 3}}, {"shape", Ints{3, 1}}, {"dtype", DType::kI32}});
  EXPECT_EQ(each.type, (TensorType{DType::kI32, {3, 1}}));
  EXPECT_THAT(each.integers, ElementsAre(1, -2, 3));
}

void expect_constant_refused(Op op, const std::vector<TensorType>& in, Given given) {
  EXPECT_THROW((void)infer(op, Attributes(op, std::move(given)), in), Error);
}

TEST(Constant, RefusesWhatItsTypeDoesNotHold) {
  expect_constant_refused(Op::kConstant, {}, {{"values", Doubles{1, 2}}, {"shape", Ints{3}}});
  expect_constant_refused(Op::kConstant, {}, {{"values", Doubles{}}, {"shape", Ints{3}}});
  expect_constant_refused(Op::kConstant, {}, {{"values", Doubles{1}}, {"shape", Ints{0}}});
  expect_constant_refused(Op::kConstant, {}, {{"values", Doubles{0.5}}, {"dtype", DType::kI32}});
  expect_constant_refused(Op::kConstant, {}, {{"values", Doubles{300}}, {"dtype", DType::kU8}});
}

TEST(Constant, RoundTripsThroughText) {
  Graph graph("g");
  Builder b(graph);
  graph.add_output("y", b.constant({0.1, -std::numeric_limits<double>::infinity(), 1e-300}, {3}, DType::kBF16));
  graph.add_output("scalar", b.constant({7}, {}, DType::kI64));
  const Graph parsed = parse_graph(print(graph));
  EXPECT_EQ(print(parsed), print(graph));
  EXPECT_EQ(parsed.nodes()[0].attributes, graph.nodes()[0].attributes);
}

TEST(Random, IsTheStreamOfItsKeyFromItsOffsetOn) {
  const Given shape = {{"shape", Ints{3, 2}}};
  const OracleTensor both = evaluate(Op::kRandom, {integers({2}, {7, -1}, DType::kI64), integers({}, {3})}, shape);
  EXPECT_EQ(both.type, (TensorType{DType::kF32, {2, 3, 2}}));
  std::vector<float> first(6), second(6);
  fill_normal(first, 7, 3);
  fill_normal(second, ~std::uint64_t{0}, 3);
  for (std::size_t i = 0; i < 6; ++i) {
    EXPECT_EQ(both.reals[i], static_cast<double>(first[i]));
    EXPECT_EQ(both.reals[6 + i], static_cast<double>(second[i]));
  }
  const OracleTensor uniform = evaluate(Op::kRandom, {integers({1}, {7}), integers({}, {3}, DType::kI64)},
                                        {{"shape", Ints{6}}, {"distribution", std::string("uniform")}});
  fill_uniform(first, 7, 3);
  for (std::size_t i = 0; i < 6; ++i) EXPECT_EQ(uniform.reals[i], static_cast<double>(first[i]));
}

TEST(Random, RefusesOtherKeysAndDistributions) {
  const TensorType keys{DType::kI64, {2}}, offset{DType::kI32, {}};
  expect_constant_refused(Op::kRandom, {keys, keys}, {{"shape", Ints{3}}});
  expect_constant_refused(Op::kRandom, {offset, offset}, {{"shape", Ints{3}}});
  expect_constant_refused(Op::kRandom, {{DType::kF32, {2}}, offset}, {{"shape", Ints{3}}});
  expect_constant_refused(Op::kRandom, {keys, offset}, {{"shape", Ints{0}}});
  expect_constant_refused(Op::kRandom, {keys, offset}, {{"shape", Ints{3}}, {"distribution", std::string("cauchy")}});
}

}  // namespace
}  // namespace headroom
