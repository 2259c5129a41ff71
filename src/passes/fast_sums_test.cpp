#include "passes/fast_sums.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/text.hpp"

namespace headroom {
namespace {

using testing::HasSubstr;

TEST(FastSums, LosesWhatWasMeasuredAndMoreOfLongerSums) {
  EXPECT_DOUBLE_EQ(loss_of_positive_sum(128), 0.0006);
  EXPECT_NEAR(loss_of_positive_sum(512), 0.006, 1e-12);
  EXPECT_NEAR(loss_of_positive_sum(3072), 0.049, 1e-12);
  EXPECT_NEAR(loss_of_positive_sum(15360), 0.088, 1e-12);
  EXPECT_EQ(loss_of_positive_sum(1), loss_of_positive_sum(128));
  EXPECT_EQ(loss_of_positive_sum(1 << 20), loss_of_positive_sum(15360));
  for (std::int64_t length = 128; length < 15360; length *= 2)
    EXPECT_LT(loss_of_positive_sum(length), loss_of_positive_sum(2 * length)) << length;
}

/// What is said of %v, [8, length], which `node` makes of %x.
std::string reason_of(const std::string& node, std::int64_t length = 1024) {
  std::string text = "graph g {\n  input %x: f32[8, " + std::to_string(length) + "]\n  param %w: f32[" +
                     std::to_string(length) + ", " + std::to_string(length) + "]\n" + node + "  output y = %v\n}";
  std::string type = "f32[8, " + std::to_string(length) + "]";
  for (std::size_t at = 0; (at = text.find("TYPE", at)) != std::string::npos;) text.replace(at, 4, type);
  const Graph graph = parse_graph(text);
  return loss_of_fast_sums(graph, graph.outputs()[0].value);
}

TEST(FastSums, KnowsWhatIsNeverNegative) {
  for (const char* node : {"  %v: TYPE = relu(%x)\n", "  %v: TYPE = softmax(%x)\n", "  %v: TYPE = mul(%x, %x)\n",
                           "  %v: TYPE = linear(%x, %w) {activation = \"relu\"}\n",
                           "  %a: TYPE = exp(%x)\n  %b: TYPE = sigmoid(%x)\n  %v: TYPE = add(%a, %b)\n",
                           "  %a: TYPE = abs(%x)\n  %b: TYPE = sqrt(%a)\n  %v: TYPE = mul(%a, %b)\n"})
    EXPECT_THAT(reason_of(node), HasSubstr("never negative")) << node;
  for (const char* node :
       {"  %v: TYPE = neg(%x)\n", "  %a: TYPE = relu(%x)\n  %v: TYPE = mul(%a, %x)\n",
        "  %a: TYPE = relu(%x)\n  %v: TYPE = sub(%a, %a)\n", "  %v: TYPE = linear(%x, %w) {activation = \"silu\"}\n"})
    EXPECT_EQ(reason_of(node), "") << node;
  EXPECT_EQ(reason_of("  %v: TYPE = relu(%x)\n", 64), "") << "so short a sum loses less than bfloat16";
  EXPECT_THAT(reason_of("  %v: TYPE = neg(%x)\n", 12288), HasSubstr("long sums"));
}

}  // namespace
}  // namespace headroom
