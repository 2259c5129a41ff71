#include "passes/precision/fast_sums.hpp"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/switches.hpp"
#include "ir/text/text.hpp"

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

/// The sentences on the last result, [8, length], of nodes that read %x, one per line.
std::string reason_of(const std::string& node, std::int64_t length = 1024) {
  std::string text = "graph g {\n  input %x: f32[8, " + std::to_string(length) + "]\n  param %w: f32[" +
                     std::to_string(length) + ", " + std::to_string(length) + "]\n" + node + "  output y = %" +
                     std::to_string(std::ranges::count(node, '\n') - 1) + "\n}";
  std::string type = "f32[8, " + std::to_string(length) + "]";
  for (std::size_t at = 0; (at = text.find("TYPE", at)) != std::string::npos;) text.replace(at, 4, type);
  const Graph graph = parse_graph(text);
  return loss_of_fast_sums(graph, find_producers(graph), graph.outputs()[0].value);
}

TEST(FastSums, KnowsWhatIsNeverNegative) {
  for (const char* node : {"  %0: TYPE = relu(%x)\n", "  %0: TYPE = softmax(%x)\n", "  %0: TYPE = mul(%x, %x)\n",
                           "  %0: TYPE = linear(%x, %w) {epilogue = relu(sum)}\n",
                           "  %0: TYPE = exp(%x)\n  %1: TYPE = sigmoid(%x)\n  %2: TYPE = add(%0, %1)\n",
                           "  %0: TYPE = abs(%x)\n  %1: TYPE = sqrt(%0)\n  %2: TYPE = mul(%0, %1)\n"})
    EXPECT_THAT(reason_of(node), HasSubstr("never negative")) << node;
  for (const char* node :
       {"  %0: TYPE = neg(%x)\n", "  %0: TYPE = relu(%x)\n  %1: TYPE = mul(%0, %x)\n",
        "  %0: TYPE = relu(%x)\n  %1: TYPE = sub(%0, %0)\n", "  %0: TYPE = linear(%x, %w) {epilogue = silu(sum)}\n"})
    EXPECT_EQ(reason_of(node), "") << node;
  EXPECT_EQ(reason_of("  %0: TYPE = relu(%x)\n", 64), "") << "so short a sum loses less than bfloat16";
  EXPECT_THAT(reason_of("  %0: TYPE = neg(%x)\n", 12288), HasSubstr("long sums"));
}

/// A record of the pass fp8 with one lossy note on these nodes, and one on others that it kept.
PassRecord fp8_record(std::vector<std::string> lossy) {
  return {.name = "fp8",
          .switch_name = "fp8",
          .rewrites = 1,
          .milliseconds = 0,
          .declined = {},
          .notes = {{.reason = "first layer", .nodes = {"embedder"}},
                    {.reason = "long sums", .nodes = std::move(lossy), .kind = NoteKind::kLossy}}};
}

TEST(FastSums, ASwitchSumsInF32WhatLoses) {
  const PassRecord record = fp8_record({"blocks.0.ff.net.2", "blocks.17.ff.net.2", "proj_out", "up.3"});
  constexpr std::string_view kPaths = "^(blocks.[0-9]+.ff.net.2|proj_out|up.3)$";
  for (const char* argument : {"", "fast"})
    EXPECT_EQ(switch_to_exact_sums(record, argument), fmt::format("fp8=exact:modules={}", kPaths)) << argument;
  EXPECT_EQ(switch_to_exact_sums(record, "exact:modules=a|b"), fmt::format("fp8=exact:modules=(a|b)|{}", kPaths))
      << "what is summed in f32 already stays so";
  EXPECT_EQ(switch_to_exact_sums(fp8_record({}), ""), "") << "nothing loses";
}

TEST(FastSums, AllIsSummedInF32WhereModulesCannotSayIt) {
  const PassRecord record = fp8_record({"blocks.0.ff"});
  for (const char* argument : {"fast:modules=ff", ":modules=ff", "exact:modules=a:modules=b"})
    EXPECT_EQ(switch_to_exact_sums(record, argument), "fp8=exact") << argument;
  EXPECT_EQ(switch_to_exact_sums(fp8_record({"linear"}), ""), "fp8=exact") << "a matmul without a path";
  const std::size_t most = kMaxSwitchText - std::string_view("exact:modules=^()$").size();
  const std::string longest(most, 'a');
  EXPECT_EQ(switch_to_exact_sums(fp8_record({longest}), ""), fmt::format("fp8=exact:modules=^({})$", longest));
  EXPECT_NO_THROW(static_cast<void>(SwitchSet::parse(switch_to_exact_sums(fp8_record({longest}), ""))));
  EXPECT_EQ(switch_to_exact_sums(fp8_record({longest + 'a'}), ""), "fp8=exact");
}

}  // namespace
}  // namespace headroom
